"""The chapters of the course: their cells run and print what stands below them, and solutions pass the checks."""

import ast
import contextlib
import io
import json
import re
from pathlib import Path

import keras
import matplotlib
import numpy as np
import pytest

import keras_attention

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "course").glob("*.ipynb"))
# Chapters that train for more than a few seconds
TRAINING = ("00_tour", "01_why_attention", "05_positions", "07_transformer", "08_bert", "10_beyond_text")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
HEAD = re.compile(r"# Exercise (\d+\.\d+): ")

NUMBER = re.compile(r"-? ?\d+(?:\.\d*)?")  # with the blank that a sign may need


def numbers(text):
    """The numbers in a text: their last digits depend on the machine."""
    return [float(number.replace(" ", "")) for number in NUMBER.findall(text)]


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def code_of(cell):
    return "".join(cell["source"])


def tag_of(cell):
    return cell["metadata"].get("tags", [None])[0]


def solutions(path):
    """The code of each solved exercise, by its number."""
    file = path.parent / "solutions" / f"{path.stem}.md"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    parts = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {HEAD.match(part).group(1): part for part in parts}


def run_cells(path, solved):
    """Yields (cell, what it printed), with the solutions in the place of the exercises if `solved`."""
    namespace, answers = {"__name__": "__main__"}, solutions(path)
    for cell in cells(path):
        if cell["cell_type"] != "code" or tag_of(cell) == "install":
            continue
        code = code_of(cell)
        if solved and tag_of(cell) == "exercise":
            code = answers[HEAD.match(code).group(1)]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, path.name, "exec"), namespace)
        yield cell, printed.getvalue()
    matplotlib.pyplot.close("all")


@pytest.fixture(autouse=True)
def work_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(matplotlib.rcParams, "backend", "agg", raising=False)


def marked(path):
    return pytest.param(path, id=path.stem, marks=pytest.mark.thorough if path.stem in TRAINING else pytest.mark.slow)


@pytest.mark.parametrize("path", map(marked, CHAPTERS))
def test_a_chapter_prints_its_stored_output(path):
    for cell, printed in run_cells(path, solved=False):
        stored = ["".join(out["text"]) for out in cell["outputs"] if out["output_type"] == "stream"]
        assert NUMBER.sub("0", printed) == NUMBER.sub("0", "".join(stored)), code_of(cell)
        assert numbers(printed) == pytest.approx(numbers("".join(stored)), abs=0.02), code_of(cell)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in CHAPTERS if path.stem in TRAINING], ids=lambda path: path.stem)
def test_a_chapter_runs_with_a_single_update_of_each_training(path, monkeypatch):
    fit, finetune = keras.Model.fit, keras_attention.finetune
    short = {"epochs": 1, "steps_per_epoch": 1}
    monkeypatch.setattr(keras.Model, "fit", lambda *args, **options: fit(*args, **options | short))
    monkeypatch.setattr(
        keras_attention, "finetune", lambda *args, **options: finetune(*args, **options | {"epochs": 1})
    )
    verdicts = [printed for cell, printed in run_cells(path, solved=False) if tag_of(cell) == "check"]
    assert all("is right" not in verdict for verdict in verdicts)  # nothing is solved


@pytest.mark.parametrize("path", map(marked, CHAPTERS))
def test_the_solutions_pass_the_checks(path):
    verdicts = [printed for cell, printed in run_cells(path, solved=True) if tag_of(cell) == "check"]
    assert verdicts == [f"{number} is right\n" for number in solutions(path)]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_exercises_are_open_and_have_solutions(path):
    """The first line of a solution is that of its exercise; a check follows each exercise."""
    cells_of_chapter = cells(path)
    code = [cell for cell in cells_of_chapter if cell["cell_type"] == "code"]
    exercises = [code_of(cell) for cell in code if tag_of(cell) == "exercise"]
    assert [HEAD.match(text).group(1) for text in exercises] == list(solutions(path))
    for text, solution in zip(exercises, solutions(path).values(), strict=True):
        assert text.splitlines()[0] == solution.splitlines()[0]
        assert text.splitlines()[-1].endswith(" = ...")
        ast.parse(solution)
    for before, after in zip(code, code[1:], strict=False):
        assert (tag_of(before) == "exercise") == (tag_of(after) == "check")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_opens_in_colab_and_installs_itself(path):
    cells_of_chapter = cells(path)
    number, title = re.match(r"# (\d+)\. (.+)", code_of(cells_of_chapter[0])).groups()
    assert int(number) == int(path.stem[:2])
    assert f"colab.research.google.com/github/keras-attention/keras-attention/blob/main/course/{path.name}" in code_of(
        cells_of_chapter[1]
    )
    assert tag_of(cells_of_chapter[2]) == "install"
    page = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    assert title in page
    assert f"colab.research.google.com/github/keras-attention/keras-attention/blob/main/course/{path.name}" in page
    assert path.stat().st_size < 400_000


@pytest.mark.parametrize("loaded", ["0.1", np.__version__])
def test_the_install_cell_says_when_the_session_must_be_restarted(loaded, monkeypatch, capsys):
    """In Colab, an older NumPy than the one that was just installed may be loaded."""
    (cell,) = {code_of(cells(path)[2]) for path in CHAPTERS}  # the same in each chapter
    commands = []
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("subprocess.run", lambda command, check: commands.append(command[-1]))
    monkeypatch.setattr(np, "__version__", loaded)
    exec(cell, {})
    assert commands == ["git+https://github.com/keras-attention/keras-attention"]
    assert ("restart the session" in capsys.readouterr().out) == (loaded == "0.1")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_links_of_a_chapter_have_targets(path):
    for cell in cells(path):
        for target in LINK.findall(code_of(cell)) if cell["cell_type"] == "markdown" else ():
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_names_its_solutions_and_the_list_of_chapters(path):
    text = "".join(code_of(cell) for cell in cells(path) if cell["cell_type"] == "markdown")
    assert "](../docs/course.md)" in text
    assert (f"](solutions/{path.stem}.md)" in text) == bool(solutions(path))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_stored_outputs_have_no_terminal_codes(path):
    for cell in cells(path):
        printed = "".join("".join(out.get("text", "")) for out in cell.get("outputs", ()))
        assert "\x1b" not in printed, code_of(cell)


def test_the_list_of_questions_names_each_exercise_once():
    page = (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    _, questions = page.split("## Questions that lectures ask")
    named = re.findall(r"\d+\.\d+", "".join(re.findall(r"\|([\d., ]+)\|$", questions, re.MULTILINE)))
    exercises = [number for path in CHAPTERS for number in solutions(path)]
    assert sorted(named) == sorted(exercises)
