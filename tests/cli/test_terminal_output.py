"""No terminal obeys the texts of a model, a table or a label; no empty name stands for something else."""

import io
import logging

import pytest
from zoo.tiny_bert import TEXTS, tiny_encoder, tiny_mask_filler, write_tiny

from keras_attention.cli.io.terminal import one_output_line, silent_libraries
from keras_attention.cli.io.text_files import plain_answers

HOSTILE = "\x1b[31mred\x07\x9b1m\r\x7f"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_tiny(folder / "filler", tiny_mask_filler().model)
    write_tiny(folder / "encoder", tiny_encoder())
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("fill-mask", "filler", f"A {HOSTILE} [MASK]"),
        ("fill-mask", "filler", f"A {HOSTILE}"),
        ("classify", "encoder", "--labels", f"{HOSTILE}a,b{HOSTILE}", TEXTS[0]),
        ("classify", "encoder", "--labels", f"{HOSTILE}a,b{HOSTILE}", TEXTS[0], "--top", "2"),
        ("similar", "encoder", TEXTS[0] + HOSTILE, "--query", f"a{HOSTILE}"),
    ],
)
def test_commands_print_no_control_characters(run, models, words):
    code, out, err = run(words[0], "--model", models / words[1], *words[2:])
    assert code in (0, 2)
    assert out or err
    assert all(sign.isprintable() or sign in "\n\t" for sign in out + err)


def test_a_table_on_a_terminal_has_no_control_characters(monkeypatch):
    for terminal, expected in ((True, "a [31mb\tc\n"), (False, "a\x1b[31mb\tc\n")):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr("sys.stdout", stream)
        with plain_answers(None) as answers:
            answers.write(["a\x1b[31mb\tc"], 1)
        assert stream.getvalue() == expected


def test_only_control_characters_are_replaced():
    text = "bleu\N{NO-BREAK SPACE}: a\N{ZERO WIDTH JOINER}\N{RIGHT-TO-LEFT MARK}\N{NARROW NO-BREAK SPACE}é"
    assert one_output_line(text) == text
    assert one_output_line("a\tb\nc\x1b\x85") == "a\tb c  "
    assert one_output_line("a\tb", keep="") == "a b"


@pytest.mark.parametrize(
    "words",
    [
        ("zoo", "verify", ""),
        ("zoo", "show", ""),
        ("warm", ""),
        ("classify", "--model", "tiny", "--input", "", "a"),
        ("classify", "--model", "tiny", "--table", ""),
        ("classify", "--model", "tiny", "--output", "", "a"),
        ("classify", "--model", "tiny", "--explain", "", "a"),
        ("classify", "--model", "", "a"),
        ("translate", "--model", "tiny", "--attention", "", "a"),
        ("evaluate", "--model", "tiny", "--source", "", "--target", "x"),
        ("finetune", "", "--text", "a", "--label", "b"),
        ("finetune", "x.csv", "--text", "a", "--label", "b", "--validation", ""),
        ("finetune", "x.csv", "--text", "a", "--label", "b", "--out", ""),
    ],
)
def test_an_empty_name_is_refused(complains, words):
    assert "Expected" in complains(*words)


def test_a_command_hears_no_advice_of_tensorflow():
    logger = logging.getLogger("tensorflow")
    before = logger.level
    try:
        logger.setLevel(logging.INFO)
        with silent_libraries():
            import tensorflow  # noqa: F401
        assert not logger.isEnabledFor(logging.WARNING)  # such as of functions that are traced again
        assert logger.isEnabledFor(logging.ERROR)
    finally:
        logger.setLevel(before)
