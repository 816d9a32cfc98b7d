"""The command line: what it prints, where, and with which exit code; bad input is one line and exit code 2."""

import functools
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts, tiny_translator, write_tiny_entry

import keras_attention
from keras_attention import cli
from keras_attention.commands import text_files, translate
from keras_attention.commands.progress import ProgressLine
from keras_attention.zoo import finding
from keras_attention.zoo.translator import Translator

COMMAND = [sys.executable, "-m", "keras_attention"]


@functools.cache
def translator():
    """One translator for all tests, which keeps its compiled programs."""
    return tiny_translator()


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A folder with one entry."""
    folder = tmp_path_factory.mktemp("zoo")
    write_tiny_entry(folder / "tiny")
    return folder


@pytest.fixture
def run(zoo, monkeypatch, capsys):
    """Runs the command in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(zoo))
    monkeypatch.setattr(finding.zoo_folders, "__defaults__", (zoo / "nowhere",))
    monkeypatch.setattr(translate, "load", lambda folder: translator())

    def run_command(*arguments, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


@pytest.fixture
def complains(run):
    """Runs a command that must end with exit code 2 and one line on stderr, which is returned."""

    def run_command(*arguments, stdin=None):
        code, out, err = run(*arguments, stdin=stdin)
        assert (code, out) == (2, "")
        assert err.endswith("\n")
        assert err.count("\n") == 1
        assert err.startswith("keras-attention")
        assert "Traceback" not in err
        return err

    return run_command


# What it answers


def test_sentences_as_arguments(run):
    texts = [ENGLISH[0], "", ENGLISH[3]]
    expected = translator().translate(texts)
    assert run("translate", "--model", "tiny", *texts) == (0, "\n".join(expected) + "\n", "")


def test_sentences_from_standard_input_and_from_a_file(run, tmp_path):
    content = f"\ufeff{ENGLISH[0]}\r\n\n{ENGLISH[3]}\u2028\n".encode()
    expected = "\n".join(translator().translate([ENGLISH[0], "", ENGLISH[3]])) + "\n"
    assert run("translate", "--model", "tiny", stdin=content) == (0, expected, "")
    (tmp_path / "in.txt").write_bytes(content)
    output = tmp_path / "out.txt"
    assert run("translate", "--model", "tiny", "--input", tmp_path / "in.txt", "--output", output) == (0, "", "")
    assert output.read_text() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


def test_json(run):
    code, out, err = run("translate", "--model", "tiny", "--json", "--n-best", 3, ENGLISH[0], "")
    first, second = map(json.loads, out.splitlines())
    expected = translator().translate(ENGLISH[0], n_best=3)
    assert (code, err) == (0, "")
    assert [answer["text"] for answer in first["translations"]] == [answer.text for answer in expected]
    assert first["source"] == ENGLISH[0]
    assert first["source_tokens"][-1] == "</s>"
    assert first["truncated"] is False
    assert [answer["text"] for answer in second["translations"]] == [""]


def test_n_best_with_scores(run):
    _, out, _ = run("translate", "--model", "tiny", "--n-best", 3, ENGLISH[0])
    rows = [line.split("\t") for line in out.splitlines()]
    expected = translator().translate(ENGLISH[0], n_best=3)
    assert rows == [["1", f"{answer.score:.4f}", answer.text] for answer in expected]


def test_options_reach_the_search(run, monkeypatch):
    given = {}
    answers = translator().hypotheses([ENGLISH[0]])
    monkeypatch.setattr(Translator, "hypotheses", lambda self, texts, **options: given.update(options) or answers)
    options = "--beam 7 --n-best 1 --length-penalty 0.6 --coverage-penalty 0.2 --max-length 11 --replace-unknowns"
    run("translate", "--model", "tiny", *options.split(), ENGLISH[0])
    given.pop("progress")
    assert given == {
        "beam_size": 7,
        "n_best": 1,
        "length_penalty": 0.6,
        "coverage_penalty": 0.2,
        "max_length": 11,
        "replace_unknowns": True,
        "attention": False,
    }


def test_heat_maps(run, tmp_path):
    code, _, err = run("translate", "--model", "tiny", "--attention", tmp_path / "map.png", ENGLISH[0])
    assert (code, err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]
    run("translate", "--model", "tiny", "--attention", tmp_path / "more.svg", ENGLISH[0], "", ENGLISH[3])
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["more-1.svg", "more-3.svg"]


def test_low_score_is_said(run, monkeypatch):
    judge = Translator(*tiny_parts(), DECODING, low_score_threshold=-0.001)
    judge._compiled = translator()._compiled
    monkeypatch.setattr(translate, "load", lambda folder: judge)
    code, out, err = run("translate", "--model", "tiny", "", ENGLISH[0])
    assert (code, out) == (0, "\n" + translator().translate(ENGLISH[0]) + "\n")
    assert err.startswith("keras-attention: sentence 2: low score")


def test_very_long_line_is_cut_with_a_warning(run):
    started = time.perf_counter()
    code, out, err = run("translate", "--model", "tiny", stdin=b"A dog runs. " * 83_333 + b"\n")
    assert (code, out.count("\n"), err.count("\n")) == (0, 1, 1)
    assert "only their beginning was translated" in err
    assert time.perf_counter() - started < 10


def test_typed_sentences_are_answered_one_by_one(run, monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(f"{ENGLISH[0]}\n{ENGLISH[3]}".encode())))
    code, out, err = run("translate", "--model", "tiny")
    assert (code, out) == (0, "\n".join(translator().translate([ENGLISH[0], ENGLISH[3]])) + "\n")
    assert "Ctrl-D" in err


def test_evaluate(run, tmp_path):
    sources = [ENGLISH[0], ENGLISH[3], ENGLISH[0]]
    answers = translator().translate(sources)
    (tmp_path / "source").write_text("\n".join(sources) + "\n")
    (tmp_path / "target").write_text("\n".join([answers[0], "something else", answers[2]]) + "\n")
    files = ("--source", tmp_path / "source", "--target", tmp_path / "target")
    code, out, err = run("evaluate", "--model", "tiny", *files)
    assert (code, err) == (0, "")
    assert "3 sentences, 66.67 % exactly" in out
    assert "case:lc|eff:no|tok:none" in out
    assert "case:mixed|eff:no|tok:13a" in out
    assert "chrF2" in out
    report = json.loads(run("evaluate", "--model", "tiny", "--json", *files)[1])
    assert report["sentences"] == 3
    assert [(row["at_least"], row["sentences"]) for row in report["bleu_by_source_length"]] == [(0, 3)]
    perfect = ("--source", tmp_path / "source", "--target", tmp_path / "answers")
    (tmp_path / "answers").write_text("\n".join(answers) + "\n")
    report = json.loads(run("evaluate", "--model", "tiny", "--json", *perfect)[1])
    assert report["exact_match"] == report["chrf"]["score"] == 100.0


# The zoo


def test_zoo_list_and_show(run, zoo):
    code, out, _ = run("zoo", "list")
    assert code == 0
    assert out.startswith("tiny  en to ISO 8601, ")
    assert "BLEU A 38.61 (test2016)" in out
    (summary,) = json.loads(run("zoo", "list", "--json")[1])
    assert (summary["name"], summary["folder"]) == ("tiny", str(zoo / "tiny"))
    assert run("zoo", "show", "tiny")[1] == (zoo / "tiny" / "CARD.md").read_text()
    assert json.loads(run("zoo", "show", "--json", zoo / "tiny")[1])["config"]["source_language"] == "en"


def test_zoo_list_names_what_is_broken(run, zoo, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", f"{zoo}{os.pathsep}{tmp_path}")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    code, out, err = run("zoo", "list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["broken", "tiny"]
    assert "damaged" in out.splitlines()[0]
    code, out, _ = run("zoo", "verify", "broken")
    assert code == 1
    assert "not valid JSON" in out


def test_zoo_without_models(run, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path))
    code, out, err = run("zoo", "list")
    assert (code, out) == (0, "")
    assert str(tmp_path) in err


def test_zoo_verify(run, monkeypatch):
    monkeypatch.setattr("keras_attention.zoo.verify.load_translator", lambda folder: translator())
    assert run("zoo", "verify") == (0, "tiny: files sound, 2 examples reproduced\n", "")
    monkeypatch.setattr(Translator, "translate", lambda self, texts: ["1999-01-02"] * len(texts))
    code, out, _ = run("zoo", "verify", "tiny", "--json")
    (report,) = json.loads(out)
    assert (code, report["sound"], len(report["problems"])) == (1, False, 2)


# Bad input: one line, exit code 2, nothing written


def test_unknown_model(complains, tmp_path):
    assert "no model 'tyni'" in complains("translate", "--model", "tyni", "x")
    assert "Did you mean tiny" in complains("translate", "--model", "tyni", "x")
    assert "no saved model" in complains("translate", "--model", tmp_path, "x")
    assert "Received: ''" in complains("zoo", "show", "")


def test_bad_usage(complains):
    assert "--model" in complains("translate", "x")
    assert "unrecognized arguments: --beams" in complains("translate", "--model", "tiny", "--beams=3", "x")
    assert "invalid choice: 'translat'" in complains("translat")
    assert "invalid int value: 'five'" in complains("translate", "--model", "tiny", "--beam", "five", "x")
    assert "beam_size=0" in complains("translate", "--model", "tiny", "--beam", "0", "x")
    assert "beam size 3" in complains("translate", "--model", "tiny", "--n-best", "5", "x")
    assert "length_penalty=-1.0" in complains("translate", "--model", "tiny", "--length-penalty", "-1", "x")
    assert "not both" in complains("translate", "--model", "tiny", "--input", "f", "x")
    complains("translate", "--model", "tiny", "--be\nam", "x")


def test_input_that_cannot_be_read(complains, tmp_path):
    assert "nowhere" in complains("translate", "--model", "tiny", "--input", tmp_path / "nowhere")
    assert "folder" in complains("translate", "--model", "tiny", "--input", tmp_path)
    (tmp_path / "empty").touch()
    assert "empty" in complains("translate", "--model", "tiny", "--input", tmp_path / "empty")
    assert "empty" in complains("translate", "--model", "tiny", stdin=b"")
    (tmp_path / "latin").write_bytes(b"A dog.\n\nGr\xfc\xdfe\n")
    assert "line 3" in complains("translate", "--model", "tiny", "--input", tmp_path / "latin")
    error = complains("translate", "--model", "tiny", stdin=b"A dog.\n\nGr\xfc\xdfe\n")
    assert "line 3" in error
    assert "0xFC" in error


def test_output_that_cannot_be_written(complains, tmp_path, monkeypatch):
    def never(folder):
        raise AssertionError("the model was loaded before the output was checked")

    monkeypatch.setattr(translate, "load", never)
    for output in (tmp_path / "nowhere" / "out.txt", tmp_path):
        assert "cannot be written" in complains("translate", "--model", "tiny", "--output", output, "x")
    for picture in (tmp_path / "nowhere" / "map.png", tmp_path / "map.jpg"):
        assert "picture" in complains("translate", "--model", "tiny", "--attention", picture, "x")

    def forbidden(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(text_files.tempfile, "mkstemp", forbidden)
    assert "Permission denied" in complains("translate", "--model", "tiny", "--output", tmp_path / "out.txt", "x")
    assert not list(tmp_path.iterdir())


def test_output_of_a_run_that_fails_is_the_old_one(complains, tmp_path, monkeypatch):
    def fail(self, texts, **options):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Translator, "hypotheses", fail)
    (tmp_path / "out.txt").write_text("old")
    assert "Input/output error" in complains("translate", "--model", "tiny", "--output", tmp_path / "out.txt", "x")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_files_of_different_lengths(complains, tmp_path):
    (tmp_path / "three").write_text("a\nb\nc\n")
    (tmp_path / "two").write_text("a\nb\n")
    error = complains("evaluate", "--model", "tiny", "--source", tmp_path / "three", "--target", tmp_path / "two")
    assert "3 lines" in error
    assert "2" in error


def test_damaged_model(run, zoo, tmp_path, capsys):
    for name in ("manifest.json", "config.json"):
        (tmp_path / name).write_text("{}")
    code, _, err = run("zoo", "show", tmp_path)
    assert code == 2
    assert err.count("\n") == 1


def test_debug_shows_the_traceback(run):
    with pytest.raises(keras_attention.errors.UserError, match="no model"):
        run("translate", "--debug", "--model", "nothing", "x")


# The process around it


def test_interrupt(run, monkeypatch, tmp_path):
    def interrupted(self, texts, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "hypotheses", interrupted)
    code, out, err = run("translate", "--model", "tiny", "--output", tmp_path / "out.txt", "x")
    assert (code, out, err) == (130, "", "keras-attention: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_broken_pipe_is_quiet(zoo):
    environment = {**os.environ, "KERAS_ATTENTION_ZOO": str(zoo)}
    process = subprocess.Popen(
        [*COMMAND, "zoo", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() in (0, cli.BROKEN_PIPE, -signal.SIGPIPE)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["zoo", "list"], ["zoo", "show", "tiny"], ["translate", "--help"]]
)
def test_answers_without_tensorflow(zoo, arguments):
    program = (
        "import sys\nfrom keras_attention.cli import main\n"
        f"try:\n    code = main({arguments!r})\nexcept SystemExit as stop:\n    code = stop.code\n"
        "assert not code\n"
        "assert not {'tensorflow', 'keras', 'numpy', 'h5py', 'matplotlib'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "KERAS_ATTENTION_ZOO": str(zoo)}
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, env=environment)


@pytest.mark.slow
def test_the_whole_process_with_nothing_but_the_answer_on_its_streams(zoo, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    environment |= {"KERAS_ATTENTION_ZOO": str(zoo), "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [*COMMAND, "translate", "--model", "tiny", "--attention", "map.png", ENGLISH[0]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == translator().translate(ENGLISH[0]) + "\n"
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")


def test_progress_line_is_for_terminals_only():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        progress = ProgressLine(stream)
        progress(3, 7)
        progress(7, 7)
    assert "3/7 sentences" in terminal.getvalue()
    assert "s left" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert file.getvalue() == ""
