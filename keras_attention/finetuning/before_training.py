"""Checks before a training whether the classifier can be saved at its end."""

from keras_attention.data.tables.raw_rows import shown
from keras_attention.errors import UserError
from keras_attention.zoo.architectures import MAX_LABEL_CHARACTERS, MAX_LABELS
from keras_attention.zoo.archive import config_of
from keras_attention.zoo.json_file import as_json

THRESHOLD = 0.1234567890123456  # takes as much room as any that will be found


def check_label_names(task, examples):
    """Raises an error for labels that no model can have.

    Args:
        task: Task.
        examples: Examples that `task` was found from.

    Raises:
        UserError: names the file, the line and the column of the first one.
    """
    if len(task.label_names) > MAX_LABELS:
        raise UserError(
            f"{examples.where}: {len(task.label_names):,} different labels. A model has at most {MAX_LABELS:,}. Join "
            "rare ones, or check the label column."
        )
    for name in task.label_names:
        if len(name) <= MAX_LABEL_CHARACTERS and name.isprintable():
            continue
        row = next(row for row, label in enumerate(examples.labels) if name in label)
        if len(name) > MAX_LABEL_CHARACTERS:
            fault = f"has {len(name):,} characters. A label has at most {MAX_LABEL_CHARACTERS}"
        else:
            sign = next(sign for sign in name if not sign.isprintable())
            fault = f"holds the character U+{ord(sign):04X}. A label has neither line breaks nor control characters"
        raise UserError(f"{examples.place(row)}: the label {shown(name)} {fault}.")


def check_saveable(classifier, language="en"):
    """Raises UserError if config.json of the classifier could not be written: separator, language, size."""
    task = dict(classifier.task)
    if task["separator"] is not None:
        task["threshold"] = [THRESHOLD] * len(task["label_names"])
    about = {"language": language, "max_tokens": classifier.max_tokens, "task": task}
    as_json("config.json", config_of(classifier.model, {"text": "tokenizer"}, about))
