"""The tool that scores translators on several sets."""

import re
import runpy
from pathlib import Path

import pytest
from zoo.tiny_entry import ENGLISH, write_tiny_entry

import keras_attention as ka
from keras_attention.cli.main import guarded

TOOL = runpy.run_path(str(Path(__file__).parents[3] / "recipes" / "tools" / "scores_by_domain.py"))


def test_references_of_one_source_are_grouped(tmp_path):
    (tmp_path / "set.tsv").write_text("de\tid\ten\nJa.\t1\tYes.\nDoch.\t2\tYes.\nNein.\t3\tNo.\n\t4\tX\n")
    assert TOOL["read_set"](tmp_path / "set.tsv", ("en", "de")) == (["Yes.", "No."], [["Ja.", "Doch."], ["Nein."]])
    assert TOOL["read_set"](tmp_path / "set.tsv", ("en", "de"), most=1) == (["Yes."], [["Ja.", "Doch."]])


@pytest.mark.slow
def test_own_answers_score_100(tmp_path, capsys):
    folder = write_tiny_entry(tmp_path / "tiny", about={"target_language": "de"}).folder
    answers = ka.load(folder).translate(ENGLISH)
    rows = "".join(f"{source}\t{answer or '-'}\n" for source, answer in zip(ENGLISH, answers, strict=True))
    (tmp_path / "own.tsv").write_text(f"en\tde\n{rows}", encoding="utf-8")
    TOOL["main"]([str(folder), "--languages", "en", "de", "--set", f"own={tmp_path / 'own.tsv'}"])
    found = capsys.readouterr().out
    assert re.search(rf"\| own \| {len(set(ENGLISH))} \| tiny \| [\d.]+ \| 100.00 \|", found)  # too short for BLEU
    assert "nrefs:" in found


def test_a_table_of_other_languages_is_refused(tmp_path, capsys):
    (tmp_path / "set.tsv").write_text("en\tfr\nYes.\tOui.\n")
    call = lambda: TOOL["read_set"](tmp_path / "set.tsv", ("en", "de"))  # noqa: E731
    assert guarded(call, "scores_by_domain.py") == 2
    assert "needs the columns en and de. Received: en, fr" in capsys.readouterr().err
