"""Layers and models run on JAX and PyTorch where TensorFlow cannot be imported, and compute what they do on TensorFlow.

Run as a program, this file is the part without TensorFlow: with KERAS_BACKEND set, `test_other_backends.py FILE` writes
the outputs of the layers into the file, trains each model, and uses some as any Keras model is used.
"""

import functools
import importlib.abc
import importlib.machinery
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

B, T, S, D, VOCABULARY, CLASSES = 2, 3, 7, 4, 11, 5


class NoTensorFlow(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds TensorFlow, as libraries that look for it expect, but cannot load it."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0].startswith("tensorflow"):
            return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec):
        raise ModuleNotFoundError(f"No module named {spec.name!r}", name=spec.name)

    def exec_module(self, module):
        pass


def make_layers():
    from keras_attention import layers

    made = {"additive": layers.AdditiveAttention(5), "hard": layers.HardAttention(5)}
    made["location"] = layers.LocationAwareAttention(5)
    for score in ("dot", "general", "concat"):
        for mode in ("global", "local_m", "local_p"):
            made[f"{score}-{mode}"] = layers.LuongAttention(score, mode, window=2)
    made["multi-head"] = layers.MultiHeadAttention(6, 5, num_key_value_heads=2, sliding_window=3)
    made["multi-head of one axis"] = layers.MultiHeadAttention(3, 5, output_shape=(2, 3))
    others = {
        "learned": layers.LearnedPositionalEmbedding(13),
        "sinusoidal": layers.SinusoidalPositionalEmbedding(),
        "feed-forward": layers.FeedForward(7),
        "encoder": layers.TransformerEncoderLayer(7, 2),
        "encoder, pre-norm": layers.TransformerEncoderLayer(7, 2, normalize_first=True),
    }
    return made, others, layers.TransformerDecoderLayer(7, 2)


def compute_outputs():
    """Every layer's outputs on the same weights and inputs, whichever the backend: a dict of NumPy arrays."""
    import keras
    from keras import ops

    random = np.random.default_rng(0)
    query, value = (random.normal(size=(B, length, D)).astype("float32") for length in (T, S))
    value[1, 4:] = np.nan
    mask = np.arange(S) < np.array([[[S]], [[4]]])  # (B, 1, S)
    attention_layers, other_layers, decoder = make_layers()
    calls = {
        name: (layer, {"query": query, "value": value, "attention_mask": mask})
        for name, layer in attention_layers.items()
    }
    for name, layer in other_layers.items():
        calls[name] = (layer, {"inputs": query, **({"start": 6} if name in ("learned", "sinusoidal") else {})})
    source = {"encoder_sequence": np.nan_to_num(value), "encoder_padding_mask": mask[:, 0]}
    calls["decoder"] = (decoder, {"decoder_sequence": query, **source})
    outputs = {}
    for name, (layer, inputs) in calls.items():
        layer(**inputs)
        weights = [weight for weight in layer.weights if "seed" not in weight.path]
        for weight in weights:
            weight.assign(random.normal(size=weight.shape))
        outputs[name] = ops.convert_to_numpy(layer(**inputs))
    outputs["steps of a cache"] = decode_in_steps(decoder, query, source)
    np.testing.assert_allclose(outputs["steps of a cache"], outputs["decoder"], atol=1e-4)
    for name, make_model in LANGUAGE_MODELS.items():
        model, token_ids = make_model(dropout=0.0), random.integers(1, VOCABULARY, (B, S)).astype("int32")
        outputs[name] = ops.convert_to_numpy(model({"token_ids": token_ids}))
        memory = model.encode(token_ids)
        next_logits, _ = model.step(ops.full((B,), -1, "int32"), model.initial_state(memory, max_steps=2), memory)
        np.testing.assert_allclose(ops.convert_to_numpy(next_logits), outputs[name][:, -1], atol=1e-4)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit({"token_ids": token_ids}, token_ids[:, ::-1], epochs=2, verbose=0)
        trained = [ops.convert_to_numpy(weight) for weight in model.trainable_weights]
        outputs[f"{name}, trained"] = np.concatenate([weight.ravel() for weight in trained])
    for name, make_model in PLAIN.items():
        model = make_model()
        for weight in model.trainable_weights:
            weight.assign(random.normal(size=weight.shape) / 2)
        outputs[f"{name}, predicted"] = model.predict(plain_arrays(name)[0], verbose=0)
    return outputs


def decode_in_steps(decoder, inputs, source):
    """The decoder's outputs for one position after the other, with caches."""
    from keras import ops

    cache = decoder.self_attention.empty_cache(B, T)
    projected, steps = decoder.project_source(source["encoder_sequence"]), []
    for t in range(T):
        output, cache = decoder(
            inputs[:, t : t + 1],
            encoder_padding_mask=source["encoder_padding_mask"],
            self_attention_cache=cache,
            self_attention_cache_update_index=t,
            cross_attention_cache=projected,
        )
        steps.append(ops.convert_to_numpy(output))
    return np.concatenate(steps, axis=1)


def make_layer_model():
    import keras

    from keras_attention.layers import AdditiveAttention, padding_mask

    source_ids, target_ids = (keras.Input((None,), dtype="int32", name=name) for name in ("source_ids", "target_ids"))
    embedding = keras.layers.Embedding(VOCABULARY, D)
    mask = padding_mask(source_ids)[:, None, :]
    context = AdditiveAttention(5, dropout=0.1)(embedding(target_ids), embedding(source_ids), attention_mask=mask)
    return keras.Model({"source_ids": source_ids, "target_ids": target_ids}, keras.layers.Dense(VOCABULARY)(context))


def make_chunked_model():
    from keras_attention.layers.fast import chunked_attention

    chunked_attention.MOST_AT_ONCE = 0
    return make_layer_model()


def make_seq2seq():
    from keras_attention.models import AttentionSeq2Seq

    model = AttentionSeq2Seq(VOCABULARY, VOCABULARY, embedding_dim=D, hidden_dim=6, dropout=0.1)
    model.build()
    return model


def make_masked_lm():
    from keras_attention.models import BertMaskedLM

    model = BertMaskedLM(VOCABULARY, D, 5, num_heads=2, num_layers=2, max_length=S, num_segments=0)
    model.build()
    return model


def make_language_model(kind, dropout=0.1):
    from keras_attention.models import new_language_model

    sizes = {"vocabulary_size": VOCABULARY, "hidden_dim": D, "num_layers": 2, "max_length": S, "dropout": dropout}
    sizes |= {"intermediate_dim": 5, "num_heads": 2, "positions": "rotary", "kernel_size": 2, "dilation_cycle": 2}
    sizes |= {"activation": "gelu", "attention_pattern": None}
    model, random = new_language_model(kind, sizes), np.random.default_rng(1)
    for weight in model.trainable_weights:
        weight.assign(random.normal(size=weight.shape))
    return model


LANGUAGE_MODELS = {
    kind: functools.partial(make_language_model, kind) for kind in ("gpt", "lstm", "gru", "lstmn", "convolutional")
}
MODELS = {
    "layers": make_layer_model,
    "seq2seq": make_seq2seq,
    "masked_lm": make_masked_lm,
    **LANGUAGE_MODELS,
    "chunks": make_chunked_model,  # the last: it changes a module
}


def make_transformer():
    from keras_attention.models import Transformer

    model = Transformer(VOCABULARY, VOCABULARY, D, 5, 2, 1, 1)
    model.build()
    return model


def make_classifier():
    from keras_attention.models import BertClassifier

    model = BertClassifier(VOCABULARY, D, 5, num_heads=2, num_layers=1, max_length=S, num_labels=CLASSES)
    model.build()
    return model


PLAIN = {
    "transformer": make_transformer,
    "seq2seq": make_seq2seq,
    "classifier": make_classifier,
    "masked_lm": make_masked_lm,
}


def plain_arrays(name):
    """Inputs with padding and labels of 2 B + 1 rows, which batches of B do not divide."""
    random = np.random.default_rng(3)
    pairs = {"source_ids": S, "target_ids": T}
    sizes = pairs if name in ("transformer", "seq2seq") else {"token_ids": S}
    inputs = {side: random.integers(1, VOCABULARY, (2 * B + 1, length)) for side, length in sizes.items()}
    for token_ids in inputs.values():
        token_ids[1, 2:] = 0
    *_, token_ids = inputs.values()
    return inputs, random.integers(0, CLASSES, 2 * B + 1) if name == "classifier" else token_ids


def use_as_any_keras_model(name):
    """Fits, predicts, saves, loads and clones one of the models."""
    import keras

    keras.utils.set_random_seed(5)
    model, (inputs, labels) = PLAIN[name](), plain_arrays(name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, weighted_metrics=["sparse_categorical_accuracy"])
    losses = model.fit(inputs, labels, batch_size=B, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    whole = model.predict(inputs, batch_size=2 * B + 1, verbose=0)
    np.testing.assert_allclose(model.predict(inputs, batch_size=B, verbose=0), whole, atol=1e-5)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.keras")
        loaded = keras.models.load_model(Path(folder) / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for other in (loaded, clone):
        assert type(other) is type(model)
        assert other.get_config() == model.get_config()
        np.testing.assert_allclose(other.predict(inputs, batch_size=2 * B + 1, verbose=0), whole, atol=1e-6)
    assert int(loaded.optimizer.iterations) == 8 * 3


def make_pairs(random):
    inputs = {
        "source_ids": random.integers(1, VOCABULARY, (2 * B, S)),
        "target_ids": random.integers(1, VOCABULARY, (2 * B, T)),
    }
    inputs["source_ids"][1, 3:] = 0
    return inputs


def make_texts(random):
    return {"token_ids": random.integers(1, VOCABULARY, (2 * B, T))}


def make_packed_texts(random):
    """Rows of two texts: blocks 1 and 2, the positions of each from 0, and T places to guess."""
    row = {"block_ids": [1, 1, 1, 2, 2, 2, 0], "position_ids": [0, 1, 2, 0, 1, 2, 0]}
    inputs = {name: np.tile(ids, (2 * B, 1)) for name, ids in row.items()}
    inputs["token_ids"] = random.integers(1, VOCABULARY, (2 * B, S))
    return {**inputs, "masked_positions": random.integers(0, S - 1, (2 * B, T))}


def train_two_steps(model, make_inputs):
    import keras

    random = np.random.default_rng(0)
    inputs = make_inputs(random)
    labels = random.integers(1, VOCABULARY, (2 * B, T))
    before = [np.array(weight.numpy()) for weight in model.trainable_weights]
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(inputs, labels, batch_size=B, epochs=1, verbose=0)
    assert model.optimizer.iterations == 2
    assert np.isfinite(history.history["loss"]).all()
    for weight, old in zip(model.trainable_weights, before, strict=True):
        assert np.isfinite(weight.numpy()).all()
        assert not np.array_equal(weight.numpy(), old), weight.path


def main(path):
    sys.meta_path.insert(0, NoTensorFlow())
    import keras

    assert keras.backend.backend() == os.environ["KERAS_BACKEND"] != "tensorflow"
    np.savez(path, **compute_outputs())
    for name in PLAIN:
        use_as_any_keras_model(name)
        print(f"plain-{name}")
    for name, make_model in MODELS.items():
        make_inputs = make_texts if name in LANGUAGE_MODELS else make_pairs
        train_two_steps(make_model(), make_packed_texts if name == "masked_lm" else make_inputs)
        print(name)
    assert "tensorflow" not in sys.modules


@pytest.fixture(scope="module", params=["jax", "torch"])
def on_backend(request, tmp_path_factory):
    """Of a process on that backend, without TensorFlow: the path of the outputs, and the models that it has trained."""
    pytest.importorskip(request.param)
    path = tmp_path_factory.mktemp(request.param) / "outputs.npz"
    environment = {**os.environ, "KERAS_BACKEND": request.param, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, __file__, path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return path, done.stdout.split()


@pytest.mark.thorough
def test_two_training_steps_without_tensorflow(on_backend):
    assert on_backend[1][-len(MODELS) :] == list(MODELS)


@pytest.mark.thorough
def test_models_are_plain_keras_without_tensorflow(on_backend):
    assert on_backend[1][: len(PLAIN)] == [f"plain-{name}" for name in PLAIN]


@pytest.mark.thorough
def test_layers_compute_the_same_on_both_backends(on_backend):
    with np.load(on_backend[0]) as outputs:
        for name, output in compute_outputs().items():
            assert np.isfinite(output).all()
            np.testing.assert_allclose(outputs[name], output, rtol=0, atol=1e-5, err_msg=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
