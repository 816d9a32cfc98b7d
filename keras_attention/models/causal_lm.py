"""All causal language models by name, for recipes and benchmarks."""

from keras_attention.models import convolutional_lm, gpt, recurrent_lm
from keras_attention.models.convolutional_lm import ConvolutionalLM
from keras_attention.models.gpt import GPT, scale_residual_projections
from keras_attention.models.recurrent_lm import RecurrentLM

# Kind -> class, the names of its settings, and the settings that define the kind.
KINDS = {
    "gpt": (GPT, gpt.SETTINGS, {}),
    **{cell: (RecurrentLM, recurrent_lm.SETTINGS, {"cell": cell}) for cell in recurrent_lm.CELLS},
    "convolutional": (ConvolutionalLM, convolutional_lm.SETTINGS, {}),
}


def new_language_model(kind, settings):
    """Builds a causal language model with random weights.

    All kinds take `token_ids` (B, T), return logits (B, T, V), and have the same step function (`encode`, `widened`,
    `initial_state` and `step`).

    Args:
        kind: str, one of `KINDS`.
        settings: dict of settings such as `hidden_dim`. Settings that the kind does not have are ignored.

    Returns:
        Built keras.Model. The residual projections of a GPT are scaled by its depth.

    Raises:
        ValueError: if the kind is unknown, a setting is out of range, or two do not fit together.

    Example:
        model = new_language_model("lstm", {"vocabulary_size": 90, "hidden_dim": 256, "num_layers": 2})
    """
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}. Received: kind={kind!r}")
    network, names, fixed = KINDS[kind]
    model = network(**{name: value for name, value in (settings | fixed).items() if name in names})
    model.build()
    if network is GPT:
        scale_residual_projections(model)
    return model
