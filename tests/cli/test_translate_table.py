"""`translate --table`: a column is translated, and the table comes back with everything else as it was."""

import csv
import json

import pytest
from cli.running import translator
from zoo.tiny_entry import ENGLISH

from keras_attention.cli import translate
from keras_attention.cli.io import many_texts
from keras_attention.pipelines import language_pairs

ROWS = [[str(number), ENGLISH[number % 4], 'x,"y"\nz'] for number in range(11)]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(many_texts, "WINDOW", 7)
    path = tmp_path / "new.csv"
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";").writerows([["id", "caption", "note"], *ROWS])
    return path


def read(path, **options):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file, **options))


def words(table, *more):
    return ("translate", "--model", "tiny", "--table", table, "--text", "caption", *more)


def test_a_column_is_translated_and_all_else_stays(run, table):
    out = table.with_name("out.csv")
    assert run(*words(table, "--output", out)) == (0, "", f"keras-attention: {out}: 11 answers\n")
    header, *rows = read(out, delimiter=";")
    assert header == ["id", "caption", "note", "translation"]
    assert [row[:3] for row in rows] == ROWS
    assert [row[3] for row in rows] == translator().translate([row[1] for row in ROWS])
    assert out.read_bytes().startswith(b"\xef\xbb\xbf")
    code, printed, _ = run(*words(table))
    assert (code, printed) == (0, out.read_text())


def test_lines_of_json_blank_cells_and_a_column_that_exists(run, tmp_path):
    path = tmp_path / "new.jsonl"
    rows = [{"text": ENGLISH[0], "translation": "?"}, {"text": " "}, {"text": None}, {"text": ENGLISH[2]}, {"text": 5}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = run("translate", "--model", "tiny", "--table", path, "--skip-bad-rows")
    assert (code, "used 4, skipped 1 (1 value not a text)" in err) == (0, True)
    answers = translator().translate([ENGLISH[0], ENGLISH[2]])
    actual = [json.loads(line) for line in out.splitlines()]
    assert [one.pop("predicted_translation") for one in actual] == [answers[0], "", "", answers[1]]
    assert actual == rows[:4]


def test_tabs_and_formulas_in_a_translation_break_no_cell(run, tmp_path, monkeypatch):
    class Writing(type(translator())):
        def hypotheses(self, texts, **options):
            answers = iter(["=1+1", "a\tb\nc", "-5"])
            return [[best._replace(text=next(answers))] for best, *_ in super().hypotheses(texts, **options)]

    writing = translator().__copy__()
    writing.__class__ = Writing
    monkeypatch.setattr(translate, "load", lambda entry, task: writing)
    path = tmp_path / "new.tsv"
    path.write_text("".join(f"{text}\n" for text in ["text", *ENGLISH[:3]]))
    code, out, err = run("translate", "--model", "tiny", "--table", path)
    assert (code, [line.split("\t")[1] for line in out.splitlines()]) == (0, ["translation", "'=1+1", "a b c", "-5"])
    assert "1 translations have a ' before them" in err
    assert "\t=1+1\n" in run("translate", "--model", "tiny", "--table", path, "--raw")[1]


def test_the_language_of_the_column_chooses_the_model(run, table, monkeypatch):
    monkeypatch.setattr(language_pairs, "translators", lambda: [language_pairs.Pair("tiny", "en", "de", ())])
    code, out, err = run("translate", "--to", "de", "--table", table, "--text", "caption")
    assert (code, "tiny (English, detected, to German)" in err) == (0, True)
    assert out.splitlines()[0].endswith("id;caption;note;translation")


def test_an_interrupted_run_resumes(run, complains, table, monkeypatch):
    whole = translator()

    class Breaking(type(whole)):
        windows = 0

        def hypotheses(self, texts, **options):
            Breaking.windows += 1
            if Breaking.windows == 2:
                raise KeyboardInterrupt
            return super().hypotheses(texts, **options)

    breaking = whole.__copy__()
    breaking.__class__ = Breaking
    monkeypatch.setattr(translate, "load", lambda entry, task: breaking)
    out = table.with_name("out.csv")
    code, _, err = run(*words(table, "--output", out, "--no-split"))
    assert (code, "7 answers are stored" in err) == (130, True)
    assert "a different" in complains(*words(table, "--output", out, "--resume"))
    assert run(*words(table, "--output", out, "--no-split", "--resume"))[0] == 0
    assert [row[3] for row in read(out, delimiter=";")[1:]] == whole.translate([row[1] for row in ROWS])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--json",), "A table gets a column with the translations. Leave out --json."),
        (("--stream", "--n-best", "2"), "Leave out --n-best and --stream."),
        (("--format", "html"), "Leave out --format."),
        ((ENGLISH[0],), "Give texts as arguments, by --input or by --table, not by two of them."),
        (("--resume",), "--resume continues an interrupted run from --table to --output. Give both."),
        (("--text", "nowhere"), "there is no column 'nowhere'. The columns are: 'id', 'caption', 'note'."),
        (("--output", "out.jsonl"), "Expected: a name like new.csv"),
        (("--table", "missing.csv"), "missing.csv"),
    ],
)
def test_options_that_do_not_fit_are_one_line(complains, table, more, message):
    assert message in complains(*words(table, *more))


def test_options_of_tables_need_a_table(complains):
    for flags in (("--text", "caption"), ("--delimiter", ";"), ("--skip-bad-rows",), ("--raw",)):
        assert "is for tables: give --table FILE too." in complains("translate", "--model", "tiny", *flags, "a")
