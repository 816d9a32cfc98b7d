"""How much bad input the package refuses, and how fast: every figure comes from the generators of the tests.

    python benchmarks/robustness.py                                  # all of it, some minutes on two cores
    python benchmarks/robustness.py --only entries damage
    python benchmarks/robustness.py --only texts --texts 500
    python benchmarks/robustness.py --only long_file --sentences 5000

entries: hostile entries and checkpoints, loaded by a process that records all files and sockets it opens and all code
it runs. damage: flipped bits and truncated files of an entry. budget: entries with sizes beyond the limits. texts:
random texts and a fixed list through tiny models of each kind. tables: bad and odd tables and parallel files through
the command line. long_file: `translate --input --output` of a tiny model, and its peak memory above that of 5,000
sentences.

Result on two cores of an AMD EPYC, under other load: 170 of 170 entries and checkpoints refused, the slowest in 1.9 s,
the largest in 35 MB; 12 of 12 near misses; 1,050 of 1,050 damages; 20 of 20 budgets, the slowest in 4 ms, the largest
in 0.3 MB; 52 of 52 tables and parallel files; 100,000 sentences in 80 MB above 5,000; 26 written and 10,000 random
texts through each kind of model, the slowest in 0.36 s (translate), 0.55 s (classify) and 1.59 s (fill-mask).
"""

import argparse
import contextlib
import io
import os
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT), str(ROOT / "tests")]

from keras_attention.cli.main import guarded  # noqa: E402
from keras_attention.cli.main import main as command  # noqa: E402


def entries(arguments, place):
    from zoo.hostile_run import NAMES, watched_reports, write_bases
    from zoo.hostile_weights import NAME, NEAR_MISSES

    (place / "strangers").mkdir()
    reports = watched_reports(write_bases(place / "sound"), place / "strangers")
    results = [reports[name.replace("/", " ")] for name in NAMES]
    refused = [one for one in results if one["kind"] in ("EntryError", "UserError") and not one["events"]]
    slowest, largest = (max(one[what] for one in results) for what in ("seconds", "megabytes"))
    print(
        f"entries: {len(refused)} of {len(results)} refused by EntryError or UserError, nothing was run or opened; "
        f"the slowest in {slowest:.2f} s, the largest in {largest:.0f} MB, median {_median(results):.4f} s"
    )
    misses = [reports[f"weights: {name}"] for name in NEAR_MISSES]
    named = sum(one["kind"] == "EntryError" and (NAME in one["told"] or "'more'" in one["told"]) for one in misses)
    print(f"near misses: {named} of {len(misses)} files of weights refused by the name of the weight")


def _median(results):
    return statistics.median(one["seconds"] for one in results)


def damage(arguments, place):
    from zoo.damage import damages
    from zoo.tiny_entry import write_tiny_entry

    from keras_attention.support.errors import EntryError
    from keras_attention.zoo.entry import read_entry

    folder = write_tiny_entry(place / "entry").folder
    tried = refused = 0
    for _ in damages(folder):
        tried += 1
        try:
            read_entry(folder)
        except EntryError:
            refused += 1
    print(f"damage: {refused:,} of {tried:,} flipped bits and lost ends refused before a parser opened the file")


def budget(arguments, place):
    from zoo.hostile_entries import SIZES, make
    from zoo.tiny_entry import write_tiny_entry

    from keras_attention.support.errors import EntryError
    from keras_attention.zoo.entry import read_entry

    base = write_tiny_entry(place / "budget").folder
    seconds, memory, refused = [], [], 0
    for number, name in enumerate(SIZES):
        make(name, {"translator": base}, place / f"large{number}", place)
        tracemalloc.start()
        begun = time.perf_counter()
        try:
            read_entry(place / f"large{number}")
        except EntryError:
            refused += 1
        seconds.append(time.perf_counter() - begun)
        memory.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    print(
        f"budget: {refused} of {len(SIZES)} refused, the slowest in {1000 * max(seconds):.1f} ms, the largest in "
        f"{max(memory) / 1e6:.1f} MB"
    )


def texts(arguments, place):
    from hypothesis import HealthCheck, given, settings
    from zoo.hard_texts import ANY_TEXT, WRITTEN, answer
    from zoo.tiny_bert import tiny_classifier, tiny_mask_filler
    from zoo.tiny_entry import tiny_translator

    warnings.simplefilter("ignore")
    for name, make in {
        "translate": tiny_translator,
        "classify and encode": tiny_classifier,
        "fill-mask and encode": tiny_mask_filler,
    }.items():
        pipeline, seconds = make(), []
        for text in ("a [MASK]", "a dog runs over green grass and a [MASK]", "dog " * 99):  # compiles
            answer(pipeline, text)

        ask = _timed(lambda text, pipeline=pipeline: answer(pipeline, text), seconds)
        for text in WRITTEN.values():
            ask(text)
        written, before = max(seconds), _resident()
        options = {"max_examples": arguments.texts, "deadline": None, "database": None}
        settings(**options, suppress_health_check=list(HealthCheck))(given(text=ANY_TEXT)(ask))()
        print(
            f"{name}: {len(WRITTEN)} written and {len(seconds) - len(WRITTEN):,} random texts, no uncaught error, all "
            f"numbers finite; the slowest in {max(seconds):.2f} s (written {written:.2f} s), memory "
            f"{_resident() - before:+.0f} MB"
        )


def _timed(ask, seconds):
    def asked(text):
        begun = time.perf_counter()
        ask(text)
        seconds.append(time.perf_counter() - begun)

    return asked


def tables(arguments, place):
    from commands import bad_tables
    from zoo.tiny_entry import write_tiny_entry

    model = write_tiny_entry(place / "tables").folder
    refused, named = 0, 0
    cases = [([(suffix, content)], parts) for suffix, content, parts in bad_tables.BAD_TABLES.values()]
    cases += [([(suffix, one), (suffix, other)], parts) for suffix, one, other, parts in bad_tables.BAD_PAIRS.values()]
    for number, (files, parts) in enumerate(cases):
        paths = [place / f"table{number}_{side}{suffix}" for side, (suffix, _) in enumerate(files)]
        for path, (_, content) in zip(paths, files, strict=True):
            path.write_bytes(content)
        words = ["finetune", paths[0], "--text", "text", "--label", "label", "--out", place / "out"]
        if len(paths) == 2:
            words = ["evaluate", "--model", model, "--source", paths[0], "--target", paths[1]]
        error = io.StringIO()
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            code = command([str(word) for word in words])
        message = error.getvalue()
        refused += code == 2 and message.count("\n") == 1 and "Traceback" not in message
        named += all(part in message for part in parts)
    print(
        f"tables: {refused} of {len(cases)} bad tables and parallel files end with 2 and one line, {named} with all "
        "that the tests want named; the odd ones are read by tests/commands/test_bad_tables.py"
    )


def long_file(arguments, place):
    from zoo.tiny_entry import ENGLISH, write_tiny_entry

    model = write_tiny_entry(place / "long").folder
    sentences = [f"{ENGLISH[n % 4]} {ENGLISH[n % 3][: n % 11]}" for n in range(arguments.sentences)]
    seconds, peaks = [], []
    for count in (min(5_000, len(sentences)), len(sentences)):
        (place / "some.en").write_text("\n".join(sentences[:count]) + "\n")
        begun = time.perf_counter()
        files = ["--input", str(place / "some.en"), "--output", str(place / "some.de")]
        with contextlib.redirect_stderr(io.StringIO()):
            assert command(["translate", "--model", str(model), *files]) == 0
        assert (place / "some.de").read_text().count("\n") == count
        seconds.append(time.perf_counter() - begun)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(
        f"long file: {len(sentences):,} sentences in {seconds[1]:.0f} s, in order; the peak of memory is "
        f"{peaks[1] - peaks[0]:.0f} MB above that of 5,000"
    )


def _resident():
    """Resident memory of this process in megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


PARTS = {part.__name__: part for part in (entries, damage, budget, texts, tables, long_file)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--texts", type=int, default=10_000, help="random texts for each kind of model")
    parser.add_argument("--sentences", type=int, default=100_000)
    arguments = parser.parse_args()
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as place:
            PARTS[name](arguments, Path(place))


if __name__ == "__main__":
    sys.exit(guarded(main, "robustness.py"))
