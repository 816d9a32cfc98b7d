"""Our Transformer as `transformers.MarianMTModel`: the same weights in both.

Needs the packages of the extra `benchmarks`.
"""

import numpy as np
import torch
from transformers import MarianConfig, MarianMTModel

from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID

MAX_POSITIONS = 512


def marian_of(model):
    """Makes a MarianMTModel.

    Args:
        model: built Transformer, post-norm, whose embeddings are shared by both sides and the output.

    Returns:
        MarianMTModel with the same logits as `model`.
    """
    if model.tie_embeddings != "all" or model.positions != "sinusoidal" or model.normalize_first:
        raise ValueError(
            "Only post-norm with shared embeddings and sinusoidal positions can be made. Received: tie_embeddings="
            f"{model.tie_embeddings}, positions={model.positions}, normalize_first={model.normalize_first}"
        )
    sizes = {"d_model": model.hidden_dim, "vocab_size": model.target_vocabulary_size, "scale_embedding": True}
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        sizes |= {f"{side}_layers": len(layers), f"{side}_ffn_dim": model.intermediate_dim}
        sizes[f"{side}_attention_heads"] = model.num_heads
    ids = {
        "pad_token_id": PAD_ID,
        "eos_token_id": END_ID,
        "decoder_start_token_id": START_ID,
        "forced_eos_token_id": None,
    }
    positions = {"max_position_embeddings": MAX_POSITIONS, "activation_function": model.activation}
    marian = MarianMTModel(MarianConfig(**sizes, **ids, **positions, dropout=0.0))
    marian.load_state_dict(state_dict(model))
    return marian.eval()


def state_dict(model):
    """The weights under Marian's names."""
    table = tensor(model.target_embedding.embeddings)
    state = {"final_logits_bias": torch.zeros(1, len(table)), "model.shared.weight": table, "lm_head.weight": table}
    for side, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        state[f"model.{side}.embed_tokens.weight"] = table
        state[f"model.{side}.embed_positions.weight"] = torch.from_numpy(sinusoids(model.hidden_dim))
        for number, layer in enumerate(layers):
            place = f"model.{side}.layers.{number}."
            attentions = {"self_attn": (layer.self_attention, layer.self_attention_norm)}
            if side == "decoder":
                attentions["encoder_attn"] = layer.cross_attention, layer.cross_attention_norm
            for name, (attention, norm) in attentions.items():
                state |= attention_state(place + name, attention) | norm_state(f"{place}{name}_layer_norm", norm)
            state |= linear_state(place + "fc1", layer.feed_forward.intermediate_dense)
            state |= linear_state(place + "fc2", layer.feed_forward.output_dense)
            state |= norm_state(place + "final_layer_norm", layer.feed_forward_norm)
    return state


def tensor(weight):
    return torch.from_numpy(np.array(weight, "float32"))


def sinusoids(width):
    """The positions of `SinusoidalPositionalEmbedding`, (MAX_POSITIONS, width)."""
    angles = np.arange(MAX_POSITIONS)[:, None] * 10000.0 ** -(np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(MAX_POSITIONS, width).astype("float32")


def norm_state(place, norm):
    return {f"{place}.weight": tensor(norm.gamma), f"{place}.bias": tensor(norm.beta)}


def linear_state(place, dense):
    """Kernels (in, out) become (out, in)."""
    return {f"{place}.weight": tensor(dense.kernel).T, f"{place}.bias": tensor(dense.bias)}


def attention_state(place, attention):
    """Kernels from and to heads, (D, H, K) and (H, V, D), become matrices."""
    state = {}
    for name in ("query", "key", "value"):
        projection = getattr(attention, f"{name}_projection")
        kernel = tensor(projection.kernel)
        state[f"{place}.{name[0]}_proj.weight"] = kernel.reshape(len(kernel), -1).T
        state[f"{place}.{name[0]}_proj.bias"] = tensor(projection.bias).ravel()
    kernel = tensor(attention.output_projection.kernel)
    state[f"{place}.out_proj.weight"] = kernel.reshape(-1, kernel.shape[-1]).T
    state[f"{place}.out_proj.bias"] = tensor(attention.output_projection.bias)
    return state
