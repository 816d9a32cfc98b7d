"""Breaking the package on purpose: one place is changed, and a failing test is told from a passing one."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
HALF = "def half(x):\n    return x / 2\n"
QUARTER = "def quarter(x):\n    return x / 4\n\n\ndef again(x):\n    return x / 4\n"


@pytest.fixture
def break_code(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import break_code

    return break_code


@pytest.fixture
def checkout(tmp_path):
    """A folder with a package of two files and tests of one of them."""
    (tmp_path / "keras_attention").mkdir()
    (tmp_path / "keras_attention" / "__init__.py").write_text("")
    (tmp_path / "keras_attention" / "half.py").write_text(HALF)
    (tmp_path / "keras_attention" / "quarter.py").write_text(QUARTER)
    (tmp_path / "test_half.py").write_text(
        "from keras_attention.half import half\n\n\ndef test_half():\n    assert half(6) == 3\n"
    )
    return tmp_path


def make_break(old, new, after="", tests="test_half.py"):
    from breaks import Break

    return Break("numbers", "a mistake", old, new, tests, after)


def test_one_place_is_changed(break_code, checkout):
    path, text = break_code.broken_file(checkout, make_break("x / 2", "x / 3"))
    assert (path.name, text) == ("half.py", HALF.replace("2", "3"))


def test_the_first_place_behind_another_text(break_code, checkout):
    each = make_break("x / 4", "x / 5", after="def again")
    _, text = break_code.broken_file(checkout, each)
    assert text == QUARTER[: -len("4\n")] + "5\n"


@pytest.mark.parametrize("old", ["x / 4", "return x", "nothing of that kind"])
def test_a_place_must_be_the_only_one(break_code, checkout, old):
    with pytest.raises(LookupError, match="the text stands"):
        break_code.broken_file(checkout, make_break(old, "x"))


def test_the_text_of_every_break_stands_in_the_code_once(break_code):
    for each in break_code.BREAKS:
        break_code.broken_file(BENCHMARKS.parent, each)


@pytest.mark.thorough
def test_a_break_is_noticed_or_not_and_mended(checkout):
    """In a process of its own, since the tests run in forks of it that import this package."""
    program = (
        "from pathlib import Path; from break_code import try_break; from breaks import Break\n"
        f"code = Path({str(checkout)!r})\n"
        "for new in ('x / 3', 'x * 0.5', 'nonsense'):\n"
        "    print(*try_break(code, Break('numbers', '', 'x / 2', new, 'test_half.py'), 1))\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=300)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["noticed", "not", "noticed"], done.stderr
    assert "test_half.py::test_half" in done.stdout
    assert (checkout / "keras_attention" / "half.py").read_text() == HALF
