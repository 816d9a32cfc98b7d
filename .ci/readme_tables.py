"""Writes the tables of README.md and docs/models.md from the metrics of the models and from measured speeds.

    python .ci/readme_tables.py

The table `scores` stands between the lines `<!-- scores -->` and `<!-- end of scores -->`. tests/test_readme.py checks
that both files hold what this script writes.
"""

import json
import re
from pathlib import Path

from keras_attention.zoo.card import first_sentence, table_text
from keras_attention.zoo.entry import JSON_FILES, MANIFEST, read_entry
from keras_attention.zoo.terms_of_use import terms_of_use

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MODELS = ROOT / "docs" / "models.md"
SAVED_MODELS = ROOT / "saved_models"
DECODE_SPEED = ROOT / "benchmarks" / "results" / "decode_speed.json"
ENGINES = {
    "ours": "keras_attention",
    "ctranslate2": "CTranslate2",
    "ctranslate2_int8": "CTranslate2 int8",
    "hugging_face": "Hugging Face",
    "uncached": "without cache",
    "limit": "limit by memory",
}
HEADLINES = ("BLEU A", "BLEU B")


def entries(folder=SAVED_MODELS):
    """The entries of a folder, sorted by name, without folders that are still being written."""
    manifests = sorted(Path(folder).glob(f"*/{MANIFEST}"))
    return [read_entry(path.parent, hashed=JSON_FILES) for path in manifests if not path.parent.name.startswith(".")]


def models_table(entries):
    """README: one line per model with its purpose, size, main scores, and what the terms of its data allow."""
    rows = []
    for entry in entries:
        metrics = entry.metrics
        main = [score for score in metrics["scores"] if score["metric"] in HEADLINES] or metrics["scores"][:1]
        scores = ", ".join(f"{score['metric']} {score['value']:.2f}" for score in main)
        purpose = first_sentence(metrics["description"])
        allowed = terms_of_use(metrics["data"]).purpose
        rows.append([_link(entry, ""), purpose, f"{metrics['parameters'] / 1e6:.1f} M", scores, allowed])
    return table_text(["model", "what it does", "parameters", "test score", "may be used for"], rows)


def zoo_table(entries):
    """docs/models.md: one line per model with its size and one of its stored answers."""
    rows = []
    for entry in entries:
        metrics = entry.metrics
        size = f"{metrics['parameters']:,}", f"{entry.bytes / 1e6:.1f} MB"
        rows.append([_link(entry), *size, _example(metrics["examples"])])
    return table_text(["model", "parameters", "size", "example"], rows)


def _example(examples):
    """The one in the middle as text; a model that answers with vectors has none."""
    if not examples:
        return "text → vector"
    example = examples[len(examples) // 2]
    asked = " / ".join(example[side] for side in ("source", "source_b") if side in example)
    return f"{asked} → {example['output']}"


def score_table(entries):
    """docs/models.md: one line per model and test set with scores and training cost; the signatures; pictures.

    The confusion matrices of the classifiers stay in their cards.
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
                pictures.append(f"![{picture['caption']}](../saved_models/{entry.name}/{picture['file']})")
    lines = sorted(f"- {', '.join(metrics)}: `{signature}`" for signature, metrics in signatures.items())
    columns = ["model", "test set", "scores", "seeds", "minutes", "hardware"]
    return "\n\n".join([table_text(columns, rows), "Signatures:\n\n" + "\n".join(lines), *pictures])


def speed_table(measured):
    """docs/models.md: the results of `decode_speed.py`, one line per setting and one column per engine.

    The first column of figures is the median time of one call, which translates a whole batch. Engines that were not
    measured have no column.
    """
    rows, several = {}, len({row.get("threads") for row in measured["rows"]}) > 1
    for row in measured["rows"]:
        search = "greedy" if row["beam"] == 1 else f"beam {row['beam']}"
        threads = f", {row['threads']} thread{'s' * (row['threads'] > 1)}" if several else ""
        rows.setdefault(f"{search}, batch {row['batch']}{threads}", {})[row["engine"]] = row
    engines = [engine for engine in ENGINES if all(engine in row for row in rows.values())]
    columns = ["", "keras_attention, median ms", *(f"{ENGINES[engine]}, sentences/s" for engine in engines)]
    lines = [
        [setting, row["ours"]["p50 ms"], *(row[engine]["sentences/s"] for engine in engines)]
        for setting, row in rows.items()
    ]
    title = f"{measured['sentences']} sentences, `{measured['model']}`, {measured['hardware']}:"
    return f"{title}\n\n{table_text(columns, lines)}"


def filled(text, tables):
    """The text with each table between its markers.

    Args:
        text: str.
        tables: dict from the name of a marker to the table.

    Returns:
        str.

    Raises:
        ValueError: if a marker does not occur exactly once.
    """
    for name, table in tables.items():
        pattern = rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)"
        content = f"\n{table}\n\n"
        text, count = re.subn(pattern, lambda _, content=content: content, text, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"The markers of {name!r} must occur once. Received: {count} times")
    return text


def tables():
    """For each file that has tables: dict from the name of a marker to its table."""
    all_entries = entries()
    speed = speed_table(json.loads(DECODE_SPEED.read_text(encoding="utf-8")))
    models = {"zoo": zoo_table(all_entries), "scores": score_table(all_entries), "speed": speed}
    return {README: {"models": models_table(all_entries)}, MODELS: models}


def _link(entry, up="../"):
    return f"[`{entry.name}`]({up}saved_models/{entry.name}/CARD.md)"


if __name__ == "__main__":
    for path, content in tables().items():
        path.write_text(filled(path.read_text(encoding="utf-8"), content), encoding="utf-8")
