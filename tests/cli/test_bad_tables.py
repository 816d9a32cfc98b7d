"""Bad tables and parallel files end a command with one line that says where and how to mend it; odd ones are read."""

import pytest
from cli import bad_tables

from keras_attention.cli import translate
from keras_attention.finetuning import workflow as finetune
from keras_attention.pipelines.translator import Translation
from keras_attention.support.errors import UserError


class Stop(UserError):
    """Ends a command when it has read what it was to read."""


@pytest.fixture
def read(monkeypatch):
    """What the commands have read, a list that fills."""
    results = []

    def learn(examples, *arguments, **options):
        results.append((examples.texts, examples.labels))
        raise Stop("read")

    class Echo:
        def hypotheses(self, texts, **options):
            results.append(texts)
            return [[Translation(text, 0.0, [], [], None, None, 0.0, False, False)] for text in texts]

    monkeypatch.setattr(translate, "load", lambda entry, task: Echo())
    monkeypatch.setattr(finetune, "starting_classifier", learn)
    monkeypatch.setattr(finetune, "finetune_classifier", learn)
    return results


def finetuned(path):
    return ("finetune", path, "--from", "none", "--text", "text", "--label", "label", "--out", path.parent / "out")


@pytest.mark.parametrize(("suffix", "content", "named"), bad_tables.BAD_TABLES.values(), ids=bad_tables.BAD_TABLES)
def test_bad_tables(run, tmp_path, suffix, content, named):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(content)
    code, _, error = run(*finetuned(path))
    assert (code, error.count("\n")) == (2, 1)
    assert [part for part in [str(path), *named] if part not in error] == []
    assert len(error) < len(str(path)) + 500
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("suffix", "source", "target", "named"), bad_tables.BAD_PAIRS.values(), ids=bad_tables.BAD_PAIRS
)
def test_bad_pairs_of_files(complains, tmp_path, suffix, source, target, named):
    paths = [tmp_path / f"source{suffix}", tmp_path / f"target{suffix}"]
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    error = complains("evaluate", "--model", "tiny", "--source", paths[0], "--target", paths[1])
    assert [part for part in named if part not in error] == []
    assert str(paths[0]) in error or str(paths[1]) in error


@pytest.mark.parametrize(
    ("suffix", "content", "texts", "labels"), bad_tables.ODD_TABLES.values(), ids=bad_tables.ODD_TABLES
)
def test_odd_tables_are_read_exactly(run, read, tmp_path, suffix, content, texts, labels):
    path = tmp_path / f"table{suffix}"
    path.write_bytes(content)
    assert run(*finetuned(path))[0] == 2  # stopped where the training would begin
    assert read == [(texts, labels)]


@pytest.mark.parametrize(("content", "lines"), bad_tables.ODD_LINES.values(), ids=bad_tables.ODD_LINES)
def test_odd_lines_are_read_exactly(run, read, tmp_path, content, lines):
    (tmp_path / "some.en").write_bytes(content)
    assert run("translate", "--model", "tiny", "--input", tmp_path / "some.en")[0] == 0
    assert sum(read, []) == lines


def test_there_are_enough_of_them():
    assert len(bad_tables.BAD_TABLES) + len(bad_tables.BAD_PAIRS) >= 50
    assert len(bad_tables.ODD_TABLES) + len(bad_tables.ODD_LINES) >= 15
