"""What the training of a translator minimizes: guided alignment, and R-Drop, around a loss of tokens.

Shapes: B batch, T target tokens, S source tokens, V vocabulary.
"""

from keras import ops

from keras_attention.training.losses import Loss, alignment_cross_entropy, symmetric_divergence, token_cross_entropy


def guided_cross_entropy(model, inputs, labels, label_smoothing, guided):
    """-log p of each target token, and the penalty of an attention head that does not align words.

    The head attends to the source tokens of which the target token that it reads is the translation.

    Args:
        model: encoder-decoder whose attention weights have "cross" (B, L, H, T, S), of L layers and H heads.
        inputs: dict of the tensors that the model takes, and "alignment", float (B, T, S): shares of the source tokens
            that each target token of the inputs translates.
        labels: int tensor (B, T), 0 for padding.
        label_smoothing: float in [0, 1).
        guided: triple of a float >= 0, the weight of the penalty, and two int, layer and head from 0.

    Returns:
        `Loss`, and the logits (B, T, V).

    Source: Garg et al. (2019), https://arxiv.org/abs/1909.02074. Differences: the head aligns the token that it reads,
    not the one that it predicts, and sees the earlier tokens only.
    """
    weight, layer, head = guided
    tokens = {name: ids for name, ids in inputs.items() if name != "alignment"}
    logits, weights = model(tokens, training=True, return_attention_scores=True)
    penalty = weight * alignment_cross_entropy(inputs["alignment"], weights["cross"][:, layer, head])
    return token_cross_entropy(labels, logits, label_smoothing)._replace(penalty=penalty), logits


def r_drop_loss(cross_entropy, inputs, labels, weight):
    """The mean loss of two passes with other dropout, and the divergence of their predictions.

        loss = (CE(p) + CE(q)) / 2 + weight / 2 * D(p, q)        D: `symmetric_divergence`

    Args:
        cross_entropy: callable(inputs, labels) -> (`Loss`, logits (B, T, V)), a pass with dropout.
        inputs: dict of tensors with a leading axis B.
        labels: int tensor (B, T), 0 for padding.
        weight: float >= 0, alpha in the paper. With 0, there is one pass and no divergence.

    Returns:
        `Loss` of B sentences.

    Source: Liang et al. (2021), R-Drop, https://arxiv.org/abs/2106.14448. Difference: half of the paper's sum.
    """
    if not weight:
        return cross_entropy(inputs, labels)[0]
    twice = {name: ops.concatenate([value, value]) for name, value in inputs.items()}
    both, logits = cross_entropy(twice, ops.concatenate([labels, labels]))
    penalty = weight / 2 * symmetric_divergence(labels, *ops.split(logits, 2))
    if both.penalty is not None:
        penalty = penalty + both.penalty / 2
    return Loss(both.total / 2, both.count / 2, both.correct / 2, penalty)
