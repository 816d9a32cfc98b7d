"""Shows what the tests do not see: makes small mistakes in the changed lines of a commit and runs the nearest tests.

    python benchmarks/break_code.py                    # the lines that the last commit changed
    python benchmarks/break_code.py main~5..main       # those of a range of commits, in the code of its end
    python benchmarks/break_code.py --files keras_attention/decoding/sampling.py --limit 60 --minutes 30

Each break is one small mistake: another comparison or operator, a number off by one, a dropped statement, condition or
argument, swapped branches. It is applied in a temporary git worktree, where the nearest tests run until one fails:
`tests/<room>/test_<file>.py` and the tests that import the module or one of its names; where there are none, the tests
of the modules that import it; else those of its room (eight files at most). Printed for each: `noticed` with the first
test that failed, or `not noticed`, with the line before and after. First the same tests run on sound code, because a
test that fails there notices nothing. Exits with 1 if a break was not noticed. Takes about 10 CPU seconds per break.
Some breaks change nothing that a user can see, such as a larger buffer; read what is not noticed.
"""

import argparse
import ast
import contextlib
import itertools
import multiprocessing
import os
import random
import re
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from compare_commits import checkout_environment, git, worktree

FOLDERS = ("keras_attention", "recipes", "benchmarks")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
MOST_FILES = 8  # of tests, for one break
NOTICED, NOT_NOTICED, NOT_MEASURED = "noticed", "not noticed", "not measured"

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: (r"is\s+not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: (r"not\s+in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_PAIRS = (
    "min max",
    "minimum maximum",
    "any all",
    "amin amax",
    "argmin argmax",
    "floor ceil",
    "logical_and logical_or",
    "less less_equal",
    "greater greater_equal",
    "equal not_equal",
    "zeros ones",
    "zeros_like ones_like",
    "sum mean",
    "cumsum cumprod",
    "startswith endswith",
    "append extend",
)
OTHER_NAMES = {name: other for pair in _PAIRS for name, other in itertools.permutations(pair.split())}
WRAPPERS = ("abs", "sorted", "stop_gradient")  # f(x) becomes x


class Break(NamedTuple):
    """One mistake: the characters `start` to `end` of a file become `new`."""

    path: str
    line: int
    start: int
    end: int
    new: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]

    def difference(self, source: bytes) -> str:
        """The first line that changes, before and after."""
        old, new = source.decode().splitlines(), self.apply(source).decode().splitlines()
        first = next(i for i, (a, b) in enumerate(itertools.zip_longest(old, new)) if a != b)
        after = new[first].strip() if first < len(new) else ""
        return f"{old[first].strip()}   ->   {after}"


def main(arguments=None):
    options = parse(arguments)
    try:
        commit, lines = chosen_lines(options)
    except RuntimeError as error:
        print(f"break_code.py: {error}", file=sys.stderr)
        return 2
    import tensorflow  # noqa: F401  # here, so that forks have it
    import tensorflow_text  # noqa: F401

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the worktree is removed
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="break_code_"))
        code = stack.enter_context(worktree(commit, Path(temporary) / "code"))
        possible = [each for path, numbers in lines.items() for each in breaks(code, path, numbers)]
        breaks_tried = sorted(random.Random(options.seed).sample(possible, min(options.limit, len(possible))))
        print(f"{len(possible)} possible breaks in {len(lines)} files; trying {len(breaks_tried)}.", flush=True)
        results = try_breaks(code, breaks_tried, options)
    print(f"Noticed {results.count(NOTICED)} of {len(results)} breaks.")
    return int(NOT_NOTICED in results)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "commits", nargs="?", default="HEAD", help="a commit, or a range OLD..NEW (default: the last commit)"
    )
    parser.add_argument("--files", nargs="+", metavar="PATH", help="break these files anywhere, in the code of HEAD")
    parser.add_argument("--tests", metavar="ARGUMENTS", help="arguments of pytest instead of the nearest tests")
    parser.add_argument(
        "--markers", metavar="EXPRESSION", default="not thorough", help='pytest -m (default: "not thorough")'
    )
    parser.add_argument("--limit", type=int, default=40, help="try at most so many breaks, chosen at random")
    parser.add_argument("--seed", type=int, default=0, help="of this choice")
    parser.add_argument("--minutes", type=float, default=60, help="begin no further break after this time")
    return parser.parse_args(arguments)


# Where to break


def chosen_lines(options):
    """The commit whose code is broken, and the lines by file: {path: set of line numbers, or None for all}."""
    if options.files:
        root = Path(git("rev-parse", "--show-toplevel"))
        paths = [Path(path).resolve().relative_to(root).as_posix() for path in options.files]
        for path in paths:
            git("cat-file", "-e", f"HEAD:{path}")
        return git("rev-parse", "HEAD"), dict.fromkeys(paths)
    old, dots, new = options.commits.partition("..")
    old, new = (old, new or "HEAD") if dots else (f"{old}~1", old)
    old, new = (git("rev-parse", "--verify", f"{name}^{{commit}}") for name in (old, new))
    return new, changed_lines(git("diff", "--unified=0", "--no-color", "--no-renames", old, new, "--", *FOLDERS))


def changed_lines(difference):
    """The numbers of the added or changed lines of each Python file in the output of `git diff --unified=0`."""
    lines = {}
    for part in re.split(r"^diff --git ", difference, flags=re.MULTILINE)[1:]:
        path = re.search(r"^\+\+\+ b/(.+\.py)$", part, re.MULTILINE)
        if path:
            hunks = [(int(first), int(count or 1)) for first, count in HUNK.findall(part)]
            lines[path[1]] = {first + i for first, count in hunks for i in range(count)}
    return lines


# What to break


def breaks(code, path, numbers=None):
    """All breaks of a file of the checkout `code`, in the lines `numbers` or anywhere."""
    return breaks_of(Path(code, path).read_bytes(), path, numbers)


def breaks_of(source, path="", numbers=None):
    """All breaks of a source in the lines `numbers` or anywhere. Each is valid Python with another meaning."""
    sound = ast.parse(source)
    meaning = ast.dump(sound)
    finder = _Finder(source)
    finder.visit(sound)
    breaks = []
    for start, end, new in dict.fromkeys(finder.edits):
        each = Break(path, source[:start].count(b"\n") + 1, start, end, new)
        if numbers is not None and each.line not in numbers:
            continue
        with contextlib.suppress(SyntaxError):
            if ast.dump(ast.parse(each.apply(source))) != meaning:
                breaks.append(each)
    return sorted(breaks)


class _Finder(ast.NodeVisitor):
    """Collects edits of a source: (start, end, new text). Docstrings, texts, type hints and decorators stay."""

    def __init__(self, source):
        self.source = source
        self.line_starts = [0, *(match.end() for match in re.finditer(b"\n", source))]
        self.edits = []

    def place(self, node):
        """The first byte of a node, and that behind its last."""
        starts = self.line_starts
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node):
        start, end = self.place(node)
        return self.source[start:end].decode()

    def edit(self, start, end, new):
        self.edits.append((start, end, new))

    def replace(self, node, new):
        self.edit(*self.place(node), new)

    def replace_between(self, before, after, pattern, new):
        """Replaces the operator between two nodes, which may stand between brackets and comments."""
        start, end = self.place(before)[1], self.place(after)[0]
        for match in re.finditer(rf"#[^\n]*|{pattern}", self.source[start:end].decode()):
            if not match[0].startswith("#"):
                prefix = len(self.source[start:end].decode()[: match.start()].encode())
                self.edit(start + prefix, start + prefix + len(match[0]), new)
                return

    # Statements

    def visit_FunctionDef(self, node):
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self.block(node.body, {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)})

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self.block(node.body, set())

    def block(self, body, names):
        """The statements of a function or class; `names` have a value before it."""
        for statement in body:
            self.drop_statements(statement, names)
            self.visit(statement)

    def drop_statements(self, statement, names, inside=False):
        """Drops what can be dropped without leaving a name undefined."""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        stored = {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        early_exit = inside and isinstance(statement, (ast.Return, ast.Break, ast.Continue))
        call = isinstance(statement, ast.Expr) and not isinstance(statement.value, (ast.Constant, ast.Yield))
        if (
            call
            or early_exit
            or isinstance(statement, (ast.AugAssign, ast.Raise, ast.Assert, ast.Delete))
            or (targets and stored <= names)
        ):
            self.replace(statement, "pass")
        names |= stored
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for _, value in ast.iter_fields(statement):
                for child in value if isinstance(value, list) else ():
                    if isinstance(child, ast.stmt):
                        self.drop_statements(child, names, inside=True)
                    elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
                        for inner in child.body:
                            self.drop_statements(inner, names, inside=True)

    def visit_If(self, node):
        if "__name__" not in ast.dump(node.test) and "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_AugAssign(self, node):
        self.replace_operator(node.target, node.op, node.value, "=")
        self.generic_visit(node)

    # Expressions

    def visit_JoinedStr(self, node):
        """Nothing: what stands inside has no exact place before Python 3.12, and is a message mostly."""

    def visit_Compare(self, node):
        values = [node.left, *node.comparators]
        for before, operator, after in zip(values, node.ops, values[1:], strict=False):
            self.replace_between(before, after, *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node):
        texts = any(isinstance(side, ast.JoinedStr) or is_text(side) for side in (node.left, node.right))
        if not texts:
            self.replace_operator(node.left, node.op, node.right)
        self.generic_visit(node)

    def replace_operator(self, left, operator, right, suffix=""):
        if type(operator) in ARITHMETIC:
            old, new = ARITHMETIC[type(operator)]
            self.replace_between(left, right, re.escape(old + suffix), new + suffix)

    def visit_BoolOp(self, node):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for before, after in itertools.pairwise(node.values):
            self.replace_between(before, after, old, new)
            self.edit(self.place(before)[0], self.place(after)[0], "")
            self.edit(self.place(before)[1], self.place(after)[1], "")
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        negative_integer = isinstance(node.op, ast.USub) and isinstance(getattr(node.operand, "value", None), int)
        if isinstance(node.op, (ast.Not, ast.USub, ast.Invert)) and not negative_integer:  # -1 becomes -2 instead
            self.edit(self.place(node)[0], self.place(node.operand)[0], "")
        self.generic_visit(node)

    def visit_IfExp(self, node):
        body, test, other = (self.text(part) for part in (node.body, node.test, node.orelse))
        self.replace(node, f"{other} if {test} else {body}")
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self.replace(node, str(node.value + 1))
        elif isinstance(node.value, float):
            self.replace(node, repr(2 * node.value or 1.0))

    def visit_Slice(self, node):
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                self.replace(bound, f"({self.text(bound)}) + 1")
        self.generic_visit(node)

    def visit_Name(self, node):
        if node.id in OTHER_NAMES and isinstance(node.ctx, ast.Load):
            self.replace(node, OTHER_NAMES[node.id])

    def visit_Attribute(self, node):
        if node.attr in OTHER_NAMES and isinstance(node.ctx, ast.Load):
            end = self.place(node)[1]
            self.edit(end - len(node.attr), end, OTHER_NAMES[node.attr])
        self.generic_visit(node)

    def visit_Call(self, node):
        arguments = sorted([*node.args, *node.keywords], key=self.place)
        for keyword in node.keywords:
            index = arguments.index(keyword)
            start, end = self.place(keyword)
            if index:
                self.edit(self.place(arguments[index - 1])[1], end, "")
            elif len(arguments) > 1:
                self.edit(start, self.place(arguments[1])[0], "")
            else:
                self.edit(start, end, "")
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in WRAPPERS and node.args:
            self.replace(node, self.text(node.args[0]))
        self.generic_visit(node)


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


# Which tests


def nearest_tests(code, path):
    """The test files that are nearest to a file of a checkout, those that mirror it first.

    Those that mirror it, import it or import one of its names; else those of the modules that import it; else all of
    its room.
    """
    tests = {file: imported_names(file) for file in sorted(Path(code, "tests").rglob("test_*.py"))}
    nearest = _tests_of(code, path, tests)
    if not nearest:
        module = module_name(path)
        modules = [file for folder in FOLDERS for file in sorted(Path(code, folder).rglob("*.py"))]
        users = [file.relative_to(code).as_posix() for file in modules if module in imported_names(file)]
        nearest = [test for user in users for test in _tests_of(code, user, tests)]
    if not nearest:
        rooms = [Path("tests", room) for room in Path(*inside(path)).parents]
        nearest = [next(room for room in rooms if Path(code, room).is_dir())]
    return [test.as_posix() for test in dict.fromkeys(nearest)][:MOST_FILES]


def _tests_of(code, path, tests):
    """The test file that mirrors a file, if there is one, and those that import it, those of its room first."""
    *room, name = inside(path)
    mirror = Path("tests", *room, f"test_{name}")
    module = module_name(path)
    package = module.rpartition(".")[0]
    names = {module, *(f"{package}.{name}" for name in defined_names(Path(code, path)))}
    if not path.startswith("keras_attention"):
        names.add(module.rpartition(".")[2])  # found by a path that the test sets
    importing = [file.relative_to(code) for file, imported in tests.items() if imported & names]
    importing.sort(key=lambda file: file.parent != mirror.parent)
    return [*([mirror] if Path(code, mirror).is_file() else []), *importing]


def inside(path):
    """The parts of a path below the package, which `tests` mirrors."""
    parts = Path(path).parts
    return parts[1:] if parts[0] == "keras_attention" else parts


def module_name(path):
    return ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")


def defined_names(file):
    body = ast.parse(file.read_bytes()).body
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def imported_names(file):
    """The dotted names that a file imports anywhere."""
    names = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


# Trying


def try_breaks(code, tried, options):
    """Tries each break, prints what came of it, and returns the results."""
    results, sound, started = [], {}, time.perf_counter()
    for index, each in enumerate(tried):
        if time.perf_counter() - started > 60 * options.minutes:
            print(f"{options.minutes:g} minutes are over; {len(tried) - index} breaks were not tried.")
            break
        tests = shlex.split(options.tests) if options.tests else nearest_tests(code, each.path)
        tests = ["-m", options.markers, *tests]
        if str(tests) not in sound:
            before = time.perf_counter()
            result = run_tests(code, tests, 3600)
            sound[str(tests)] = result, time.perf_counter() - before
        (result, remark), seconds = sound[str(tests)]
        if result != NOT_NOTICED:
            result, remark = NOT_MEASURED, f"the tests do not pass on sound code: {remark}"
        else:
            result, remark = try_break(code, each, tests, 60 + 5 * seconds)
        results.append(result)
        source = Path(code, each.path).read_bytes()
        print(f"{result:12}  {each.path}:{each.line}  {each.difference(source)}  {remark}", flush=True)
    return results


def try_break(code, each, tests, seconds):
    """Breaks one place of a checkout, runs tests and mends it; returns the result and a remark."""
    path = Path(code, each.path)
    sound = path.read_bytes()
    path.write_bytes(each.apply(sound))
    try:
        return run_tests(code, tests, seconds)
    finally:
        path.write_bytes(sound)


def run_tests(code, tests, seconds):
    """Runs tests of a checkout until one fails; returns the result and a remark.

    They run in a fork of this process, which has imported TensorFlow but nothing of the package: that takes a third of
    the time of a new process. What takes longer than `seconds` may hang because of the break or of a busy machine.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = multiprocessing.get_context("fork").Process(target=_run_pytest, args=(code, tests, output.fileno()))
        process.start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            process.join()
            return NOT_MEASURED, f"(the tests took more than {seconds:.0f} s)"
        output.seek(0)
        report = output.read()
    if process.exitcode == pytest.ExitCode.OK:
        return NOT_NOTICED, ""
    if process.exitcode == pytest.ExitCode.NO_TESTS_COLLECTED:
        return NOT_NOTICED, "(no test is near)"
    failed = FAILED.search(report)
    if failed or process.exitcode == pytest.ExitCode.INTERRUPTED:
        return NOTICED, f"({failed[1]})" if failed else "(the tests cannot be imported)"
    if process.exitcode < 0:
        return NOTICED, f"(the tests died of signal {-process.exitcode})"
    return NOT_MEASURED, f"exit code {process.exitcode}: {report[-200:]}"


def _run_pytest(code, tests, output):
    os.dup2(output, 1)
    os.dup2(output, 2)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.chdir(code)
    os.environ.clear()
    os.environ.update(checkout_environment(code), PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = True  # a break within the second of the last one, and as long, would be overlooked
    sys.path.insert(0, str(code))
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


if __name__ == "__main__":
    sys.exit(main())
