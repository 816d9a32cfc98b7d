"""One table and one figure: the papers' attention types, and no attention, trained equally long on the same pairs.

    python benchmarks/compare_attention.py --data_dir DIR                 # train missing systems, then compare
    python benchmarks/compare_attention.py --data_dir DIR --card ENTRY    # and put table and figure into a card

Each system is `recipes/rnn_attention.py` with the settings below: smaller than the shipped model and trained for a
fraction of its time, so the figures compare the systems with each other and not with anything else. Scores are on the
test set, on which nothing is chosen. Results are stored in runs/compare_attention.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from keras_attention.cli.main import guarded
from keras_attention.data.translation.pairs import load_translation_data
from keras_attention.evaluation import translation_scores as metrics
from keras_attention.pipelines.base import load_pipeline
from keras_attention.publishing.trained_entries import add_to_card
from keras_attention.visualize.score_plots import bleu_by_length_plot
from keras_attention.zoo.card import table_text

ROOT = Path(__file__).parents[1]
RUNS = Path("runs/compare_attention")
SETTINGS = {
    "embedding_dim": 128,
    "hidden_dim": 256,
    "epochs": 5,
    "num_buckets": 3,
    "dropout": 0.2,
    "learning_rate": 2e-3,
}
SYSTEMS = {
    "additive, global": ("additive", "global"),
    "dot, global": ("dot", "global"),
    "general, global": ("general", "global"),
    "concat, global": ("concat", "global"),
    "general, local-m": ("general", "local_m"),
    "general, local-p": ("general", "local_p"),
    "no attention": ("none", "global"),
}
PAIR = ("additive, global", "no attention")  # always compared
CARD = "the model of this card"
LENGTH_EDGES = (8, 11, 14, 17, 21)  # words of the source


def train(name, arguments):
    """Trains one system with the recipe, unless it is trained already; returns its folder."""
    attention, mode = SYSTEMS[name]
    out = RUNS / f"{attention}_{mode}"
    if out.exists():
        return out
    settings = {**SETTINGS, "data": "multi30k", "data_dir": arguments.data_dir, "out": out}
    settings |= {"source": arguments.source, "target": arguments.target, "attention": attention, "attention_mode": mode}
    flags = [f"--{flag}={value}" for flag, value in settings.items() if value != ""]
    print(f"--- {name}: {' '.join(flags)}", flush=True)
    resume = ["--resume"] if out.with_name(out.name + "_checkpoints").exists() else []
    subprocess.run([sys.executable, ROOT / "recipes" / "rnn_attention.py", *flags, *resume], check=True)
    return out


def measure(folder, data):
    """Scores of one system, and its BLEU A by source length."""
    sources, references = data.test
    outputs = load_pipeline(folder, "translate").translate(sources)

    def bleu_a(hypotheses, truths):
        return metrics.bleu_tradition_a(hypotheses, truths, data.target_language)

    stored = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return {
        "bleu_a": bleu_a(outputs, references).score,
        "bleu_b": metrics.bleu_tradition_b(outputs, references).score,
        "signature_a": bleu_a(outputs, references).signature,
        "minutes": stored["minutes"],
        "parameters": stored["parameters"],
        "by_length": [
            (f"{row.at_least}-{row.less_than - 1}" if row.less_than else f"{row.at_least}+", row.bleu)
            for row in metrics.bleu_by_source_length(outputs, references, sources, LENGTH_EDGES, bleu_a)
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", default="", help="folder of multi30k; default: download it")
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--only", choices=list(SYSTEMS), help="train just this system, and compare nothing")
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS), help="default: all")
    parser.add_argument("--card", metavar="ENTRY", help="folder of the entry whose card shows the result")
    arguments = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    if arguments.only:
        train(arguments.only, arguments)
        return
    data = load_translation_data(
        "multi30k", data_dir=arguments.data_dir, source=arguments.source, target=arguments.target
    )
    measured = {
        name: measure(train(name, arguments), data)
        for name in {**dict.fromkeys(PAIR), **dict.fromkeys(arguments.systems)}
    }
    (RUNS / "results.json").write_text(json.dumps(measured, indent=1), encoding="utf-8")
    columns = ["attention", "BLEU A", "BLEU B", "parameters", "minutes"]
    rows = [[name, *(r[key] for key in ("bleu_a", "bleu_b", "parameters", "minutes"))] for name, r in measured.items()]
    print(table_text(columns, rows))
    if arguments.card:
        measured[CARD] = measure(Path(arguments.card), data)
    figure = RUNS / "bleu_by_length.png"
    shown = {name: measured[name]["by_length"] for name in (*PAIR, CARD) if name in measured}
    bleu_by_length_plot(shown, figure, "BLEU A on the test set by source length")
    if arguments.card:
        add_to_card(arguments.card, *card_parts(measured, columns, rows, figure))


def card_parts(measured, columns, rows, figure):
    """The tables and pictures of the comparison, as a card shows them."""
    with_attention, without, shipped = (measured[name] for name in (*PAIR, CARD))
    budget = ", ".join(f"{name} {value}" for name, value in SETTINGS.items())
    labels = [label for label, _ in with_attention["by_length"]]
    lengths = [[name, *(bleu for _, bleu in measured[name]["by_length"])] for name in (*PAIR, CARD)]
    ratio = with_attention["bleu_a"] / without["bleu_a"]
    lost = [name for name, system in measured.items() if system["bleu_a"] < without["bleu_a"]]
    lost = f"; below no attention, for in this time it did not learn where to look: {', '.join(lost)}" if lost else ""
    kept = [100 * system["by_length"][-1][1] / system["by_length"][0][1] for system in (with_attention, shipped)]
    tables = [
        {"title": f"Attentions compared, each trained equally long ({budget}){lost}", "columns": columns, "rows": rows},
        {
            "title": f"BLEU A by words of the source: attention {ratio:.2f} times none; of the BLEU of its shortest "
            f"sentences it keeps {kept[0]:.0f} % in its longest, the model of this card {kept[1]:.0f} %",
            "columns": ["system", *labels],
            "rows": lengths,
        },
    ]
    caption = "BLEU A by words of the source: with and without attention, equal short training; and this model"
    return tables, [{"file": figure.name, "caption": caption}], [figure]


if __name__ == "__main__":
    sys.exit(guarded(main, "compare_attention.py", debug="--debug" in sys.argv))
