"""The loss of both objectives of BERT together, for `make_train_step`."""

from keras_attention.training.class_losses import class_loss
from keras_attention.training.losses import token_loss


def pretraining_loss():
    """The mean cross-entropy of the masked tokens plus that of whether a text follows the other.

    The step divides by the number of masked tokens, so the second one counts P for a row of at most P masked tokens.

    Returns:
        callable(labels int (B, P + 1), (logits (B, P, V), logits (B, 2))) -> (summed loss, masked tokens, those that
        are guessed right). The last column of the labels is 0, 1 or, in a row of padding, -1.

    Source: Devlin et al. (2019), appendix A.2: the sum of the mean masked LM likelihood and the mean next sentence
    prediction likelihood. Difference: P stands for the masked tokens of a row, of which a short row has fewer.
    """
    masked_loss, next_loss = token_loss(), class_loss()

    def loss(labels, logits):
        masked, following = logits
        summed, tokens, correct = masked_loss(labels[:, :-1], masked)
        apart, _, _ = next_loss(labels[:, -1], following)
        return summed + (labels.shape[1] - 1) * apart, tokens, correct

    return loss
