"""`classify --table`: the table comes back with its answers, whatever interrupts the command."""

import csv
import functools
import json

import pytest
from zoo.tiny_bert import LABELS, TEXTS, tiny_classifier, tiny_encoder, write_tiny

from keras_attention.cli import classify
from keras_attention.cli.io import many_texts

ROWS = [[str(number), TEXTS[number % 4], "x,y"] for number in range(13)]


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    """Callable: kind of task -> (folder, classifier)."""
    folder = tmp_path_factory.mktemp("judges")

    @functools.cache
    def judge(kind):
        one = tiny_classifier("multiclass", pair=True) if kind == "pair" else tiny_classifier(kind)
        return write_tiny(folder / kind, one.model, task=one.task).folder, one

    return judge


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(many_texts, "WINDOW", 5)
    path = tmp_path / "new.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "review", "note"], *ROWS])
    return path


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_number_has_no_labels_to_choose_from(complains, judges):
    for flags in (("--top", "2"), ("--threshold", "0.5")):
        assert "has no labels: leave out --top" in complains(
            "classify", "--model", judges("regression")[0], "a", *flags
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", LABELS)
def test_it_comes_back_with_label_and_probability(run, judges, table, kind):
    folder, judge = judges(kind)
    out = table.with_name("out.csv")
    assert run("classify", "--model", folder, "--table", table, "--text", "review", "--output", out)[:2] == (0, "")
    header, *rows = read(out)
    assert header == ["id", "review", "note", "label", "probability"]
    assert [row[:3] for row in rows] == ROWS
    for row, answer in zip(rows, judge.classify([row[1] for row in ROWS], return_scores=True), strict=True):
        if kind == "regression":
            assert (float(row[3]), row[4]) == (pytest.approx(answer.label, abs=1e-3), "")
        else:
            labels = answer.label if kind == "multilabel" else [answer.label]
            assert row[3] == "|".join(labels)
            expected = [answer.probabilities[label] for label in labels]
            assert [float(part) for part in row[4].split("|") if part] == pytest.approx(expected, abs=1e-4)
    code, printed, _ = run("classify", "--model", folder, "--table", table, "--text", "review")
    assert (code, printed.splitlines()[0]) == (0, "id,review,note,label,probability")


@pytest.mark.slow
def test_an_interrupted_run_resumes(run, complains, judges, table, monkeypatch):
    folder, judge = judges("multiclass")

    class Breaking(type(judge)):
        windows = 0

        def classify(self, texts, *more, **options):
            Breaking.windows += 1
            if Breaking.windows == 3:
                raise KeyboardInterrupt
            return super().classify(texts, *more, **options)

    breaking = Breaking(judge.model, judge.tokenizer, judge.max_tokens, judge.task)
    monkeypatch.setattr(classify, "load", lambda entry, task: breaking)
    out = table.with_name("out.csv")
    words = ("classify", "--model", folder, "--table", table, "--text", "review", "--output", out)
    code, _, err = run(*words)
    assert (code, "10 answers are stored" in err) == (130, True)
    assert names(table.parent) == ["new.csv", "out.csv.partial", "out.csv.partial.json"]
    assert "a different text" in complains(*words[:5], "--text", "note", "--output", out, "--resume")
    assert run(*words, "--resume")[:2] == (0, "")
    assert Breaking.windows == 4
    assert [row[3] for row in read(out)[1:]] == judge.classify([row[1] for row in ROWS])
    assert names(table.parent) == ["new.csv", "out.csv"]


def test_pairs_have_two_columns(run, complains, judges, table):
    folder, judge = judges("pair")
    out = table.with_name("out.csv")
    words = ("classify", "--model", folder, "--table", table, "--text", "review", "--output", out)
    assert run(*words, "--text-b", "note")[0] == 0
    expected = judge.classify([row[1] for row in ROWS], [row[2] for row in ROWS])
    assert [row[3] for row in read(out)[1:]] == expected
    assert "classifies pairs: give --text-b COLUMN" in complains(*words)
    other = ("classify", "--model", judges("binary")[0], *words[3:])
    assert "leave out --text-b" in complains(*other, "--text-b", "note")


def test_lines_of_json_and_bad_rows(run, complains, judges, tmp_path):
    folder, judge = judges("binary")
    path = tmp_path / "new.jsonl"
    texts = [TEXTS[0], " ", None, *TEXTS[1:], 7]
    path.write_text("".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in enumerate(texts)))
    assert "line 7, column 'text': value not a text" in complains("classify", "--model", folder, "--table", path)
    code, out, err = run("classify", "--model", folder, "--table", path, "--skip-bad-rows")
    assert (code, "used 6, skipped 1 (1 value not a text)" in err) == (0, True)
    labels = judge.classify(TEXTS)
    assert [json.loads(line)["label"] for line in out.splitlines()] == [labels[0], None, None, *labels[1:]]


@pytest.mark.parametrize("kind", ["binary", "multilabel", "regression"])
def test_a_blank_text_has_an_empty_answer_in_its_row(run, judges, tmp_path, kind):
    folder, _ = judges(kind)
    path = tmp_path / "new.csv"
    path.write_text('id,text\n2,A dog runs.\n3,\n5," \t"\n7,\u200b\n')
    code, out, err = run("classify", "--model", folder, "--table", path)
    assert (code, err) == (0, "")
    assert [line.count(",") for line in out.splitlines()] == [3] * 5
    assert out.splitlines()[2:] == ["3,,,", "5, \t,,", "7,\u200b,,"]
    code, out, _ = run("classify", "--model", folder, "A dog runs.", "", " ")
    assert (code, out.count("\n"), out.splitlines()[1:]) == (0, 3, ["", ""])
    code, out, _ = run("classify", "--model", folder, "--json", stdin=b"\nA dog runs.\n")
    assert json.loads(out.splitlines()[0]) == {"text": "", "label": None, "probabilities": {}, "truncated": False}
    assert json.loads(out.splitlines()[1])["label"] is not None


def test_options_that_do_not_fit(complains, judges, table):
    words = ("classify", "--model", judges("binary")[0])
    assert "no column 'text'" in complains(*words, "--table", table)
    assert "--text-b is for tables" in complains(*words, "--text-b", "note", "a")
    assert "not by two of them" in complains(*words, "--table", table, "a")
    assert "--top is for texts" in complains(*words, "--table", table, "--top", "2")
    assert "Give both" in complains(*words, "--table", table, "--resume")
    given = (*words, "--table", table, "--text", "review", "--output")
    assert "A name like" in complains(*given, table.with_name("a.jsonl")).replace("a name like", "A name like")
    assert "not be compressed" in complains(*given, table.with_name("a.csv.gz"))
    assert "its folder does not exist" in complains(*given, table.parent / "nowhere" / "a.csv")


def test_a_table_given_as_lines_gets_a_hint(run, judges, table):
    words = ("classify", "--model", judges("binary")[0], "--input", table)
    code, out, err = run(*words)
    assert (code, len(out.splitlines()), err.count("\n")) == (0, 14, 1)
    assert "is read as lines of text. For its columns: --table" in err


def test_without_a_model_the_choices_are_listed(complains, judges, monkeypatch, tmp_path):
    for kind in ("binary", "pair"):
        (tmp_path / kind).symlink_to(judges(kind)[0])
    write_tiny(tmp_path / "vectors", tiny_encoder())
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path))
    error = complains("classify", "a text")
    assert "--model is missing. Choices: binary, pair;" in error


def test_a_table_of_a_western_spreadsheet(run, complains, judges, tmp_path):
    folder, judge = judges("binary")
    path = tmp_path / "new.csv"
    path.write_bytes("review;note\r\nun caf\xe9;x,y\r\n".encode("windows-1252"))
    words = ("classify", "--model", folder, "--table", path, "--text", "review")
    assert "looks like Windows-1252" in complains(*words)
    (label,) = judge.classify(["un caf\xe9"])
    code, out, _ = run(*words, "--encoding", "windows-1252")
    assert (code, out.splitlines()[0]) == (0, "\N{ZERO WIDTH NO-BREAK SPACE}review;note;label;probability")
    assert out.splitlines()[1].startswith(f"un caf\xe9;x,y;{label};")
    assert "There is no encoding" in complains(*words, "--encoding", "klingon")


def test_lines_in_another_encoding(run, complains, judges, tmp_path):
    folder = judges("binary")[0]
    line = "un caf\xe9\n".encode("windows-1252")
    (tmp_path / "lines").write_bytes(line)
    words = ("classify", "--model", folder)
    given = ("--input", tmp_path / "lines")
    expected = run(*words, "un caf\xe9")
    assert expected[0] == 0
    assert "looks like Windows-1252" in complains(*words, *given)
    assert "looks like Windows-1252" in complains(*words, stdin=line)
    assert run(*words, *given, "--encoding", "cp1252") == run(*words, "--encoding", "cp1252", stdin=line) == expected
