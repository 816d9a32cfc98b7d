"""What `metrics.json` must hold, so that whoever shows it finds what the card promises."""

from keras_attention.zoo.card import REQUIRED
from keras_attention.zoo.entry_error import EntryError
from keras_attention.zoo.fields import check_value, number, text, whole

MAX_EXAMPLES = 1000

_TEXT = text(r"(?s).*", "a text")
_VALUES = {
    "description": _TEXT,
    "command": _TEXT,
    "commit": _TEXT,
    "hardware": _TEXT,
    "minutes": number(0, 1e9),
    "parameters": whole(0, 1 << 40),
}
_SCORE = {"set": _TEXT, "metric": _TEXT, "value": number(-1e9, 1e9), "signature": _TEXT}


def check_metrics(metrics, where):
    """Checks those values of a `metrics.json` that are shown or run again.

    Args:
        metrics: dict.
        where: str, named in errors.

    Returns:
        The same dict.

    Raises:
        EntryError: names the first key that is missing or holds something else than `card.REQUIRED` says.
    """
    for name, meaning in REQUIRED.items():
        if name not in metrics:
            raise EntryError(f"{where} lacks {name!r}: {meaning}.")
    for name, field in _VALUES.items():
        check_value(name, metrics[name], field, where)
    scores = metrics["scores"]
    if not isinstance(scores, list) or not all(
        isinstance(score, dict) and set(score) == set(_SCORE) for score in scores
    ):
        raise EntryError(f"{where}: scores must be a list of objects with {', '.join(_SCORE)}.")
    for score in scores:
        for name, field in _SCORE.items():
            check_value(name, score[name], field, f"{where}, scores")
    if not _are_examples(metrics["examples"]):
        raise EntryError(f"{where}: examples must be a list of source and output texts.")
    return metrics


def _are_examples(examples):
    """Whether it is a list of {"source": str, "output": str}, each of a classifier of pairs with a "source_b" too."""
    if not isinstance(examples, list) or len(examples) > MAX_EXAMPLES:
        return False
    for example in examples:
        if not isinstance(example, dict) or set(example) - {"source_b"} != {"source", "output"}:
            return False
        if not all(isinstance(value, str) for value in example.values()):
            return False
    return len({"source_b" in example for example in examples}) < 2
