"""Decoding without a key/value cache, to measure the gain of the cache."""

from keras import ops


def without_cache(model):
    """Makes a Transformer recompute the whole answer at every step; its answers stay the same."""

    def initial_state(memory, max_steps, attention=False, beam_size=1):
        batch = ops.shape(memory["mask"])[0]
        return {"prefix": ops.ones((batch, max_steps), "int32"), "position": ops.zeros((batch,), "int32")}

    def step(token_ids, state, memory, output_kernel=None):
        position = state["position"][0]
        prefix = ops.slice_update(state["prefix"], (0, position), token_ids[:, None])  # (N, L)
        x = model.target_position(model.target_embedding(prefix) * model.hidden_dim**0.5)  # (N, L, D)
        for layer, source in zip(model.decoder_layers, memory["layers"], strict=True):
            x = layer(x, encoder_padding_mask=memory["mask"], cross_attention_cache=source)
        last = ops.slice(x, (0, position, 0), (x.shape[0], 1, x.shape[2]))
        return model._logits(last)[:, 0], {"prefix": prefix, "position": state["position"] + 1}

    model.initial_state, model.step = initial_state, step
