"""The tables of README.md, made from what the entries of saved_models say of themselves, and from measured speeds.

    python .ci/readme_tables.py           # writes them into README.md, between their markers

A table `zoo` stands between the lines `<!-- zoo -->` and `<!-- end of zoo -->`. tests/test_readme.py checks that what
stands there is what this script makes.
"""

import json
import re
from pathlib import Path

from keras_attention.zoo.card import table_text, use_of
from keras_attention.zoo.entry import JSON_FILES, read_entry
from keras_attention.zoo.manifest import MANIFEST

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SAVED_MODELS = ROOT / "saved_models"
DECODE_SPEED = ROOT / "benchmarks" / "results" / "decode_speed.json"
ENGINES = {"ours": "here", "ctranslate2": "CTranslate2", "hugging_face": "Hugging Face", "uncached": "without cache"}


def entries(folder=SAVED_MODELS):
    """The entries of a folder, sorted by name; a folder that is just being written is none."""
    found = sorted(Path(folder).glob(f"*/{MANIFEST}"))
    return [read_entry(path.parent, hashed=JSON_FILES) for path in found if not path.parent.name.startswith(".")]


def zoo_table(entries):
    """One line a model: what it is, how large, and an answer of its own."""
    rows = []
    for entry in entries:
        config, metrics = entry.config, entry.metrics
        example = metrics["examples"][len(metrics["examples"]) // 2]
        asked = " / ".join(example[side] for side in ("source", "source_b") if side in example)
        size = f"{metrics['parameters']:,}", f"{entry.bytes / 1e6:.1f} MB"
        rows.append([_link(entry), use_of(config), *size, f"{asked} → {example['output']}"])
    return table_text(["model", "for", "parameters", "size", "for example"], rows)


def score_table(entries):
    """One line a model and set: its scores and what they cost; the signatures; the pictures of the cards.

    The pictures of classifiers, which show their mistakes, are for their own cards.
    """
    rows, signatures, pictures = [], {}, []
    for entry in entries:
        metrics = entry.metrics
        by_set = {}
        for score in metrics["scores"]:
            by_set.setdefault(score["set"], []).append(f"{score['metric']} {score['value']:.2f}")
            signatures.setdefault(score["signature"], {})[score["metric"]] = None
        cost = ", ".join(map(str, metrics["seeds"])), round(metrics["minutes"]), metrics["hardware"]
        rows += [[_link(entry), where, ", ".join(scores), *cost] for where, scores in by_set.items()]
        if entry.config["architecture"] != "BertClassifier":
            for picture in metrics.get("pictures", ()):
                pictures.append(f"![{picture['caption']}](saved_models/{entry.name}/{picture['file']})")
    told = sorted(f"- {', '.join(metrics)}: `{signature}`" for signature, metrics in signatures.items())
    columns = ["model", "set", "scores", "seeds", "minutes", "on"]
    return "\n\n".join([table_text(columns, rows), "Signatures:\n\n" + "\n".join(told), *pictures])


def speed_table(measured):
    """What `decode_speed.py` wrote: a line for each setting and a column for each engine, sentences per second.

    The first column of figures is the median time of an answer; where 64 are asked for together, of all of them.
    """
    rows = {}
    for row in measured["rows"]:
        search = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
        rows.setdefault(f"{search}, {row['batch']} at a time", {})[row["engine"]] = row
    columns = ["", "p50 here, ms", *(f"{name}, sentences/s" for name in ENGINES.values())]
    lines = [
        [setting, found["ours"]["p50 ms"], *(found[engine]["sentences/s"] for engine in ENGINES)]
        for setting, found in rows.items()
    ]
    told = f"{measured['sentences']} sentences, `{measured['model']}`, {measured['hardware']}:"
    return f"{told}\n\n{table_text(columns, lines)}"


def filled(readme, tables):
    """The text of the README with each table between its markers.

    Args:
        readme: str.
        tables: dict from the name of a marker to the text between.

    Returns:
        str.

    Raises:
        ValueError: if a marker does not occur exactly once.
    """
    for name, table in tables.items():
        pattern = rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)"
        content = f"\n{table}\n\n"
        readme, count = re.subn(pattern, lambda _, content=content: content, readme, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"The README must have the markers of {name!r} once. Received: {count} times")
    return readme


def tables():
    """Dict from the name of a marker to its table."""
    found = entries()
    speed = speed_table(json.loads(DECODE_SPEED.read_text(encoding="utf-8")))
    return {"zoo": zoo_table(found), "scores": score_table(found), "speed": speed}


def _link(entry):
    return f"[`{entry.name}`](saved_models/{entry.name}/CARD.md)"


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8"), tables()), encoding="utf-8")
