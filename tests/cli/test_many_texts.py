"""Long files: window by window, in order, and on from where an interruption left off."""

import io
import json
import resource
import sys
from types import SimpleNamespace

import pytest
from cli.running import translator
from plain_graphs import GraphsOfThisProcess
from zoo.tiny_bert import TEXTS, tiny_classifier, write_tiny
from zoo.tiny_entry import ENGLISH
from zoo.tiny_gpt import tiny_generator

from keras_attention.cli import translate
from keras_attention.cli.io import many_texts
from keras_attention.cli.io import terminal as terminal_module
from keras_attention.cli.io.many_texts import Job, ProgressLine
from keras_attention.inputs import token_sequences
from keras_attention.pipelines import classifier
from keras_attention.support import compile_cache

WINDOW = 5
SENTENCES = [["A dog runs.", "Men sit.", "", "A girl climbs.", "Men."][number % 5] for number in range(23)]


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(many_texts, "WINDOW", WINDOW)
    path = tmp_path / "some.en"
    path.write_text("\n".join(SENTENCES) + "\n")
    return path


@pytest.fixture
def breaks_off(monkeypatch):
    """Lets the translator break off in its third window, once."""

    class Breaking:
        def __init__(self, error):
            self.windows, self.error = [], error

        def hypotheses(self, texts, **options):
            self.windows.append(len(texts))
            if len(self.windows) == 3 and self.error:
                error, self.error = self.error, None
                raise error
            return translator().hypotheses(texts, **options)

    def arm(error):
        breaking = Breaking(error)
        monkeypatch.setattr(translate, "load", lambda entry, task: breaking)
        return breaking

    return arm


def command(source, *more):
    return ("translate", "--model", "tiny", "--input", source, "--output", source.with_name("some.de"), *more)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_windows_keep_the_order(run, source):
    expected = translator().translate(SENTENCES)
    assert run(*command(source))[:2] == (0, "")
    assert source.with_name("some.de").read_text().splitlines() == expected
    assert names(source.parent) == ["some.de", "some.en"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")])
@pytest.mark.slow
def test_an_interrupted_run_resumes(run, source, breaks_off, error):
    expected = translator().translate(SENTENCES)
    breaking = breaks_off(error)
    code, out, err = run(*command(source))
    assert (code, out) == (130 if isinstance(error, KeyboardInterrupt) else 2, "")
    assert "10 answers are stored" in err
    assert "Traceback" not in err
    assert names(source.parent) == ["some.de.partial", "some.de.partial.json", "some.en"]
    with source.with_name("some.de.partial").open("a") as file:
        file.write("half of a li")  # as a power failure might leave it
    breaking.windows.clear()
    assert run(*command(source, "--resume"))[:2] == (0, "")
    assert breaking.windows == [5, 5, 3]
    assert source.with_name("some.de").read_text().splitlines() == expected
    assert names(source.parent) == ["some.de", "some.en"]


@pytest.mark.slow
def test_without_resume_it_starts_anew(run, source, breaks_off):
    breaking = breaks_off(KeyboardInterrupt())
    assert run(*command(source))[0] == 130
    breaking.windows.clear()
    assert run(*command(source))[0] == 0
    assert sum(breaking.windows) == 23
    breaking.windows.clear()
    assert run(*command(source, "--resume"))[0] == 0  # nothing is left to go on with
    assert sum(breaking.windows) == 23


def test_another_job_is_not_continued(run, complains, source, breaks_off):
    breaks_off(KeyboardInterrupt())
    run(*command(source))
    assert "a different beam" in complains(*command(source, "--resume", "--beam", "2"))
    source.write_text(source.read_text().replace("dog", "cat"))
    assert "a different input" in complains(*command(source, "--resume"))
    source.with_name("some.de.partial.json").write_text("{}")
    assert "neither continued nor replaced" in complains(*command(source, "--resume"))
    assert "Give both" in complains("translate", "--model", "tiny", "--resume", "x")


def test_nothing_is_left_of_a_run_that_answered_nothing(run, source, monkeypatch):
    def fail(entry, task):
        raise KeyboardInterrupt

    monkeypatch.setattr(translate, "load", fail)
    assert run(*command(source))[0] == 130
    assert names(source.parent) == ["some.en"]


def test_a_full_disk(complains, source):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (31, before[1]))
    try:
        error = complains(*command(source, "--json"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "some.de cannot be written: File too large" in error
    assert names(source.parent) == ["some.en"]


def test_a_bad_line_is_reported_before_the_work(complains, source, monkeypatch):
    monkeypatch.setattr(translate, "load", None)
    with source.open("ab") as file:
        file.write(b"Gr\xfc\xdfe\n")
    assert "line 24, column 3" in complains(*command(source))
    assert names(source.parent) == ["some.en"]


@pytest.mark.slow
def test_cut_texts_are_numbered_over_all_windows(run, source):
    lines = [*SENTENCES[:8], "dog " * 90, *SENTENCES[8:12], "men " * 90]
    source.write_text("\n".join(lines))
    code, _, err = run(*command(source, "--json"))
    assert code == 0
    assert "2 of 14 texts (the first is number 9)" in err
    truncated = [json.loads(line)["truncated"] for line in source.with_name("some.de").read_text().splitlines()]
    assert [number for number, cut in enumerate(truncated, start=1) if cut] == [9, 14]


@pytest.mark.slow
def test_classify_reads_its_input_in_windows(run, complains, source, tmp_path):
    judge = tiny_classifier("multiclass")
    write_tiny(tmp_path / "judge", judge.model, task=judge.task)
    source.write_text("\n".join(TEXTS * 3))
    out = tmp_path / "labels"
    assert run("classify", "--model", tmp_path / "judge", "--input", source, "--output", out)[:2] == (0, "")
    assert [line.split()[0] for line in out.read_text().splitlines()] == judge.classify(TEXTS * 3)


def test_the_time_left_counts_what_this_run_did(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    now = [100.0]
    monkeypatch.setattr("keras_attention.cli.io.many_texts.time.monotonic", lambda: now[0])
    terminal = Terminal()
    progress = ProgressLine(terminal, before=60)
    now[0] += 10.0
    progress(80, 100)
    assert "80/100 sentences, 10 s, 10 s left" in terminal.getvalue()


@pytest.fixture
def note(run, monkeypatch):
    """Runs a command in a new process, so to speak, at a terminal or not: (stderr, stdout)."""

    class Terminal(io.StringIO):
        def isatty(self):
            return self.terminal

    def shown(*arguments, terminal=True, new=True):
        if new:
            monkeypatch.setattr(compile_cache, "_in_use", [GraphsOfThisProcess()])
        monkeypatch.setattr(translate, "load", terminal_module.load)
        monkeypatch.setattr(terminal_module.compiling_note, "_over", False)
        monkeypatch.setattr(sys, "stderr", stream := Terminal())
        stream.terminal = terminal
        code, out, _ = run(*arguments)
        assert code == 0
        assert out
        return stream.getvalue()

    return shown


NOTE = "\rcompiling (once) ... \x1b[K\r\x1b[K"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("translate",), ("translate", "--stream"), ("translate", "--n-best", "2", "--json")], ids=" ".join
)
def test_the_first_answer_of_a_new_model_says_that_it_compiles(note, command):
    """On a terminal, and gone before the answer is printed."""
    command = *command, "--model", "tiny", ENGLISH[0]
    assert note(*command) == NOTE
    assert note(*command, new=False) == ""  # the graph is stored
    assert note(*command, terminal=False) == ""


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--n", "2"), ("--json",)], ids=["pieces", "two", "json"])
def test_the_first_text_of_a_new_model_says_that_it_compiles(note, more, tmp_path):
    tiny_generator("char").save(tmp_path / "writer")
    command = "generate", "--model", tmp_path / "writer", "A dog", "--max-tokens", "3", *more
    assert note(*command) == NOTE
    assert note(*command, new=False) == ""
    assert note(*command, terminal=False) == ""


def test_a_limit_on_texts_that_are_read_whole_is_printed(run, tmp_path, monkeypatch):
    for module in (token_sequences, classifier):
        monkeypatch.setattr(module, "MOST_TOKENS_OF_WHOLE", 1_300)
    judge = tiny_classifier()
    write_tiny(tmp_path / "judge", judge.model, task=judge.task | {"long_texts": "whole"})
    words = ("classify", "--model", tmp_path / "judge", "--json")
    code, out, err = run(*words, "dog " * 1_301)
    assert (code, json.loads(out)["truncated"]) == (0, True)
    assert "more tokens than this model reads (1,300): their middle was left out" in err
    code, out, err = run(*words, "dog " * 1_300)
    assert (code, json.loads(out)["truncated"], err) == (0, False, "")


def test_the_parts_of_a_single_text_are_counted(monkeypatch):
    seen = []
    judge = tiny_classifier()
    judge.long_texts = "whole"
    judge.classify("dog " * 97, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 1


def test_a_continued_run_counts_its_own_answers(capsys):
    output = SimpleNamespace(done=3)
    output.write = lambda lines, done: setattr(output, "done", done)
    job = Job(iter(["d", "e"]), 5, output)
    for window in job.windows():
        assert window.first == 4
        job.write(["x", "y"], [False, True])
    job.report_truncated()
    assert job.answered == 2
    assert "1 of 2 texts (the first is number 5) have more tokens" in capsys.readouterr().err
