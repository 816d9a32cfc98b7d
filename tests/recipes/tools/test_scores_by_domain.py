"""The tool that scores translators on several sets."""

import runpy
from pathlib import Path

import pytest
from zoo.tiny_entry import ENGLISH, write_tiny_entry

import keras_attention as ka
from keras_attention.cli.main import guarded
from keras_attention.evaluation.translation_scores import bleu_tradition_b, chrf

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "scores_by_domain.py"))


def test_references_of_one_source_are_grouped(tmp_path):
    (tmp_path / "set.tsv").write_text("de\tid\ten\nJa.\t1\tYes.\nDoch.\t2\tYes.\nNein.\t3\tNo.\n\t4\tX\n")
    assert TOOL["read_set"](tmp_path / "set.tsv", ("en", "de")) == (["Yes.", "No."], [["Ja.", "Doch."], ["Nein."]])
    assert TOOL["read_set"](tmp_path / "set.tsv", ("en", "de"), most=1) == (["Yes."], [["Ja.", "Doch."]])


@pytest.mark.slow
def test_the_scores_are_those_of_the_answers(tmp_path, capsys):
    folder = write_tiny_entry(tmp_path / "tiny", about={"target_language": "de"}).folder
    sources = list(dict.fromkeys(ENGLISH))
    references = [[f"{text} {text}", text.upper()] for text in sources]
    lines = [f"{source}\t{one}\n" for source, both in zip(sources, references, strict=True) for one in both]
    (tmp_path / "own.tsv").write_text("en\tde\n" + "".join(lines), encoding="utf-8")
    TOOL["main"]([str(folder), "--languages", "en", "de", "--set", f"own={tmp_path / 'own.tsv'}"])
    answers = ka.load(folder).translate(sources)
    bleu, characters = bleu_tradition_b(answers, references), chrf(answers, references)
    actual = capsys.readouterr().out
    assert f"| own | {len(sources)} | tiny | {bleu.score:.2f} | {characters.score:.2f} |" in actual
    assert bleu.signature in actual
    assert characters.signature in actual


def test_a_table_of_other_languages_is_refused(tmp_path, capsys):
    (tmp_path / "set.tsv").write_text("en\tfr\nYes.\tOui.\n")
    call = lambda: TOOL["read_set"](tmp_path / "set.tsv", ("en", "de"))  # noqa: E731
    assert guarded(call, "scores_by_domain.py") == 2
    assert "needs the columns en and de. Received: en, fr" in capsys.readouterr().err
