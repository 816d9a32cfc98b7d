"""Pages for those who begin or come from elsewhere: their tables of code and commands are true."""

import re
import shlex
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, run_command

import keras_attention
from keras_attention.cli import main as cli
from keras_attention.data.tables.table import read_table
from keras_attention.support.errors import UserError

SECTIONS = re.split(r"^## ", PAGES["coming_from.md"], flags=re.MULTILINE)[1:]
ROWS = re.compile(r"^\| (.+?) \| `(.+)` \|$", re.MULTILINE)
ENTRIES = {path.parent.name for path in ROOT.glob("saved_models/*/manifest.json")}
CHOICES = re.findall(r"^\| (.+?) \| (.+?) \| `(.+)` \|$", PAGES["choose_a_model.md"], re.MULTILINE)


def right_column(name):
    """The cells of the right column of a section's table."""
    (section,) = (section for section in SECTIONS if section.startswith(name))
    return [cell for _, cell in ROWS.findall(section)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["From pipeline", "From SetFit", "From keras-hub"])
def test_the_right_column_runs_from_top_to_bottom(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, cells = {}, right_column(name)
    assert len(cells) >= 8
    for cell in cells:
        exec(compile(cell, name, "exec"), namespace)
    assert keras_attention.load(next(path for path in Path().iterdir() if path.is_dir()))


def test_each_row_has_code_on_both_sides():
    for section in SECTIONS:
        rows = [line for line in section.splitlines() if line.startswith("| ")][2:]
        assert len(rows) >= 8
        assert all(line.count(" | ") == 1 for line in rows)


def test_commands_for_those_from_opennmt_have_flags_that_exist():
    parser, recipe = cli.make_parser(), (ROOT / "recipes" / "transformer.py").read_text(encoding="utf-8")
    sources = [ROOT / "keras_attention" / name for name in ("training/run.py", "data/translation/pairs.py")]
    sources.append(ROOT / "keras_attention" / "data" / "translation" / "parallel_corpus.py")
    fields = "\n".join([recipe, *(path.read_text(encoding="utf-8") for path in sources)])
    for cell in right_column("From OpenNMT"):
        words = shlex.split(cell)
        if words[0] == "keras-attention":
            assert parser.parse_args(words[1:])
        elif words[0] == "python":
            flags = [word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")]
            assert all(re.search(rf"^    {flag}: ", fields, re.MULTILINE) for flag in flags), cell


def command_of(cell):
    return cell.replace("\\|", "|")


def test_the_models_of_the_page_exist_and_their_commands_are_commands():
    parser = cli.make_parser()
    assert len(CHOICES) >= 15
    for _, model, cell in CHOICES:
        assert all(name in ENTRIES for name in re.findall(r"`(\w+)`", model)), model
        command = command_of(cell).rpartition("| ")[2]
        assert parser.parse_args(shlex.split(command)[1:]), cell


@pytest.mark.thorough
@pytest.mark.parametrize("cell", [cell for _, _, cell in CHOICES if "finetune" not in cell])
def test_the_command_for_a_task_answers(cell, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved_models").symlink_to(ROOT / "saved_models")
    command = command_of(cell)
    if command.startswith("printf"):
        _, _, command = command.partition(" | ")
        command += " " + shlex.quote("It rains.\tThere is rain.")
    run_command(command)
    assert capfd.readouterr().out.strip() or (tmp_path / "vectors.npy").exists()


TROUBLES = {
    "there is no column 'review'": b"Review,mood\nA,b\n",
    "this is an Excel workbook": b"PK\x03\x04\x14",
    "invalid UTF-8": "review,mood\nSch\u00f6n und klug,good\n\u00f6de,bad\n".encode("cp1252"),
    "the file is UTF-16": "review,mood\nSch\u00f6n,good\n".encode("utf-16"),
    "too many fields: found 3": b"review,mood\nGood, really,good\nBad,bad\n",
    "a quote opens here and never closes": b'review,mood\n"Good film,good\nBad,bad\n',
    "its lines end with CR alone": b"review,mood\rGood,good\rBad,bad\r",
    "empty text": b"review,mood\nGood,good\n,bad\n",
}


@pytest.mark.parametrize("message", TROUBLES)
def test_the_messages_of_the_page_are_those_of_the_command(message, tmp_path):
    assert f"| {message}" in PAGES["tables.md"]
    (tmp_path / "table.csv").write_bytes(TROUBLES[message])
    with pytest.raises(UserError, match=re.escape(message)):
        read_table(tmp_path / "table.csv", "review", "mood")


@pytest.mark.parametrize("name", ["table.xlsx", "table.xls", "table.csv"])
def test_a_workbook_is_named_whatever_its_ending(name, tmp_path):
    content = b"\xd0\xcf\x11\xe0\xa1\xb1" if name == "table.xls" else b"PK\x03\x04\x14\x00"
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="this is an Excel workbook. In Excel or LibreOffice, save the sheet as CSV"):
        read_table(tmp_path / name, "review", "mood")


def test_the_scores_of_the_report_page_are_those_of_the_report():
    page = PAGES["report.md"]
    source = (ROOT / "keras_attention" / "evaluation" / "classification_scores.py").read_text(encoding="utf-8")
    names = ("accuracy", "macro-F1", "micro-F1", "exact match", "Matthews", "Pearson", "Spearman", "squared error")
    assert all(f'"{name}"' in source for name in names)
    table = page[page.index("| score |") :]
    assert all(name in table for name in names)
