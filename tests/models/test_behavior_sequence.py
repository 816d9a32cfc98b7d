"""BehaviorSequenceTransformer against its equation in loops of float64."""

import keras
import numpy as np
import pytest
from layer_checks import assert_all_close

from keras_attention.models.behavior_sequence import BehaviorSequenceTransformer

ITEMS, ANSWERS, AGES, CATEGORIES, VALUES, D, INNER, MLP = 17, 4, 5, 7, 11, 6, 13, (5, 3)
B, L, C, P = 3, 5, 2, 2


def make_model(sequence="transformer", **settings):
    keras.utils.set_random_seed(11)
    sizes = {"num_layers": 1, "num_heads": 2, "hidden_dim": D, "intermediate_dim": INNER} | settings
    model = BehaviorSequenceTransformer(
        ITEMS, ANSWERS, AGES, CATEGORIES, VALUES, mlp_dims=MLP, sequence=sequence, **sizes
    )
    model.build()
    for i, weight in enumerate(model.weights):
        weight.assign(np.random.default_rng(i).normal(0, 0.5, size=weight.shape))
    return model


def make_batch(padding=(0, 2, 4)):
    """Histories of `L - 1` items less their padding, which stands before them."""
    random = np.random.default_rng(3)
    batch = {
        "item_ids": random.integers(1, ITEMS, (B, L)),
        "answers": random.integers(1, ANSWERS, (B, L)),
        "ages": random.integers(1, AGES, (B, L)),
        "categories": random.integers(0, CATEGORIES, (B, L, C)),
        "profile": random.integers(0, VALUES, (B, P)),
    }
    batch["answers"][:, -1] = batch["ages"][:, -1] = 0
    for row, count in enumerate(padding):
        for name in ("item_ids", "answers", "ages", "categories"):
            batch[name][row, :count] = 0
    return {name: values.astype("int32") for name, values in batch.items()}


def leaky(x):
    return np.where(x > 0, x, 0.01 * x)


def mean_of(table, ids):
    rows = [table[i] for i in ids if i]
    return np.sum(rows, axis=0) / len(rows) if rows else np.zeros(D)


def normalized(x, gamma, beta):
    return gamma * (x - x.mean()) / np.sqrt(x.var() + 1e-5) + beta


def of_layer(layer, vectors, position):
    """The output at one of the vectors, one head after the other."""
    weights = (np.asarray(weight, "float64") for weight in layer.weights)
    wq, bq, wk, bk, wv, bv, wo, bo, g1, b1, g2, b2, w1, c1, w2, c2 = weights  # wq is (D, H, D / H)
    joined = np.zeros(D)
    for h in range(wq.shape[1]):
        query = vectors[position] @ wq[:, h] + bq[h]
        scores = np.array([query @ (x @ wk[:, h] + bk[h]) / np.sqrt(wq.shape[2]) for x in vectors])
        shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        context = sum(share * (x @ wv[:, h] + bv[h]) for share, x in zip(shares, vectors, strict=True))
        joined += context @ wo[h]
    x = normalized(vectors[position] + joined + bo, g1, b1)
    return normalized(x + leaky(x @ w1 + c1) @ w2 + c2, g2, b2)


@pytest.mark.parametrize("sequence", ["transformer", "mean", "none"])
def test_equals_its_equation(sequence):
    model, batch = make_model(sequence), make_batch()
    items, answers, ages, categories, profile = (np.asarray(w, "float64") for w in model.weights[:5])
    logits = np.asarray(model(batch))
    assert logits.shape == (B, ANSWERS - 1)
    for row in range(B):
        vectors = [
            items[batch["item_ids"][row, i]]
            + mean_of(categories, batch["categories"][row, i])
            + answers[batch["answers"][row, i]]
            + ages[batch["ages"][row, i]]
            for i in range(L)
            if batch["item_ids"][row, i]
        ]
        parts = [vectors[-1], mean_of(profile, batch["profile"][row])]
        if sequence == "transformer":
            vectors = [of_layer(model.encoder_layers[0], vectors, i) for i in range(len(vectors))]
            parts.append(vectors[-1])
        if sequence != "none":
            parts.append(np.mean(vectors[:-1], axis=0) if vectors[:-1] else np.zeros(D))
        x = np.concatenate(parts)
        for layer in model.mlp_layers:
            kernel, bias = (np.asarray(weight, "float64") for weight in layer.weights)
            x = leaky(x @ kernel + bias)
        kernel, bias = (np.asarray(weight, "float64") for weight in model.output_dense.weights)
        assert_all_close([logits[row]], [x @ kernel + bias], 1e-5)


def test_padding_changes_nothing():
    model, batch = make_model(), make_batch()
    expected = np.asarray(model(batch))
    longer = {
        name: np.pad(values, ((0, 0), (3, 0), *((0, 0),) * (values.ndim - 2))) if name != "profile" else values
        for name, values in batch.items()
    }
    assert_all_close([model(longer)], [expected], 1e-6)


def test_attention_weights_are_those_of_the_real_items():
    _, weights = make_model(num_layers=2)(make_batch(), return_attention_scores=True)
    weights = np.asarray(weights)
    assert weights.shape == (B, 2, 2, L, L)
    assert_all_close([weights.sum(axis=-1)], [np.ones((B, 2, 2, L))], 1e-5)
    assert not weights[1, ..., :2].any()
    assert not weights[2, ..., :4].any()
    with pytest.raises(ValueError, match='sequence="mean"'):
        make_model("mean")(make_batch(), return_attention_scores=True)


def test_is_saved_and_loaded(tmp_path):
    model, batch = make_model(), make_batch()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.settings == model.settings
    np.testing.assert_array_equal(np.asarray(loaded(batch)), np.asarray(model(batch)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 4}, "num_heads=4, hidden_dim=6"),
        ({"hidden_dim": 0}, "hidden_dim=0"),
        ({"sequence": "sum"}, "sequence=sum"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"embedding_scale": 0.0}, "embedding_scale=0.0"),
    ],
)
def test_refuses_what_is_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        make_model(**settings)
    with pytest.raises(ValueError, match="num_answers=1"):
        BehaviorSequenceTransformer(ITEMS, 1, AGES, CATEGORIES, VALUES, D, INNER, 2, 1)
    with pytest.raises(ValueError, match=r"mlp_dims\[1\]=0"):
        BehaviorSequenceTransformer(ITEMS, 3, AGES, CATEGORIES, VALUES, D, INNER, 2, 1, (5, 0))
