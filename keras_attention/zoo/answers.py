"""The answers of any model to the examples of its card, as text."""

from keras_attention.zoo.classifier import Classifier
from keras_attention.zoo.mask_filler import MaskFiller
from keras_attention.zoo.translator import Translator


def answers_to(pipeline, sources, sources_b=None):
    """What the model says to each source, with its own settings.

    Args:
        pipeline: Translator, Classifier, MaskFiller, or a TextEncoder, which says nothing.
        sources: list of str.
        sources_b: list of str for a classifier of pairs, else None.

    Returns:
        List of str: the translation; the label, of several the labels joined, of a number two decimals; the text with
        its gaps filled. Empty for a TextEncoder.
    """
    if isinstance(pipeline, Translator):
        return pipeline.translate(sources)
    if isinstance(pipeline, Classifier):
        return [label_text(label, pipeline.task) for label in pipeline.classify(sources, sources_b)]
    if isinstance(pipeline, MaskFiller):
        return [best.text for best, *_ in pipeline.fill_mask(sources, top_k=1)]
    return []


def label_text(label, task):
    """A label as it would stand in a table: str."""
    if task["kind"] == "multilabel":
        return task["separator"].join(label)
    return f"{label:.2f}" if task["kind"] == "regression" else label
