"""Runs the quick form of each benchmark, and reports what has become slower: `make bench`.

    python benchmarks/bench.py                            # about half an hour
    python benchmarks/bench.py --only train_speed first_answer
    python benchmarks/bench.py --baseline                 # three times, on a quiet machine; commit the file
    python benchmarks/bench.py --baseline --only serving  # replaces these figures only

The figures of each run are added to `benchmarks/results/quick-MACHINE.json`, which git ignores, with the commit and the
versions of the packages. Each figure is compared with your last one on the same kind of machine (processor and number
of cores), and with the baseline in the repository, `baseline-MACHINE.json`: the medians of three runs. So the first run
in a fresh clone has something to compare with, and small losses do not add up unnoticed. If a figure is more than 10 %
worse, the command reports it and exits with 1.

Machines of one kind differ, too, and so does one machine from hour to hour: each run also times a fixed calculation
without this package, and the report says how much slower or faster that is. On a shared machine, repeat a slower
benchmark before you trust the result.
"""

import argparse
import datetime
import hashlib
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.cli.main import guarded
from keras_attention.support.atomic_files import whole_file
from keras_attention.training.history import run_facts

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
LIMIT = 0.10  # how much worse a figure may be
MOST_RUNS = 50  # stored per machine
BASELINE_REPEATS = 3
SENTENCES = ("A dog runs through the snow.", "Two men in red shirts are standing near a small house by the river.") * 16


class Quick(NamedTuple):
    """The quick form of a benchmark.

    Attributes:
        arguments: tuple of str; INPUT is a file of sentences, JSON the file that the benchmark writes itself.
        patterns: tuple of (regular expression of printed lines, unit of its last group). The other groups are the name
            of the figure. With a unit in `MORE_IS_BETTER`, large figures are good.
    """

    arguments: tuple
    patterns: tuple = ()


MORE_IS_BETTER = ("times as fast", "times the time", "times the throughput", "sentences/s")
MODEL = "transformer_tiny_multi30k_en_de"
QUICK = {
    "first_answer": Quick(("--only", "import", "translate", "classify", "--rounds", "3", "--json", "JSON")),
    "decode_speed": Quick(
        ("--model", MODEL, "--input", "INPUT", "--sentences", "32", "--rounds", "3", "--engines", "ours"),
        ((r"^(beam \d+)  (batch \d+)  threads \d+  engine ours  sentences/s ([\d.]+)", "sentences/s"),),
    ),
    "train_speed": Quick(
        ("--rounds", "5", "--engines", "ours", "keras-hub"),
        (
            (r"^(ours): .* tokens/s, (\d+) ms", "ms"),
            (r"^(keras-hub): .* ours is ([\d.]+) times as fast", "times as fast"),
        ),
    ),
    "attention_memory": Quick(
        ("--lengths", "1024", "--rounds", "3"),
        (
            (r"^(n [^:]*): ours ([\d.]+) ms", "ms"),
            (r"^(n [^:]*): ours [\d.]+ ms, ([\d.]+) MB", "MB"),
            (r"^(n [^:]*): .*: ([\d.]+) times the time", "times the time"),
        ),
    ),
    "serving": Quick(
        ("--model", "rnn_attention_dates", "--only", "latency", "batching", "--seconds", "5"),
        (
            (r"^(?:! )?latency: (\S+ p50) ([\d.]+) ms", "ms"),
            (r"batching: (\S+) .* ([\d.]+) times", "times the throughput"),
        ),
    ),
}


def figures_of(name):
    """Runs the quick form of a benchmark: dict from the name of each figure to a float."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"INPUT": Path(folder, "sentences.txt"), "JSON": Path(folder, "figures.json")}
        places["INPUT"].write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
        words = [str(places.get(word, word)) for word in QUICK[name].arguments]
        command = [sys.executable, str(HERE / f"{name}.py"), *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"{name}.py ended with exit code {done.returncode}.")
        print(done.stdout, end="", flush=True)
        if places["JSON"].exists():
            return {f"{name}, {key}": value for key, value in json.loads(places["JSON"].read_text())["figures"].items()}
    return read_figures(name, done.stdout.splitlines())


def read_figures(name, lines):
    """The figures in the printed lines of a benchmark."""
    figures = {}
    for pattern, unit in QUICK[name].patterns:
        for line in lines:
            if match := re.search(pattern, line):
                *label, figure = match.groups()
                figures[f"{', '.join((name, *label))}: {unit}"] = float(figure.replace(",", ""))
    return figures


def worse(figures, runs, limit=LIMIT):
    """Lists each figure that is worse than in the last run with this figure: list of str.

    Args:
        figures: dict from name to float; the name ends with a colon and the unit.
        runs: list of dict with "commit" and "figures", oldest first.
        limit: float, the share by which a figure may be worse.
    """
    lines = []
    for name, now in figures.items():
        last = next((run for run in reversed(runs) if run["figures"].get(name)), None)
        if last is None or not now:
            continue
        before = last["figures"][name]
        change = before / now - 1 if name.rpartition(": ")[2] in MORE_IS_BETTER else now / before - 1
        if change > limit:
            lines.append(f"{name}: {now:,.2f}, was {before:,.2f} at {last['commit']}: {100 * change:.0f} % worse")
    return lines


def calculation_seconds(repeats=15):
    """Median time of a fixed calculation with one thread's loops and with NumPy, which tells how fast a machine is."""
    matrix = np.random.default_rng(1).normal(size=(700, 700)).astype("float32")
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        np.sort(matrix @ matrix, axis=0)
        sum(number * number for number in range(200_000))
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def read_runs(path):
    """The runs in a file of results, oldest first: list of dict; empty if there is no file."""
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []


def compared(run, last, name, limit=LIMIT):
    """Prints how a run compares with earlier ones. Returns the number of figures that are worse.

    Args:
        run: dict with "time", "calculation" and "figures".
        last: list of dict, oldest first, see `worse`.
        name: str, what the earlier runs are, such as "the baseline".
        limit: see `worse`.
    """
    if not any(set(one["figures"]) & set(run["figures"]) for one in last):
        print(f"{name}: none of these figures has been measured on this kind of machine")
        return 0
    newest = last[-1]
    age = datetime.datetime.fromisoformat(run["time"]) - datetime.datetime.fromisoformat(newest["time"])
    line = f"{name}: {newest['commit']}, {age.days} days old"
    if newest.get("calculation"):
        change = 100 * (run["calculation"] / newest["calculation"] - 1)
        line += f"; the machine itself is {abs(change):.0f} % {'slower' if change > 0 else 'faster'} now"
    lines = worse(run["figures"], last, limit)
    print("\n  ".join([line, *(lines or [f"no figure is more than {100 * limit:.0f} % worse"])]))
    return len(lines)


def replaced(runs, run):
    """The runs of a baseline with a new one: the earlier ones keep only the figures that the new one does not have."""
    kept = [{key: value for key, value in one["figures"].items() if key not in run["figures"]} for one in runs]
    earlier = [{**one, "figures": figures} for one, figures in zip(runs, kept, strict=True) if figures]
    return [*earlier, run]


def machine_facts():
    """Everything besides the commit that a figure depends on: dict of str."""
    packages = ("tensorflow", "tensorflow-text", "keras", "numpy")
    facts = {"hardware": run_facts()["hardware"], "python": platform.python_version()}
    return facts | {package: version(package) for package in packages}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=QUICK, default=list(QUICK))
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--baseline", action="store_true", help="write the baseline: medians of three runs")
    arguments = parser.parse_args()
    machine = machine_facts()
    digest = hashlib.sha256(machine["hardware"].encode()).hexdigest()[:8]
    baseline, path = (arguments.results / f"{kind}-{digest}.json" for kind in ("baseline", "quick"))
    figures = {}
    for name in arguments.only:
        for number in range(BASELINE_REPEATS if arguments.baseline else 1):
            print(f"{name}{f', run {number + 1}' * arguments.baseline} ...", flush=True)
            for key, value in figures_of(name).items():
                figures.setdefault(key, []).append(value)
    figures = {key: statistics.median(values) for key, values in figures.items()}
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    run = {"commit": run_facts()["commit"], "time": now, "machine": machine, "figures": figures}
    run["calculation"] = calculation_seconds()
    references, own = read_runs(baseline), read_runs(path)
    if arguments.baseline:
        write_runs(baseline, machine, replaced(references, run))
    else:
        write_runs(path, machine, [*own, run])
    slower = compared(run, references, "the baseline in the repository") + compared(run, own, "your last run")
    return 1 if slower else 0


def write_runs(path, machine, runs):
    with whole_file(path) as file:
        file.write(json.dumps({"hardware": machine["hardware"], "runs": runs[-MOST_RUNS:]}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(guarded(main, "bench.py"))
