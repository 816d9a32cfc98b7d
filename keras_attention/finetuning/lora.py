"""Low-rank adapters (LoRA) in the projections of an encoder."""

import numpy as np

from keras_attention.finetuning.starting_model import FROM_NOTHING
from keras_attention.support.errors import UserError


def add_adapters(model, settings, start):
    """Freezes the encoder, and adds matrices of rank `settings.lora` to the layers above the frozen ones.

    The answers do not change until the matrices are trained. Training needs four more numbers per trained weight: two
    moments of the optimizer, the gradient and the average. With LoRA, only a few per cent of the weights are trained.

    Args:
        model: BertClassifier, built.
        settings: FinetuneSettings.
        start: Entry or "none".

    Returns:
        str, a sentence with the number of weights that are trained.

    Raises:
        UserError: if the start is not trained, the rank is larger than the width, or no layer is left to train.

    Source: Hu et al. (2021), "LoRA: Low-Rank Adaptation of Large Language Models", https://arxiv.org/abs/2106.09685. As
    in section 4.2, the queries and values of the attention are adapted. The equation: `layouts.HeadProjection`.
    """
    encoder, rank = model.encoder, settings.lora
    if start == FROM_NOTHING:
        raise UserError("--lora adapts a trained model. Expected: --from MODEL. Found: --from none")
    if rank > encoder.hidden_dim:
        raise UserError(f"--lora may be at most {encoder.hidden_dim}, the width of the model. Found: {rank}")
    if settings.freeze >= encoder.num_layers:
        raise UserError(f"--lora needs a layer that is not frozen. Found: --freeze {settings.freeze}")
    total = model.count_params()
    for weight in encoder.weights:
        weight.trainable = False
    for projection in _projections(encoder)[2 * settings.freeze :]:
        projection.enable_lora(rank)
    trained = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    return f"LoRA of rank {rank}: {trained:,} weights are trained, {100 * trained / total:.1f} % of the model's."


def merge_adapters(model):
    """Adds the products of the trained matrices to the kernels, and makes the whole encoder trainable again."""
    for projection in _projections(model.encoder):
        projection.merge_lora()
    for weight in model.encoder.weights:
        weight.trainable = True


def _projections(encoder):
    """The projections of queries and values, from bottom to top."""
    attentions = [layer.self_attention for layer in encoder.encoder_layers]
    return [each for one in attentions for each in (one.query_projection, one.value_projection)]
