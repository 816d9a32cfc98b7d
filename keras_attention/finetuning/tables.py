"""The data of the fine-tuning recipe: the user's tables, or generated dates and other texts."""

from dataclasses import dataclass
from pathlib import Path

from keras_attention.data.dates.dates import generate_dates, generate_non_dates
from keras_attention.finetuning.examples import Examples, read_examples
from keras_attention.flags import setting

ROWS, TEST_ROWS, SMOKE_ROWS = 4000, 1000, 40


@dataclass(frozen=True)
class TableSettings:
    """Base class for the `Config` of a recipe."""

    table: str = setting("", "CSV, TSV or JSONL with a header; default: generated dates and other texts")
    text: str = setting("text", "column of the texts")
    label: str = setting("label", "column of the labels")
    text_b: str | None = setting(None, "column of the second texts, for text pairs")
    validation: str = setting("", "table that chooses the best epoch; default: a share of the rows")
    validation_share: float = setting(0.1, "share of the rows for validation, without --validation")
    test: str = setting("", "table for the report; default: the validation rows")
    encode_to: str = setting("", "only write the encoded texts to this path, for a machine without TensorFlow")
    encoded: str = setting("", "train on texts encoded with --encode-to, and write only the weights")
    separator: str | None = setting(None, "character between the labels of a row, for several labels per text")

    def __post_init__(self):
        for name in ("teacher", "freeze", "lora", "contrastive"):
            if getattr(self, name, None):
                raise ValueError(f"`{name}` is an option of `keras-attention finetune`, not of the recipe.")

    @property
    def origin(self):
        """The origin of the rows, for the card."""
        names = [Path(path).name for path in (self.table, self.test) if path] or ["dates and other texts, generated"]
        return [{"name": ", ".join(names), "terms": "as stated by its owner" if self.table else "no terms", "link": ""}]


def load_tables(config):
    """Reads the tables, or generates dates and other texts.

    Args:
        config: TableSettings and RunSettings; with `smoke`, only a few dates are generated.

    Returns:
        Examples to train on, to validate with, and to test with; the latter two may be None.

    Raises:
        UserError: if a table cannot be read.
    """
    if not config.table:
        train, test = dates(ROWS, config.seed, "train"), dates(TEST_ROWS, config.seed, "test")
        short = range(0, ROWS, ROWS // SMOKE_ROWS), range(0, TEST_ROWS, TEST_ROWS // SMOKE_ROWS)
        return (train.some(short[0]), None, test.some(short[1])) if config.smoke else (train, None, test)
    examples = []
    for path in (config.table, config.validation, config.test):
        found, said = None, None
        if path:
            found, said = read_examples(path, config.text, config.label, config.text_b)
            print(said)
        examples.append(found)
    return examples


def dates(rows, seed, split):
    """Generates equal numbers of dates and other texts.

    Args:
        rows: int > 0, even.
        seed: int.
        split: "train" or "test".

    Returns:
        Examples.
    """
    texts = [*generate_dates(rows // 2, seed, split)[0], *generate_non_dates(rows // 2, seed + (split == "test"))]
    return Examples(texts, ["date"] * (rows // 2) + ["no date"] * (rows // 2), where=f"{split} dates")
