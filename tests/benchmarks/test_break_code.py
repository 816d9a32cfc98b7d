"""Breaking code on purpose: which mistakes are made, in which lines, which tests are nearest, and what they notice."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

SOURCE = '''"""Halves 2 numbers if x < 3 and y."""


def nucleus(logits, top_p: float = 1.0, limit=7):
    """Not 1, and not 2: it is `min(places)`."""
    count = 0
    for place, value in enumerate(logits):  # 5 < 6
        if not value >= top_p and place < limit:
            continue
        count += place * 2
    text = f"{count + 1} of {limit}"
    tail = logits[count : limit - 1]
    count = min(count, len(tail)) if text else sorted(tail, key=abs)[0]
    if count is None:
        raise ValueError("none > 1")
    return count, True
'''


@pytest.fixture
def break_code(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import break_code

    return break_code


def broken_lines(break_code, source, numbers=None):
    """What each break makes of the first line that it changes."""
    encoded = source.encode()
    return [each.difference(encoded).split("   ->   ")[1] for each in break_code.breaks_of(encoded, "", numbers)]


@pytest.mark.parametrize("name", ["sampling", "beam_search"])
def test_each_break_is_valid_python_with_another_meaning(break_code, name):
    source = (BENCHMARKS.parent / "keras_attention" / "decoding" / f"{name}.py").read_bytes()
    lines = set(range(140, 160))
    actual = break_code.breaks_of(source, name, lines)
    assert len(actual) > 10
    for each in actual:
        broken = each.apply(source)
        assert ast.dump(ast.parse(broken)) != ast.dump(ast.parse(source))
        assert each.line in lines
    assert len({each.apply(source) for each in actual}) == len(actual)


def test_docstrings_comments_texts_and_type_hints_stay(break_code):
    source = SOURCE.encode()
    actual = break_code.breaks_of(source)
    assert actual
    for each in actual:
        broken = each.apply(source).decode()
        for text in ('"""Halves 2 numbers if x < 3 and y."""', '"""Not 1, and not 2', "# 5 < 6", "top_p: float"):
            assert text in broken
        assert "none > 1" in broken or "pass" in broken
        assert 'f"{count + 1} of {limit}"' in broken


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (4, {"top_p: float = 2.0, limit=7", "top_p: float = 1.0, limit=8"}),
        (6, {"count = 1"}),
        (
            8,
            {
                "if value >= top_p and place < limit:",
                "if not value > top_p and place < limit:",
                "if not value >= top_p or place < limit:",
                "if not value >= top_p and place <= limit:",
                "if not value >= top_p:",
                "if place < limit:",
            },
        ),
        (9, {"pass"}),
        (10, {"pass", "count -= place * 2", "count += place / 2", "count += place * 3"}),
        (12, {"tail = logits[(count) + 1 : limit - 1]", "tail = logits[count : limit + 1]"}),
        (
            13,
            {
                "count = max(count, len(tail)) if text else sorted(tail, key=abs)[0]",
                "count = sorted(tail, key=abs)[0] if text else min(count, len(tail))",
                "count = min(count, len(tail)) if text else sorted(tail)[0]",
                "count = min(count, len(tail)) if text else tail[0]",
                "count = min(count, len(tail)) if text else sorted(tail, key=abs)[1]",
                "pass",
            },
        ),
        (14, {"if count is not None:"}),
        (15, {"pass"}),
        (16, {"return count, False"}),
    ],
)
def test_the_mistakes_of_a_line(break_code, line, expected):
    lines = broken_lines(break_code, SOURCE, {line})
    lines = {text.removeprefix("def nucleus(logits, ").removesuffix("):") for text in lines} if line == 4 else {*lines}
    assert expected <= lines


def test_a_name_is_left_undefined_by_no_break(break_code):
    assert "pass" not in broken_lines(break_code, "def first(x):\n    y = x\n    return y\n")
    assert "pass" in broken_lines(break_code, "def first(x):\n    x = x.y\n    return x\n")


def test_changes_without_effect_are_left_out(break_code):
    assert broken_lines(break_code, "def nothing():\n    pass\n") == []
    assert broken_lines(break_code, "same = f(x, **{})\nif __name__ == '__main__':\n    f(1 + 1)\n") == ["same = f(x)"]


def test_operators_are_found_behind_brackets_comments_and_wide_letters(break_code):
    source = "é = (\n    (a)  # < here\n    < (b)\n)\n"
    (each,) = break_code.breaks_of(source.encode())
    assert each.apply(source.encode()).decode() == source.replace("    < (b)", "    <= (b)")


def test_changed_lines_are_read_from_a_difference(break_code):
    difference = (
        "diff --git a/keras_attention/a.py b/keras_attention/a.py\n--- a/keras_attention/a.py\n"
        "+++ b/keras_attention/a.py\n@@ -3 +5,2 @@ def f\n-x\n+y\n+z\n@@ -9,3 +11,0 @@\n-gone\n@@ -20 +19 @@\n"
        "diff --git a/keras_attention/b.html b/keras_attention/b.html\n+++ b/keras_attention/b.html\n@@ -1 +1 @@\n"
        "diff --git a/keras_attention/c.py b/keras_attention/c.py\n--- a/keras_attention/c.py\n+++ /dev/null\n"
    )
    assert break_code.changed_lines(difference) == {"keras_attention/a.py": {5, 6, 19}}


# A small repository


@pytest.fixture
def repository(tmp_path, break_code, monkeypatch):
    """A package of three files with tests of one; its last commit changed two lines of that one."""
    files = {
        "keras_attention/__init__.py": "",
        "keras_attention/numbers/__init__.py": "from keras_attention.numbers.half import half\n",
        "keras_attention/numbers/third.py": "from keras_attention.numbers import half\n\nTHIRD = 3\n",
        "keras_attention/numbers/alone.py": "ALONE = 3\n",
        "recipes/learn.py": "LEARN = 3\n",
        "tests/numbers/test_half.py": "from keras_attention.numbers.half import half\n\n\n"
        "def test_half():\n    assert half(6) == 3\n",
        "tests/test_both.py": "from keras_attention.numbers import half\nimport keras_attention.numbers.third\n\n\n"
        "def test_nothing():\n    assert half\n",
        "tests/recipes/test_recipes.py": "",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    names = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    git = ["git", "-C", tmp_path, *names]
    subprocess.run([*git, "init", "--quiet"], check=True)
    for number in (3, 2):
        text = f"SECRET = {number}\n\n\ndef half(x):\n    return x / {number}\n"
        (tmp_path / "keras_attention" / "numbers" / "half.py").write_text(text)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "--quiet", "-m", f"Divide by {number}"], check=True)
    import compare_commits

    monkeypatch.setattr(compare_commits, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("keras_attention/numbers/half.py", ["tests/numbers/test_half.py", "tests/test_both.py"]),
        ("keras_attention/numbers/third.py", ["tests/test_both.py"]),
        ("keras_attention/numbers/alone.py", ["tests/numbers"]),
        ("recipes/learn.py", ["tests/recipes"]),
    ],
)
def test_the_nearest_tests_mirror_a_file_or_import_it(break_code, repository, path, tests):
    assert break_code.nearest_tests(repository, path) == tests


def test_the_tests_of_modules_that_import_a_file_are_the_next(break_code, repository):
    (repository / "tests" / "numbers" / "test_half.py").unlink()
    both = repository / "tests" / "test_both.py"
    both.write_text(both.read_text().replace("from keras_attention.numbers import half\n", ""))
    (repository / "keras_attention" / "numbers" / "third.py").write_text("import keras_attention.numbers.half\n")
    assert break_code.nearest_tests(repository, "keras_attention/numbers/half.py") == ["tests/test_both.py"]


def test_the_lines_of_a_commit_a_range_and_files(break_code, repository):
    half, third = "keras_attention/numbers/half.py", "keras_attention/numbers/third.py"
    chosen = [
        break_code.chosen_lines(break_code.parse(given))[1] for given in ([], ["HEAD~1..HEAD"], ["--files", third])
    ]
    assert chosen == [{half: {1, 5}}, {half: {1, 5}}, {third: None}]
    assert break_code.main(["no-such-commit"]) == 2


@pytest.mark.slow
def test_noticed_and_unnoticed_changes_are_reported(repository):
    """In a process of its own, since the tests run in forks of it that import this package."""
    program = (
        "import sys; sys.modules.update(tensorflow=sys, tensorflow_text=sys)\n"
        f"sys.path.insert(0, {str(BENCHMARKS)!r}); import break_code, compare_commits\n"
        f"compare_commits.ROOT = {str(repository)!r}; sys.exit(break_code.main([]))\n"
    )
    command = [sys.executable, "-P", "-c", program]
    finished = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=300)
    lines = [" ".join(line.split()) for line in finished.stdout.splitlines()]
    noticed = "(tests/numbers/test_half.py::test_half)"
    assert lines == [
        "3 possible breaks in 1 files; trying 3.",
        "not noticed keras_attention/numbers/half.py:1 SECRET = 2 -> SECRET = 3",
        f"noticed keras_attention/numbers/half.py:5 return x / 2 -> return x * 2 {noticed}",
        f"noticed keras_attention/numbers/half.py:5 return x / 2 -> return x / 3 {noticed}",
        "Noticed 2 of 3 breaks.",
    ], finished.stderr
    assert finished.returncode == 1
    assert subprocess.run(["git", "worktree", "list"], capture_output=True, text=True).stdout.count("\n") == 1
