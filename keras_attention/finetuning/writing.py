"""A fine-tuned classifier as an entry of the zoo, with its report in the card."""

import tempfile
from pathlib import Path

from keras_attention.finetuning.report import CLASS_COLUMNS, MISTAKE_COLUMNS, MISTAKES_SHOWN
from keras_attention.visualize.confusion_matrix import confusion_matrix_plot
from keras_attention.zoo.answers import answers_to
from keras_attention.zoo.archive import write_entry

EXAMPLES = 20
BESIDE_WORDS = "Beside a bag of words"


def write_classifier(folder, finetuned, report, *, start, facts, data, language="en", test=None):
    """Writes the entry, in place of one that stands there.

    Args:
        folder: str or Path.
        finetuned: Finetuned.
        report: Report.
        start: str, the entry that the training began with, its name or its folder, or "none".
        facts: dict, see `training.run_facts`.
        data: list of {"name", "terms", "link"}, what the rows are.
        language: str.
        test: Examples that the report was made from, or None for the validation rows.

    Returns:
        Entry.
    """
    classifier, task, start = finetuned.classifier, finetuned.task, Path(start).resolve().name
    began = "random weights" if start == "none" else f"`{start}`"
    metrics = {
        "description": f"Decides a {task.kind} task on texts of up to {classifier.max_tokens} tokens. Fine-tuned from "
        f"{began} on {len(finetuned.train):,} rows.",
        "data": data,
        **facts,
        "minutes": finetuned.result.seconds / 60,
        "seeds": [finetuned.settings["seed"]],
        "limits": [
            "Knows no other labels than these, and gives one to any text, also to one of another kind or language.",
            *(["Measured on the rows that chose the epoch, so the scores are a little too good."] * (test is None)),
        ],
        "training": {**finetuned.settings, "start": start, "history": finetuned.result.history},
    }
    examples = finetuned.validation if test is None else test
    return write_measured(folder, classifier, report, examples, metrics, language=language)


def write_measured(folder, classifier, report, examples, metrics, *, language="en", tables=(), weights_dtype="float32"):
    """Writes the entry of a classifier with what was measured, in place of one that stands there.

    Args:
        folder: str or Path.
        classifier: Classifier.
        report: Report.
        examples: Examples; the first ones are stored with their answers, to be verified.
        metrics: dict, what else metrics.json says: description, data, limits, training and where it ran.
        language: str.
        tables: list of dict, further tables of the card.
        weights_dtype: "float32" or "float16".

    Returns:
        Entry.
    """
    task, examples = classifier.task, examples.first(EXAMPLES)
    outputs = answers_to(classifier, examples.texts, examples.texts_b)
    stored = [{"source": text, "output": output} for text, output in zip(examples.texts, outputs, strict=True)]
    for example, second in zip(stored, examples.texts_b or (), strict=False):
        example["source_b"] = second
    measured = {"parameters": classifier.model.count_params(), "scores": _scores(report), "examples": stored}
    metrics = {**metrics, **measured, "tables": [*_tables(report), *tables]}
    about = {"language": language, "max_tokens": classifier.max_tokens, "task": task}
    with tempfile.TemporaryDirectory() as temporary:
        pictures = []
        if report.confusion is not None:
            pictures = [Path(temporary) / "confusion.png"]
            confusion_matrix_plot(report.confusion, list(task["label_names"]), pictures[0])
            metrics["pictures"] = [{"file": "confusion.png", "caption": "True labels (rows) and given ones"}]
        return write_entry(
            folder,
            classifier.model,
            {"text": classifier.tokenizer},
            about=about,
            metrics=metrics,
            weights_dtype=weights_dtype,
            extra_files=pictures,
            overwrite=True,
        )


def _scores(report):
    import sklearn

    signature = f"scikit-learn {sklearn.__version__}"
    return [
        {"set": report.where, "metric": name, "value": value, "signature": signature}
        for name, value in report.scores.items()
    ]


def _tables(report):
    names = list(report.scores)
    beside = [["this model", *report.scores.values()], ["TF-IDF + linear", *(report.baseline[name] for name in names)]]
    tables = [{"title": BESIDE_WORDS, "columns": ["", *names], "rows": beside}]
    if report.per_class:
        tables.append({"title": "By label", "columns": CLASS_COLUMNS, "rows": report.per_class})
    if report.mistakes:
        shown = report.mistakes[:MISTAKES_SHOWN]
        tables.append({"title": "Worst mistakes", "columns": MISTAKE_COLUMNS, "rows": shown})
    return tables
