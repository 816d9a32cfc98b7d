"""Scores and files of a trained recommender, and its recommendations."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_attention.data.clicks.history_batches import HistoryBatches
from keras_attention.data.clicks.interactions import Interactions
from keras_attention.evaluation.recommendation_scores import auc, fit_biases
from keras_attention.support.atomic_files import check_holds_only, whole_folder
from keras_attention.support.errors import UserError
from keras_attention.visualize.history_plots import Recommendation, because_plot

FILES = ("model.keras", "report.json", "because.png")
ROWS = 1024  # targets that are scored at once
SHOWN_USERS = 3


def check_recommender(folder: str | Path, overwrite: bool = False) -> None:
    """Raises UserError if a recommender may not be written to a folder: it holds other files, or one to be kept."""
    folder = Path(folder)
    check_holds_only(folder, FILES)
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise UserError(f"{folder} exists already. Choose another --out, or give --overwrite to replace it.")


def probabilities(model: keras.Model, data: Interactions, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The probability of each target (B,) that its answer is a good one."""
    answers = keras.ops.convert_to_numpy(keras.ops.softmax(model(inputs)))  # (B, K)
    return answers[:, data.first_good - 1 :].sum(axis=1)


def score(model: keras.Model, data: Interactions, held: np.ndarray, known: np.ndarray, length: int) -> float:
    """The AUC of a network on held out interactions, whose histories hold `known` ones only."""
    batches = HistoryBatches(data, held, length, ROWS, known=known)
    parts = [held[start : start + ROWS] for start in range(0, len(held), ROWS)]
    predicted = [probabilities(model, data, batches.inputs(part)) for part in parts]
    return auc(data.liked[held], np.concatenate(predicted))


def recommend(
    model: keras.Model, data: Interactions, user: int, known: np.ndarray, length: int, most: int = 5
) -> list[Recommendation]:
    """The items that a user has not answered yet and will like most probably.

    Args:
        model: BehaviorSequenceTransformer with `sequence="transformer"`.
        data: Interactions.
        user: int, number of the user.
        known: int array of the positions in `data` that may be used.
        length: int > 0, items of a history.
        most: int > 0, number of recommendations.

    Returns:
        List of Recommendation, the best first; weights are means over layers and heads.

    Raises:
        ValueError: if the user has no known interaction, or has answered everything.
    """
    own = known[data.users[known] == user]
    new = np.setdiff1d(np.arange(1, len(data.item_names)), data.items[own])
    if not len(own) or not len(new):
        raise ValueError(f"The user must have answered some items, but not all. Received: {len(own)}, {len(new)} left")
    inputs = HistoryBatches(data, own[-1:], length, 1, known=known).inputs(np.repeat(own[-1], len(new)))
    last = HistoryBatches(data, own[-1:], length, 1).inputs(own[-1:])  # the last known one ends the history
    for name in ("item_ids", "answers", "ages", "categories"):
        history = np.concatenate([last[name][:, 1:], last[name][:, -1:]], axis=1)
        inputs[name] = np.repeat(history, len(new), axis=0)
    inputs["answers"][:, -2] = data.answers[own[-1]]
    inputs["ages"][:, -2] = 1
    inputs["item_ids"][:, -1] = new
    inputs["categories"][:, -1] = data.categories[new]
    predicted = probabilities(model, data, inputs)
    best = np.argsort(-predicted, kind="stable")[:most]
    _, weights = model({name: values[best] for name, values in inputs.items()}, return_attention_scores=True)
    weights = keras.ops.convert_to_numpy(weights).mean(axis=(1, 2))[:, -1, :-1]  # (most, L - 1), from the target
    items, answers = inputs["item_ids"][0, :-1], inputs["answers"][0, :-1]
    names = [f"{data.item_names[item]}: {_answer(data, answer)}" for item, answer in zip(items, answers, strict=True)]
    real = items != 0
    return [
        Recommendation(
            data.item_names[new[row]],
            float(predicted[row]),
            [names[i] for i in np.flatnonzero(real)],
            weights[at][real],
        )
        for at, row in enumerate(best)
    ]


def _answer(data, answer):
    return ("no", "yes")[answer - 1] if data.num_answers == 3 else f"{answer} of {data.num_answers - 1}"


def write_recommender(
    folder: str | Path,
    model: keras.Model,
    data: Interactions,
    held: np.ndarray,
    known: np.ndarray,
    length: int,
    *,
    settings: dict[str, Any],
    result: Any,
    facts: dict[str, Any],
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes model.keras, report.json and, for a Transformer, because.png; returns the report.

    Raises:
        UserError: see `check_recommender` and `whole_folder`.
    """
    items, users, liked = (column[known] for column in (data.items, data.users, data.liked))
    of_item = fit_biases(items, users, liked, len(data.item_names), 0).of_items
    both = fit_biases(items, users, liked, len(data.item_names), len(data.profiles))
    items, users, liked = (column[held] for column in (data.items, data.users, data.liked))
    scores = {
        f"network, sequence {model.sequence}": score(model, data, held, known, length),
        "item mean alone": auc(liked, of_item[items]),
        "item and user bias alone": auc(liked, both.of_items[items] + both.of_users[users]),
    }
    report = {
        "auc": {name: round(value, 4) for name, value in scores.items()},
        "held_answers": len(held),
        "liked": round(float(liked.mean()), 4),
        "settings": settings,
        "seconds": result.seconds,
        **facts,
    }
    with whole_folder(folder, lambda path: check_recommender(path, overwrite)) as new:
        model.save(new / "model.keras")
        (new / "report.json").write_text(json.dumps(report, indent=1, default=str) + "\n", encoding="utf-8")
        if model.sequence == "transformer":
            because_plot(_examples(model, data, known, length), new / "because.png")
    return report


def _examples(model, data, known, length) -> Sequence[Recommendation]:
    """The best recommendation for each of a few users with usual histories."""
    counts = np.bincount(data.users[known], minlength=len(data.profiles))
    usual = np.argsort(np.abs(counts - np.median(counts[counts > 0])), kind="stable")[:SHOWN_USERS]
    return [recommend(model, data, int(user), known, length, 1)[0] for user in usual]
