"""Our Transformer in the format of CTranslate2, a fast CPU engine for small Transformers: the same weights in both.

Needs the packages of the extra `benchmarks`.
"""

from pathlib import Path

import numpy as np
from ctranslate2.specs import TransformerSpec
from ctranslate2.specs.common_spec import Activation

ACTIVATIONS = {"relu": Activation.RELU, "gelu": Activation.GELU, "silu": Activation.SWISH}
MAX_POSITIONS = 1024


def write_ctranslate2(model, tokenizer, folder):
    """Writes a folder that `ctranslate2.Translator` loads.

    Args:
        model: built Transformer whose embeddings are shared by both sides and the output.
        tokenizer: SentencePieceTokenizer, of both sides.
        folder: str or Path, must not exist.
    """
    if model.tie_embeddings != "all" or model.positions != "sinusoidal":
        raise ValueError(
            "Only shared embeddings and sinusoidal positions can be written. "
            f"Received: tie_embeddings={model.tie_embeddings}, positions={model.positions}"
        )
    spec = TransformerSpec.from_config(
        (model.num_encoder_layers, model.num_decoder_layers),
        model.num_heads,
        pre_norm=model.normalize_first,
        activation=ACTIVATIONS[model.activation],
    )
    table = array(model.target_embedding.embeddings)
    spec.encoder.embeddings[0].weight = table
    spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = True
        side.position_encodings.encodings = sinusoids(model.hidden_dim)
    for target, layer in zip(spec.encoder.layer, model.encoder_layers, strict=True):
        set_self_attention(target.self_attention, layer)
        set_feed_forward(target.ffn, layer)
    for target, layer in zip(spec.decoder.layer, model.decoder_layers, strict=True):
        set_self_attention(target.self_attention, layer)
        set_cross_attention(target.attention, layer)
        set_feed_forward(target.ffn, layer)
    if model.normalize_first:
        set_norm(spec.encoder.layer_norm, model.encoder_norm)
        set_norm(spec.decoder.layer_norm, model.decoder_norm)
    pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.layer_norm_epsilon = 1e-5
    spec.validate()
    Path(folder).mkdir(parents=True)
    spec.save(str(folder))


def array(weight):
    return np.asarray(weight, "float32")


def sinusoids(width):
    """The positions of `SinusoidalPositionalEmbedding`, (MAX_POSITIONS, width)."""
    angles = np.arange(MAX_POSITIONS)[:, None] * 10000.0 ** -(np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(MAX_POSITIONS, width).astype("float32")


def set_norm(target, norm):
    target.gamma, target.beta = array(norm.gamma), array(norm.beta)


def set_linear(target, *projections):
    """Joins projections side by side; kernels (in, out) of any number of axes become (out, in)."""
    kernels, biases = zip(*projections, strict=True)
    target.weight = np.ascontiguousarray(np.concatenate(kernels, axis=1).T)
    target.bias = np.concatenate(biases)


def head_projection(layer):
    """A projection to heads as a matrix (D, H K) and its bias."""
    kernel = array(layer.kernel)
    return kernel.reshape(len(kernel), -1), array(layer.bias).ravel()


def output_projection(attention):
    """The projection from heads as a matrix (H V, D) and its bias."""
    kernel = array(attention.output_projection.kernel)
    return kernel.reshape(-1, kernel.shape[-1]), array(attention.output_projection.bias)


def set_self_attention(target, layer):
    attention = layer.self_attention
    parts = attention.query_projection, attention.key_projection, attention.value_projection
    set_linear(target.linear[0], *map(head_projection, parts))
    set_linear(target.linear[1], output_projection(attention))
    set_norm(target.layer_norm, layer.self_attention_norm)


def set_cross_attention(target, layer):
    attention = layer.cross_attention
    set_linear(target.linear[0], head_projection(attention.query_projection))
    set_linear(target.linear[1], *map(head_projection, (attention.key_projection, attention.value_projection)))
    set_linear(target.linear[2], output_projection(attention))
    set_norm(target.layer_norm, layer.cross_attention_norm)


def set_feed_forward(target, layer):
    for part, dense in (
        (target.linear_0, layer.feed_forward.intermediate_dense),
        (target.linear_1, layer.feed_forward.output_dense),
    ):
        set_linear(part, (array(dense.kernel), array(dense.bias)))
    set_norm(target.layer_norm, layer.feed_forward_norm)
