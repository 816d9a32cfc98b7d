"""`translate --prefix`, `--terms` and `--do-not-translate`."""

import pytest
from cli.running import translator
from zoo.tiny_entry import ENGLISH

from keras_attention.pipelines.control.alternatives import Alternative
from keras_attention.pipelines.translations import Translation
from keras_attention.pipelines.translator import Translator


@pytest.mark.slow
def test_answers_begin_with_the_prefix_and_a_run_with_another_one_is_another(run, complains, tmp_path):
    answer = translator().translate(ENGLISH[0], prefix="20")
    assert run("translate", "--model", "tiny", "--prefix", "20", ENGLISH[0])[:2] == (0, f"{answer}\n")
    (tmp_path / "terms.tsv").write_text("dog\t7\n")
    answer = translator().translate(ENGLISH[0], terms={"dog": "7"})
    code, out, _ = run("translate", "--model", "tiny", "--terms", tmp_path / "terms.tsv", ENGLISH[0])
    assert (code, out) == (0, f"{answer}\n")


def test_alternatives_are_lines_with_word_probability_and_translation(run, complains, monkeypatch, tmp_path):
    actual = [
        Alternative("Zwei", 0.25, "Zwei ", Translation("Zwei Männer")),
        Alternative("Ein", 0.125, "Ein ", Translation("Ein Hund")),
    ]
    asked = (ENGLISH[0], 1, 2)
    found = {str(asked): actual, str((*asked, {"dog": "7"})): actual[1:]}
    monkeypatch.setattr(
        Translator,
        "alternatives",
        lambda _, *given, terms, do_not_translate: found[str((*given, terms) if terms else given)],
    )
    words = ("translate", "--model", "tiny", ENGLISH[0], "--alternatives", "2", "--position", "1")
    assert run(*words)[:2] == (0, "Zwei\t0.2500\tZwei Männer\nEin\t0.1250\tEin Hund\n")
    assert '"word": "Ein", "probability": 0.125, "translation": "Ein Hund"' in run(*words, "--json")[1]
    (tmp_path / "terms.tsv").write_text("dog\t7\n")
    assert run(*words, "--terms", tmp_path / "terms.tsv")[:2] == (0, "Ein\t0.1250\tEin Hund\n")
    assert "Found: --prefix" in complains(*words, "--prefix", "Ein")
    assert "Found: 2 texts" in complains(*words[:4], "another", *words[4:])
    assert "Found: --stream" in complains(*words, "--stream")
    assert "--position needs --alternatives N." in complains("translate", "--model", "tiny", "a", "--position", "1")


def test_a_model_of_characters_has_no_alternatives(complains):
    message = complains("translate", "--model", "tiny", ENGLISH[0], "--alternatives", "3")
    assert "writes characters, not words" in message


def test_demands_that_cannot_be_met_are_one_line(complains, tmp_path):
    words = ("translate", "--model", "tiny", ENGLISH[0])
    assert "The model cannot write 'Das'" in complains(*words, "--prefix", "Das")
    path = tmp_path / "terms.tsv"
    assert "terms.tsv" in complains(*words, "--terms", path)
    path.write_bytes(b"dog Hund\n")
    assert "line 1: found 'dog Hund'. Expected: a term, a tab, and its translation." in complains(
        *words, "--terms", path
    )
    path.write_bytes(b"dog\t\xff\n")
    assert "UTF-8" in complains(*words, "--terms", path)
    path.write_bytes(b"\n")
    assert "there is no name" in complains(*words, "--do-not-translate", path)
    path.write_bytes(b"dog\n")
    assert "between natural languages" in complains(*words, "--do-not-translate", path)
    assert "Leave out --prefix." in complains(*words, "--stream", "--prefix", "20")
