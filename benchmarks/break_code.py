"""Shows that the tests notice mistakes: breaks the package in one line at a time and runs the tests that should fail.

    python benchmarks/break_code.py                     # all breaks of breaks.py, on the code of HEAD
    python benchmarks/break_code.py --only decoding     # those of a room, or with this word in their description

Each break is a mistake that a careless maintainer could make: a mask dropped, an index off by one, a check left out. It
is applied in a temporary git worktree, its tests run there until one fails, and the line is mended again. Printed for
each: `noticed` with the first test that failed, `not noticed`, or why it could not be measured. Before the breaks,
the tests run once on sound code, because a test that fails there notices nothing. Exits with 1 if a break was not
noticed. Takes about 20 CPU seconds per break.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import shlex
import sys
import tempfile
import time
from pathlib import Path

import pytest
from breaks import BREAKS
from compare_commits import checkout_environment, git, worktree

FOLDERS = ("keras_attention", "recipes")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
NOTICED, NOT_NOTICED = "noticed", "not noticed"


def main(arguments=None):
    options = parse(arguments)
    import tensorflow  # noqa: F401  # here, so that forks have it
    import tensorflow_text  # noqa: F401

    chosen = [each for each in BREAKS if options.only in f"{each.room}: {each.what}"]
    results = []
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="break_code_"))
        code = stack.enter_context(worktree(git("rev-parse", options.commit), Path(temporary) / "code"))
        sound = {}
        for each in chosen:
            if options.baseline and each.tests not in sound:
                sound[each.tests] = run_tests(code, each.tests, options.minutes)[0] == NOT_NOTICED
            started = time.perf_counter()
            if sound.get(each.tests, True):
                result, remark = try_break(code, each, options.minutes)
            else:
                result, remark = "not measured", "the tests fail on sound code"
            results.append(result)
            print(f"{result:12} {time.perf_counter() - started:4.0f} s  {each.room}: {each.what}  {remark}", flush=True)
    print(f"Noticed {results.count(NOTICED)} of {len(results)} breaks.")
    return int(results.count(NOTICED) < len(results))


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", metavar="WORD", default="", help="try only the breaks of this room, or with this word"
    )
    parser.add_argument("--commit", default="HEAD", help="the code to break (default: HEAD)")
    parser.add_argument("--minutes", type=float, default=10, help="time limit for the tests of each break")
    parser.add_argument("--no-baseline", dest="baseline", action="store_false", help="trust that the tests pass now")
    return parser.parse_args(arguments)


def try_break(code, each, minutes):
    """Breaks one line of a checkout, runs the tests and mends the line; returns the result and a remark."""
    try:
        path, broken = broken_file(code, each)
    except LookupError as error:
        return "not measured", str(error)
    sound = path.read_text(encoding="utf-8")
    path.write_text(broken, encoding="utf-8")
    try:
        return run_tests(code, each.tests, minutes)
    finally:
        path.write_text(sound, encoding="utf-8")


def broken_file(code, each):
    """The file that a break changes, and its text with the break.

    Raises:
        LookupError: if not exactly one file has the text `each.after`, or `each.old` after it.
    """
    found = []
    for path in sorted(path for folder in FOLDERS for path in (code / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        start = text.find(each.after)
        places = text.count(each.old, start) if start >= 0 else 0
        if places:
            place = text.index(each.old, start)
            found.append((path, text[:place] + each.new + text[place + len(each.old) :]))
        if places > 1 and not each.after:
            raise LookupError(f"the text stands {places} times in {path.name}: {each.old!r}")
    if len(found) != 1:
        raise LookupError(f"the text stands in {len(found)} files: {each.old!r}")
    return found[0]


def run_tests(code, tests, minutes):
    """Runs tests of a checkout until one fails; returns NOTICED with its name, or NOT_NOTICED, or what went wrong.

    They run in a fork of this process, which has imported TensorFlow but nothing of the package: that takes a third of
    the time of a new process.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        process = multiprocessing.get_context("fork").Process(target=_run_pytest, args=(code, tests, output.fileno()))
        process.start()
        process.join(60 * minutes)
        if process.is_alive():
            process.kill()
            return "not measured", f"the tests took more than {minutes:g} minutes"
        output.seek(0)
        told = output.read()
    if process.exitcode == pytest.ExitCode.OK:
        return NOT_NOTICED, ""
    failed = FAILED.search(told)
    if failed and process.exitcode in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        return NOTICED, f"({failed[1]})"
    return "not measured", f"exit code {process.exitcode}: {told[-200:]}"


def _run_pytest(code, tests, output):
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(code)
    os.environ.clear()
    os.environ.update(checkout_environment(code))
    sys.path.insert(0, str(code))
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *shlex.split(tests)]))


if __name__ == "__main__":
    sys.exit(main())
