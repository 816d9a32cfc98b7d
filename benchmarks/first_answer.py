"""The wait for a first answer: CPU seconds from the start of a process to its answer, with and without a warm cache.

    python benchmarks/first_answer.py                     # every scenario, 3 rounds: about half an hour
    python benchmarks/first_answer.py --only import translate classify --rounds 5

Each scenario runs in a new process: first with an empty cache folder ("cold"), then with the cache that this process
has filled ("warm"). The scenarios take turns, round by round, and the medians are printed: CPU seconds of all threads,
which depend less on other work on the machine than wall-clock time, and how many of them come on top of importing
TensorFlow, tensorflow-text and Keras; and the resident memory. A server is measured until all its models are ready, the
scenario "first update" until a recipe has computed its first update, and all others until they exit.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from keras_attention.cli.main import guarded
from keras_attention.training.history import run_facts

ROOT = Path(__file__).resolve().parents[1]
COMMAND = ("-P", "-m", "keras_attention")
TEXT = "A dog runs through the snow."
SERVED = ("transformer_tiny_multi30k_en_de", "rnn_attention_dates", "bert_mini_sst2")
ROWS, COLUMNS, OUT = 180, ("--text", "text", "--label", "label"), ("--out", "OUT", "--overwrite")
# Runs a recipe, and prints a line when its first update has been computed and recorded.
FIRST_UPDATE = """
import runpy, sys
from keras_attention.cli.io.terminal import silent_libraries
with silent_libraries():
    from keras_attention.training.history import Epoch
record = Epoch.record
def recorded(epoch, update):
    record(epoch, update)
    print("first update", flush=True)
Epoch.record, sys.argv = recorded, sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class Scenario(NamedTuple):
    """Arguments of Python, and a regular expression of the line that ends the measurement, or None for its exit."""

    arguments: tuple
    until: str | None = None


SCENARIOS = {
    "import": Scenario(("-P", "-c", "import tensorflow, tensorflow_text, keras")),
    "translate": Scenario((*COMMAND, "translate", "--model", "transformer_tiny_multi30k_en_de", TEXT)),
    "classify": Scenario((*COMMAND, "classify", "--model", "bert_mini_sst2", TEXT)),
    "finetune": Scenario((*COMMAND, "finetune", "TABLE", *COLUMNS, "--epochs", "1", *OUT)),
    "recipe": Scenario(("recipes/rnn_attention.py", "--smoke", *OUT)),
    "first update": Scenario(
        ("-P", "-c", "FIRST_UPDATE", "recipes/rnn_attention.py", "--smoke", *OUT), "^first update$"
    ),
    "serve": Scenario(
        (*COMMAND, "serve", "--port", "0", *(word for name in SERVED for word in ("--model", name))),
        rf"\({len(SERVED)} of {len(SERVED)}\)",
    ),
}


class Use(NamedTuple):
    """The resources that a process has used: CPU seconds of all threads, and resident memory in megabytes."""

    seconds: float
    megabytes: float


def measured(scenario, folder):
    """Runs a scenario whose cache, table and trained model are in a folder, and returns its Use."""
    places = {"TABLE": str(folder / "table.csv"), "OUT": str(folder / "trained"), "FIRST_UPDATE": FIRST_UPDATE}
    command = [sys.executable, *(places.get(word, word) for word in scenario.arguments)]
    environment = {**os.environ, "KERAS_ATTENTION_CACHE": str(folder / "cache"), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment.pop("TF_XLA_FLAGS", None)
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        met = scenario.until is None
        for line in process.stdout:
            if scenario.until and re.search(scenario.until, line):
                met, use = True, used_so_far(process.pid)
                process.send_signal(signal.SIGTERM)
                break
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if not met or (scenario.until is None and process.returncode):
            errors.seek(0)
            sys.exit(f"{' '.join(command)} failed ({process.returncode}):\n{errors.read()[-2000:]}")
    return use if scenario.until else Use(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def used_so_far(process):
    """The Use of a running process, on Linux."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{process}/status").read_text()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Use(seconds, int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024)


def write_table(path):
    """A table of `ROWS` texts with two labels."""
    words = {"good": ("fine", "moving", "bright"), "bad": ("dull", "slow", "empty")}
    rows = [
        f"a {words[label][number % 3]} film of {number} scenes,{label}"
        for number in range(ROWS // 2)
        for label in ("good", "bad")
    ]
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")


def rounds(names, number):
    """Runs all scenarios in turn: dict from (name, "cold" or "warm") to the list of Use."""
    uses = {}
    for _ in range(number):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                write_table(Path(folder, "table.csv"))
                for state in ("cold", "warm") if name != "import" else ("",):
                    uses.setdefault((name, state), []).append(measured(SCENARIOS[name], Path(folder)))
    return uses


def figures_of(cases):
    """Prints one row of a table for each scenario; returns its medians, see `Use`, as a dict from name to float."""
    medians = {key: Use(*(statistics.median(one) for one in zip(*uses, strict=True))) for key, uses in cases.items()}
    imported = medians.get(("import", ""))
    print("| | CPU seconds | more than the import | resident memory, MB |\n|---|---|---|---|")
    figures = {}
    for (name, state), use in medians.items():
        label = f"{name}, {state}" if state else name
        more = f"{use.seconds - imported.seconds:.1f}" if imported and state else ""
        print(f"| {label} | {use.seconds:.1f} | {more} | {use.megabytes:,.0f} |", flush=True)
        figures |= {f"{label}: CPU seconds": use.seconds, f"{label}: MB": use.megabytes}
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="write the figures to this file as well")
    arguments = parser.parse_args()
    figures = figures_of(rounds(arguments.only, arguments.rounds))
    if arguments.json:
        facts = {**run_facts(), "rounds": arguments.rounds, "figures": figures}
        Path(arguments.json).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(guarded(main, "first_answer.py"))
