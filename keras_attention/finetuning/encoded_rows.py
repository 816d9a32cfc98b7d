"""What a classifier trains on, in a folder, for a machine that has no TensorFlow: arrays, no texts, no tokenizers."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.errors import UserError
from keras_attention.models import BertClassifier
from keras_attention.training.acceleration import dtype_policy
from keras_attention.whole_file import whole_file

ROWS, MODEL, WEIGHTS = "rows.npz", "model.json", "start.weights.h5"


class IdRow(NamedTuple):
    """`token_ids` and `segment_ids` are int arrays (T,)."""

    token_ids: np.ndarray
    segment_ids: np.ndarray


def save_encoded_rows(folder, prepared):
    """Writes the model, its weights and, last, the rows.

    Args:
        folder: str or Path; made if missing.
        prepared: Prepared, see `finetune.prepare`.
    """
    folder, model = Path(folder), prepared.classifier.model
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ROWS).unlink(missing_ok=True)
    described = {"kind": prepared.task.kind, "model": model.settings}
    (folder / MODEL).write_text(json.dumps(described), encoding="utf-8")
    model.save_weights(folder / WEIGHTS)
    arrays = {name: np.concatenate([getattr(row, name) for row in prepared.rows]) for name in IdRow._fields}
    arrays |= {"ends": np.cumsum([len(row.token_ids) for row in prepared.rows]), "targets": prepared.targets}
    with whole_file(folder / ROWS, "wb") as file:
        np.savez_compressed(file, **arrays)


def load_encoded_rows(folder, settings):
    """Reads what `save_encoded_rows` wrote; needs no TensorFlow.

    Args:
        folder: str or Path.
        settings: FinetuneSettings, of which the number format counts.

    Returns:
        BertClassifier, built, with the weights to start from; list of IdRow; targets; and the kind of the task.

    Raises:
        UserError: if a file is missing or holds something else.
    """
    folder = Path(folder)
    try:
        described = json.loads((folder / MODEL).read_text(encoding="utf-8"))
        model = BertClassifier(**described["model"], dtype=dtype_policy(settings))
        model.build()
        model.load_weights(folder / WEIGHTS)
        with np.load(folder / ROWS, allow_pickle=False) as file:
            sides = [np.split(file[name], file["ends"][:-1]) for name in IdRow._fields]
            targets = file["targets"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder}: no encoded rows ({error}). Expected: a folder by --encode_to.") from error
    return model, [IdRow(*row) for row in zip(*sides, strict=True)], targets, described["kind"]
