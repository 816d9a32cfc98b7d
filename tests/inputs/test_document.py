"""The sentences of documents."""

import pytest

from keras_attention.inputs.document import DocumentInput


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It cost 3.5 dollars... Then he left.", ["It cost 3.5 dollars...", "Then he left."]),
        ('He said "Stop!" and left. (No!) Yes', ['He said "Stop!"', "and left.", "(No!)", "Yes"]),
        ("Mr. Smith met Dr. J. Doe. They ate.", ["Mr. Smith met Dr. J. Doe.", "They ate."]),
        ("No end<br /><br />A new line<BR>and\r\nanother", ["No end", "A new line", "and", "another"]),
        (" \n <br /> . ", ["."]),
        ("", []),
        (" \t\n", []),
        ("no mark", ["no mark"]),
    ],
)
def test_sentences(text, sentences):
    assert [text[start:end] for start, end in DocumentInput.sentences(text)] == sentences


def test_the_time_is_linear():
    text = "." * 30_000 + " a.b" * 30_000 + "<br " * 30_000 + "Mr. " * 30_000
    assert DocumentInput.sentences(text)[-1][1] == len(text) - 1
