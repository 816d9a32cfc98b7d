"""Fine-tuning on Python lists instead of files."""

from keras_attention.errors import UserError
from keras_attention.finetuning.examples import Examples
from keras_attention.finetuning.finetune import finetune_classifier
from keras_attention.finetuning.report import make_report
from keras_attention.finetuning.settings import FinetuneSettings
from keras_attention.finetuning.writing import write_classifier
from keras_attention.training.run_facts import run_facts

SEPARATOR = "|"  # joins the labels of a text that has several


def finetune_lists(texts, labels, texts_b, start, validation, task, out, settings):
    """See `keras_attention.finetune`."""
    facts = run_facts()
    unknown = sorted(set(settings) - set(FinetuneSettings.__dataclass_fields__))
    if unknown:
        known = ", ".join(FinetuneSettings.__dataclass_fields__)
        raise UserError(f"There is no setting {unknown[0]!r}. Known: {known}")
    lists = any(isinstance(label, (list, tuple, set)) for label in labels)
    examples = given_examples(texts, labels, texts_b, lists)
    if validation is not None:
        validation = given_examples(*validation, *[None] * (3 - len(validation)), lists, "the validation examples")
    finetuned = finetune_classifier(
        examples, validation, start, FinetuneSettings(**settings), task=task, separator=SEPARATOR if lists else None
    )
    if out is not None:
        data = [{"name": "lists given in Python", "terms": "as their owner says", "link": ""}]
        write_classifier(out, finetuned, make_report(finetuned), start=str(start), facts=facts, data=data)
    return finetuned.classifier


def given_examples(texts, labels, texts_b, lists, where="the examples"):
    """Examples out of Python lists.

    Args:
        texts, labels, texts_b: see `keras_attention.finetune`.
        lists: bool, whether each label is a list of labels.
        where: str, for messages.

    Returns:
        Examples; the labels of lists are joined by `SEPARATOR`.

    Raises:
        UserError: if the numbers of texts and labels differ, or a label of a list holds the separator.
    """
    if len(texts) != len(labels) or (texts_b is not None and len(texts) != len(texts_b)):
        found = [len(part) for part in (texts, labels, texts_b) if part is not None]
        raise UserError(f"There must be one label for each text. Received: {' and '.join(map(str, found))}")
    for name in (name for label in labels if lists for name in label):
        if SEPARATOR in str(name):
            raise UserError(f"A label may not hold {SEPARATOR!r}. Received: {name!r}")
    labels = [SEPARATOR.join(map(str, label)) if lists else str(label) for label in labels]
    return Examples(list(texts), labels, None if texts_b is None else list(texts_b), None, where)
