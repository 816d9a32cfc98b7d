"""What a training gives: its history, and weights that travel to another machine together with it."""

import json
from pathlib import Path
from typing import NamedTuple

from keras_attention.errors import UserError


class TrainResult(NamedTuple):
    """`history` has a dict for each epoch; `best` is the best monitored score or None; `seconds` is wall clock."""

    history: list
    steps: int
    seconds: float
    best: float | None
    best_epoch: int | None
    stopped_because: str


def save_trained(path, model, result, facts):
    """Writes PATH.weights.h5 and, last, PATH.json.

    Args:
        path: str or Path, without an ending.
        model: built keras.Model.
        result: TrainResult.
        facts: dict of JSON types, see `run_facts`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    told = path.with_name(path.name + ".json")
    told.unlink(missing_ok=True)
    model.save_weights(path.with_name(path.name + ".weights.h5"))
    told.write_text(json.dumps({"result": result._asdict(), "facts": facts}), encoding="utf-8")


def load_trained(path, model):
    """Fills the model with weights by `save_trained`.

    Args:
        path: str or Path, as given to `save_trained`.
        model: built keras.Model of the same settings.

    Returns:
        TrainResult and facts.

    Raises:
        UserError: if a file is missing or does not fit the model.
    """
    path = Path(path)
    try:
        told = json.loads(path.with_name(path.name + ".json").read_text(encoding="utf-8"))
        model.load_weights(path.with_name(path.name + ".weights.h5"))
        return TrainResult(**told["result"]), told["facts"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: no weights for this model ({str(error).splitlines()[0]}).") from error
