"""The tables of README.md, made from what the entries of saved_models say of themselves.

    python benchmarks/readme_tables.py           # writes them into README.md, between their markers

A table `zoo` stands between the lines `<!-- zoo -->` and `<!-- end of zoo -->`. tests/test_readme.py checks that what
stands there is what this script makes.
"""

import re
from pathlib import Path

from keras_attention.zoo.card import table_text, use_of
from keras_attention.zoo.entry import JSON_FILES, read_entry
from keras_attention.zoo.manifest import MANIFEST

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
SAVED_MODELS = ROOT / "saved_models"


def entries(folder=SAVED_MODELS):
    """The entries of a folder, sorted by name; a folder that is just being written is none."""
    found = sorted(Path(folder).glob(f"*/{MANIFEST}"))
    return [read_entry(path.parent, hashed=JSON_FILES) for path in found if not path.parent.name.startswith(".")]


def zoo_table(entries):
    """One line a model: what it is, how large, and an answer of its own."""
    rows = []
    for entry in entries:
        config, metrics = entry.config, entry.metrics
        example = metrics["examples"][0]
        size = f"{metrics['parameters']:,}", f"{entry.bytes / 1e6:.1f} MB"
        rows.append([_link(entry), use_of(config), *size, f"{example['source']} → {example['output']}"])
    return table_text(["model", "for", "parameters", "size", "for example"], rows)


def recipe_table(entries):
    """The command of each model and its scores, one line a score; then the pictures of the cards but classifiers'."""
    commands, rows, pictures = [], [], []
    for entry in entries:
        metrics = entry.metrics
        seeds = ", ".join(map(str, metrics["seeds"]))
        lines = ", then ".join(f"`{line}`" for line in metrics["command"].splitlines())
        commands.append(
            f"- {_link(entry)}: {lines}, seed {seeds}, {metrics['minutes']:.1f} minutes on {metrics['hardware']}."
        )
        for score in metrics["scores"]:
            rows.append([_link(entry), score["set"], score["metric"], score["value"], f"`{score['signature']}`"])
        of_classifier = entry.config["architecture"] == "BertClassifier"  # its mistakes are for its own card
        for picture in () if of_classifier else metrics.get("pictures", ()):
            pictures.append(f"![{picture['caption']}](saved_models/{entry.name}/{picture['file']})")
    return "\n\n".join(
        ["\n".join(commands), table_text(["model", "set", "metric", "score", "signature"], rows), *pictures]
    )


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
    return {"zoo": zoo_table(found), "recipes": recipe_table(found)}


def _link(entry):
    return f"[`{entry.name}`](saved_models/{entry.name}/CARD.md)"


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8"), tables()), encoding="utf-8")
