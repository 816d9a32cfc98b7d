"""Low-rank adapters (LoRA) in the projections of an encoder."""

import numpy as np

from keras_attention.support.errors import UserError


def add_adapters(model, settings, start):
    """Freezes the encoder, and adds matrices of rank `settings.lora` to the layers above the frozen ones.

    The answers do not change until the matrices are trained. Training needs four more numbers per trained weight: two
    moments of the optimizer, the gradient and the average. With LoRA, only a few per cent of the weights are trained.

    Args:
        model: FinetunableNetwork, built.
        settings: FinetuneSettings.
        start: Start.

    Returns:
        str, a sentence with the number of weights that are trained.

    Raises:
        UserError: if the start is not trained, the network has no such projections, the rank is larger than the width,
            or no layer is left to train.

    Source: Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models", https://arxiv.org/abs/2106.09685. As
    in section 4.2, the queries and values of the attention are adapted. The equation: `layouts.HeadProjection`.
    """
    rank, layers = settings.lora, _low_rank_layers(model)
    if start.entry is None:
        raise UserError("--lora adapts a trained model. Expected: --from MODEL. Found: --from none")
    if not layers:
        raise UserError(f"--lora adapts the attention of a BERT. Found: a {type(model).__name__}. Leave it out.")
    if rank > model.settings["hidden_dim"]:
        raise UserError(f"--lora may be at most {model.settings['hidden_dim']}, the width of the model. Found: {rank}")
    if settings.freeze >= len(layers):
        raise UserError(f"--lora needs a layer that is not frozen. Found: --freeze {settings.freeze}")
    total = model.count_params()
    for weight in _below_the_head(model):
        weight.trainable = False
    for layer in (layer for group in layers[settings.freeze :] for layer in group):
        layer.enable_lora(rank)
    trained = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    return f"LoRA of rank {rank}: {trained:,} weights are trained, {100 * trained / total:.1f} % of the model's."


def merge_adapters(model):
    """Adds the products of the trained matrices to the kernels, and makes the whole network trainable again."""
    for layer in (layer for group in _low_rank_layers(model) for layer in group):
        layer.merge_lora()
    for weight in _below_the_head(model):
        weight.trainable = True


def _low_rank_layers(model):
    """The groups of layers of a network that have adapters, [] if there are none."""
    return model.low_rank_layers() if hasattr(model, "low_rank_layers") else []


def _below_the_head(model):
    """The weights that `pooled` depends on."""
    of_head = {id(weight) for layer in model.head for weight in layer.weights}
    return [weight for weight in model.weights if id(weight) not in of_head]
