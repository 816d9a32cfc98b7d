"""GPT-2 checkpoints: the logits are those of a network computed from the file's own tensors in NumPy."""

import json

import numpy as np
import pytest
from convert.tiny_checkpoints import safetensors_bytes

from keras_attention.convert.gpt2 import load_gpt2
from keras_attention.errors import UserError

V, D, INNER, H, L, LENGTH = 23, 15, 31, 3, 2, 13
CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": V,
    "n_embd": D,
    "n_inner": INNER,
    "n_head": H,
    "n_layer": L,
    "n_positions": LENGTH,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "resid_pdrop": 0.1,
}


def random_tensors(inner=INNER):
    """Random tensors under the names and in the shapes of transformers' GPT2LMHeadModel."""
    random = np.random.default_rng(3)
    shapes = {"wte.weight": (V, D), "wpe.weight": (LENGTH, D), "ln_f.weight": (D,), "ln_f.bias": (D,)}
    for i in range(L):
        layer = f"h.{i}"
        for name in ("ln_1", "ln_2"):
            shapes |= {f"{layer}.{name}.weight": (D,), f"{layer}.{name}.bias": (D,)}
        sizes = {"attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, inner), "mlp.c_proj": (inner, D)}
        for name, shape in sizes.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[1:]}
    return {f"transformer.{name}": random.normal(0, 0.5, shape).astype("float32") for name, shape in shapes.items()}


def published(tensors, token_ids):
    """Logits (T, V) as transformers' GPT2LMHeadModel computes them, in float64."""
    w = {name.removeprefix("transformer."): values.astype("float64") for name, values in tensors.items()}
    T = len(token_ids)

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def conv1d(x, name):
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][token_ids] + w["wpe.weight"][:T]
    for i in range(L):
        query, key, value = np.split(conv1d(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn"), 3, axis=-1)
        query, key, value = (y.reshape(T, H, D // H).transpose(1, 0, 2) for y in (query, key, value))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(D // H)
        scores = np.where(np.tril(np.ones((T, T), bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + conv1d((weights @ value).transpose(1, 0, 2).reshape(T, D), f"h.{i}.attn.c_proj")
        inner = conv1d(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = x + conv1d(inner, f"h.{i}.mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def write(folder, tensors, **config):
    folder.mkdir(exist_ok=True)
    kept = {name: value for name, value in {**CONFIG, **config}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(kept))
    (folder / "model.safetensors").write_bytes(safetensors_bytes(tensors))
    return folder


FORMS = {
    "as saved today": lambda tensors: tensors,
    "bare names and buffers": lambda tensors: {
        **{name.removeprefix("transformer."): values for name, values in tensors.items()},
        "h.0.attn.bias": np.tril(np.ones((1, 1, LENGTH, LENGTH), "float32")),
        "h.0.attn.masked_bias": np.array(-1e4, "float32"),
    },
    "with a copied output": lambda tensors: {**tensors, "lm_head.weight": tensors["transformer.wte.weight"]},
}


@pytest.mark.parametrize("form", FORMS)
def test_the_logits_are_the_published_ones(tmp_path, form):
    tensors = random_tensors()
    model = load_gpt2(write(tmp_path / "gpt2", FORMS[form](tensors)))
    token_ids = np.random.default_rng(1).integers(0, V, (5, 11)).astype("int32")
    token_ids[:, 3] = 0  # a token like any other
    logits = np.asarray(model({"token_ids": token_ids}))
    for row in range(len(token_ids)):
        np.testing.assert_allclose(logits[row], published(tensors, token_ids[row]), atol=1e-4)


def test_an_inner_width_of_null_is_four_times_the_width(tmp_path):
    tensors = random_tensors(inner=4 * D)
    model = load_gpt2(write(tmp_path / "gpt2", tensors, n_inner=None, resid_pdrop=0.0))
    ids = np.array([[5, 7, 11]], "int32")
    np.testing.assert_allclose(model({"token_ids": ids})[0], published(tensors, ids[0]), atol=1e-4)
    assert model.get_config()["dropout"] == 0.0


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        ({"model_type": "llama"}, {}, "model_type is 'llama'. Supported: one of gpt2"),
        ({"n_head": 4}, {}, "n_head is 4. Supported: a divisor of the width 15"),
        ({"n_layer": 3}, {}, "lacks the tensor h.2.attn.c_attn.bias"),
        ({"scale_attn_by_inverse_layer_idx": True}, {}, "scale_attn_by_inverse_layer_idx is True"),
        ({"activation_function": "tanh"}, {}, "activation_function is 'tanh'"),
        ({}, {"lm_head.weight": np.zeros((V, D), "float32")}, "lm_head.weight differs from transformer.wte.weight"),
        ({}, {"transformer.extra": np.zeros(3, "float32")}, "has the tensor 'extra'"),
        ({}, {"transformer.wpe.weight": np.zeros((LENGTH + 1, D), "float32")}, "wpe.weight has the shape"),
        ({}, {"transformer.ln_f.bias": np.full(D, np.nan, "float32")}, "holds NaN or infinity"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path, config, change, message):
    with pytest.raises(UserError, match=message):
        load_gpt2(write(tmp_path / "gpt2", random_tensors() | change, **config))
    (tmp_path / "gpt2" / "model.safetensors").unlink()
    if not config:
        with pytest.raises(UserError, match="lacks model.safetensors"):
            load_gpt2(tmp_path / "gpt2")
