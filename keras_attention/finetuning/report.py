"""Measures a fine-tuned classifier on rows that it was not trained on, and writes it as a zoo entry."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.tables.label_task import Task
from keras_attention.evaluation import classification_scores as measures
from keras_attention.evaluation.bag_of_words import BagOfWords, bag_of_words_scores
from keras_attention.evaluation.classification_scores import expected_calibration_error
from keras_attention.finetuning.starting_model import FROM_NOTHING, Start, classifier_keys
from keras_attention.support.errors import counted, quoted
from keras_attention.support.moved import RenamedAttribute
from keras_attention.visualize.score_plots import confusion_matrix_plot
from keras_attention.zoo.card import table_text
from keras_attention.zoo.entry import read_json
from keras_attention.zoo.entry_io import write_entry
from keras_attention.zoo.registry import find_entry

SHOWN = 120  # characters of a text in a table
MISTAKES, MISTAKES_SHOWN = 20, 10
CLASS_COLUMNS = ["label", "precision", "recall", "F1", "rows"]
TF_IDF = "TF-IDF + linear"
FOLD_COLUMNS = ["score", "mean", "standard deviation"]  # and the name of the baseline


class Report(NamedTuple):
    """The scores of a classifier, a baseline, and the largest errors.

    Attributes:
        where: str, the rows on which the scores were measured.
        scores: dict from a score's name to its value, see `evaluation.classification_scores`.
        baseline: dict of the same scores for TF-IDF with logistic regression, or of the simple model for a kind of
            input that is a file, trained on the same rows; or None.
        per_class: list of rows of CLASS_COLUMNS.
        confusion: int array (K, K), true labels by predicted labels; None unless the task is binary or multiclass.
        mistakes: list of rows of `mistake_columns`.
        calibration_error: float, expected calibration error in per cent; None for a regression.
        blend: str, the reason for blending with a bag of words, or None.
        folds: list of rows of FOLD_COLUMNS and the baseline, see `cross_validation.cross_validate`, or None.
        candidates: list of rows of CANDIDATE_COLUMNS, see `calibration.choose_network`, or None.
        warnings: list of str.
        baseline_name: str.
        mistake_columns: list of str. The first is "line", of a table, or "row"; the last is "text", "file", or "input"
            for arrays.
    """

    where: str
    scores: dict
    baseline: dict | None
    per_class: list
    confusion: np.ndarray | None
    mistakes: list
    calibration_error: float | None = None
    blend: str | None = None
    folds: list | None = None
    candidates: list | None = None
    warnings: list | None = None
    baseline_name: str = TF_IDF
    mistake_columns: list | None = None

    def as_json(self):
        """A dict of JSON types."""
        return {**self._asdict(), "confusion": None if self.confusion is None else self.confusion.tolist()}


def make_report(finetuned, test=None):
    """Scores a new classifier and a bag-of-words baseline.

    Args:
        finetuned: Finetuned.
        test: Examples, or None for the validation rows, whose scores are slightly optimistic.

    Returns:
        Report.

    Raises:
        UserError: if a label of `test` is unknown.
    """
    examples = finetuned.validation if test is None else test
    name = "validation" if test is None else "test"
    report = measure(finetuned.classifier, examples, name, finetuned.task.main_score)
    baseline = bag_of_words_scores(finetuned.words, finetuned.validation, examples, finetuned.task)
    name = TF_IDF if isinstance(finetuned.words, BagOfWords) else finetuned.words.name
    blend_fields = {"blend": finetuned.blend_reason, "candidates": finetuned.candidates}
    return report._replace(baseline=baseline, baseline_name=name, **blend_fields)


def measure(classifier, examples, name="test", main_score=None):
    """Scores a classifier, without a baseline.

    Args:
        classifier: Classifier.
        examples: Examples.
        name: str, a name for the examples.
        main_score: str, the first of the scores of a task with one label a row; None: by the examples.

    Returns:
        Report.

    Raises:
        UserError: if a label is unknown to the classifier.
    """
    return report_of(classifier, examples, judge(classifier, examples, main_score), name)


class Judged(NamedTuple):
    """The results of a classifier for Examples: its Task, targets, logits (N, K) and Predictions."""

    task: Task
    targets: np.ndarray
    logits: np.ndarray
    predicted: measures.Predictions
    found = RenamedAttribute("predicted")


def judge(classifier, examples, main_score=None):
    """Returns Judged; arguments and errors as in `measure`."""
    settings = classifier.task
    names, separator = tuple(settings["label_names"]), settings["separator"]
    task = Task(settings["kind"], names, separator, "as config.json says")
    targets = examples.targets(task)
    if task.kind in ("binary", "multiclass"):
        task = task._replace(main_score=main_score or measures.main_score_of(targets, task.kind))
    logits = classifier.logits(classifier.sequences(examples.texts, examples.texts_b))
    logits = classifier.blended(logits, examples.texts, examples.texts_b)
    return Judged(task, targets, logits, measures.predictions(logits, task, settings["threshold"]))


def report_of(classifier, examples, judged, name="test"):
    """Makes the Report from Judged; see `measure`."""
    task, targets, logits, predicted = judged
    calibration = None
    if task.kind != "regression":
        calibration = expected_calibration_error(predicted.values, targets, task.kind)
    confusion = None
    if task.kind in ("binary", "multiclass"):
        labels = len(task.label_names)
        confusion = np.zeros((labels, labels), int)
        np.add.at(confusion, (targets, predicted.chosen), 1)
    return Report(
        f"{name}, {counted(len(examples), 'row')}",
        measures.scores(targets, predicted, task),
        None,
        measures.per_class(targets, predicted, task),
        confusion,
        [
            _mistake(classifier, examples, row, logits[row], distance)
            for row, distance in measures.worst_mistakes(targets, predicted, task, MISTAKES)
        ],
        calibration,
        warnings=[
            f"{quoted(label)} is hardly ever answered: {counted(true, 'row')} have this label, {given} get it."
            for label, true, given in measures.rarely_answered(targets, predicted, task)
        ],
        mistake_columns=_mistake_columns(classifier, examples),
    )


def report_text(report):
    """The report as lines for a terminal."""
    lines = [f"\n{report.blend}"] if report.blend else []
    if report.candidates and len(report.candidates) > 1:
        name = next(iter(report.scores))
        lines.append(f"\nCandidates, {name} on the validation rows:")
        lines += [f"  {one:42} {score:7.2f}{'  (saved)' * saved}" for one, score, saved in report.candidates]
    lines.append(f"\nOn {report.where}:")
    for name, value in report.scores.items():
        baseline = f"   {report.baseline_name}: {report.baseline[name]:7.2f}" if report.baseline else ""
        lines.append(f"  {name:14} {value:7.2f}{baseline}")
    if report.calibration_error is not None:
        lines.append(f"  Probabilities are off by {report.calibration_error:.1f} points (expected calibration error).")
    lines += [f"  Warning: {warning}" for warning in report.warnings or ()]
    if report.folds:
        lines += ["", "Cross-validation:", table_text([*FOLD_COLUMNS, report.baseline_name], report.folds)]
    if report.per_class:
        lines += ["", table_text(CLASS_COLUMNS, report.per_class)]
    if report.mistakes:
        lines += ["", "Largest errors:", table_text(report.mistake_columns, report.mistakes[:MISTAKES_SHOWN])]
    return "\n".join(lines)


def _mistake_columns(classifier, examples):
    are_names = all(isinstance(each, str) for each in examples.texts)
    what = "text" if not classifier.input.is_file else "file" if are_names else "input"
    return ["row" if examples.lines is None else "line", "true", "predicted", "error", what]


def _mistake(classifier, examples, row, logits, distance):
    given = classifier.label_text(
        classifier.classification(logits, 0.0 if classifier.task["kind"] != "multilabel" else None).label
    )
    text = examples.texts[row] if isinstance(examples.texts[row], str) else f"input {row + 1}"
    text = text if examples.texts_b is None else f"{text} / {examples.texts_b[row]}"
    shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "\N{HORIZONTAL ELLIPSIS}"
    place = row + 1 if examples.lines is None else examples.lines[row]
    return [place, examples.labels[row], given, distance, " ".join(shown.split())]


EXAMPLES, MOST_CHARACTERS = 20, 20_000  # stored examples, and characters of each
FILES = 5  # stored examples of inputs that are files
LABELS_SHOWN = 5
BESIDE_WORDS = "Compared with a bag of words"


def write_classifier(folder, finetuned, report, *, start, facts, data, language="en", test=None, overwrite=False):
    """Writes the entry.

    Args:
        folder: str or Path.
        finetuned: Finetuned.
        report: Report.
        start: Start; or the name or folder of the entry from which the training started, or "none".
        facts: dict, see `training.history.run_facts`.
        data: list of {"name", "terms", "link"}, the origin of the rows.
        language: str.
        test: Examples of the report, or None for the validation rows.
        overwrite: bool. Whether to replace an existing entry.

    Returns:
        Entry.
    """
    classifier, task = finetuned.classifier, finetuned.task
    teacher = finetuned.settings["teacher"]
    (start, behind), (teacher, behind_teacher) = (_name_and_data(model) for model in (start, teacher))
    vectors = finetuned.settings["vectors"] and Path(finetuned.settings["vectors"]).name
    of_files = classifier.input.is_file
    began = "random weights" if start == FROM_NOTHING else f"`{start}`"
    began += f" and distilled from `{teacher}`" if teacher else ""
    metrics = {
        "description": f"{_task_sentence(task, classifier.input)} "
        f"Fine-tuned from {began} on {len(finetuned.train):,} rows"
        f"{'' if of_files else f'; texts of up to {classifier.max_tokens} tokens'}."
        f"{f' {report.blend}' if report.blend else ''}",
        "data": [*data, *behind, *behind_teacher],
        **facts,
        "minutes": finetuned.result.seconds / 60,
        "seeds": [finetuned.settings["seed"]],
        "limits": [
            f"The model knows only these labels and labels any {classifier.input.name}, even one of another kind."
            if of_files
            else "The model knows only these labels and labels any text, even text of another kind or language.",
            *(
                ["Scored on the validation rows, which also chose the epoch, so the scores are slightly optimistic."]
                * (test is None)
            ),
            *(report.warnings or ()),
        ],
        "training": {
            **finetuned.settings,
            "start": start,
            "teacher": teacher,
            "vectors": vectors,
            "history": finetuned.result.history,
        },
    }
    examples = finetuned.validation if test is None else test
    return write_measured(folder, classifier, report, examples, metrics, language=language, overwrite=overwrite)


def _name_and_data(model):
    """The name on a card of a start or teacher, and the data behind it, for the card of the model made from it.

    The name is that of a published checkpoint, with its commit; otherwise of the entry's folder.
    """
    if model is None or model == FROM_NOTHING or (isinstance(model, Start) and model.entry is None):
        return model and FROM_NOTHING, []
    if isinstance(model, Start):
        name, metrics = model.entry.name, model.entry.metrics
    else:
        folder = find_entry(model)
        name, metrics = folder.resolve().name, read_json(folder / "metrics.json")
    data = [{**item, "name": f"through `{name}`: {item['name']}"} for item in metrics.get("data", [])]
    return metrics.get("source", name), data


def _task_sentence(task, kind):
    """One sentence about a task, such as "Binary classification of texts: bad, good."."""
    if task.kind == "regression":
        return f"Predicts a number for each {kind.name}." if kind.is_file else "Predicts a number for a text."
    names = ", ".join(task.label_names[:LABELS_SHOWN]) + ", ..." * (len(task.label_names) > LABELS_SHOWN)
    return f"{task.kind.capitalize()} classification of {kind.plural if kind.is_file else 'texts'}: {names}."


def write_measured(
    folder, classifier, report, examples, metrics, *, language="en", tables=(), overwrite=False, **options
):
    """Writes the entry of a classifier with its report.

    Args:
        folder: str or Path.
        classifier: Classifier.
        report: Report.
        examples: Examples; the first short ones are stored with their answers, for `zoo verify`.
        metrics: dict, the other keys of metrics.json: description, data, limits, training and the facts of the run.
        language: str.
        tables: list of dict, further tables of the card.
        overwrite: bool. Whether to replace an existing entry.
        options: `weights_dtype` of `write_entry`.

    Returns:
        Entry.
    """
    task = classifier.task
    if classifier.input.is_file:
        classifier = classifier.with_samples(examples.texts[:FILES])
        stored = classifier.examples()
    else:
        examples = _short_examples(examples)
        outputs = classifier.answers(examples.texts, examples.texts_b)
        stored = [{"source": text, "output": output} for text, output in zip(examples.texts, outputs, strict=True)]
        for example, second in zip(stored, examples.texts_b or (), strict=False):
            example["source_b"] = second
    measured = {"parameters": classifier.model.count_params(), "scores": _scores(report), "examples": stored}
    metrics = {**metrics, **measured, "tables": [*_tables(report), *tables]}
    about, extra_files = classifier_keys(classifier, language), list(classifier.extra_files)
    if report.confusion is not None:
        name, labels = "confusion.png", list(task["label_names"])
        extra_files.append(lambda entry: confusion_matrix_plot(report.confusion, labels, entry / name))
        metrics["pictures"] = [
            {"file": name, "caption": "Confusion matrix: true labels (rows) and predicted labels (columns)"}
        ]
    options |= {"about": about, "metrics": metrics, "extra_files": extra_files, "overwrite": overwrite}
    return write_entry(folder, classifier.model, classifier.tokenizers, **options)


def _short_examples(examples):
    """The first examples that are short enough for metrics.json."""
    sizes = [sum(map(len, texts)) for texts in zip(*filter(None, (examples.texts, examples.texts_b)), strict=True)]
    return examples.some([number for number, size in enumerate(sizes) if size <= MOST_CHARACTERS][:EXAMPLES])


def _scores(report):
    import sklearn

    signature = f"scikit-learn {sklearn.__version__}"
    return [
        {"set": report.where, "metric": name, "value": value, "signature": signature}
        for name, value in report.scores.items()
    ]


def _tables(report):
    names = list(report.scores)
    simple = [report.baseline_name, *(report.baseline[name] for name in names)]
    rows = [["this model", *report.scores.values()], simple]
    title = BESIDE_WORDS if report.baseline_name == TF_IDF else "Compared with a simple model"
    tables = [{"title": title, "columns": ["", *names], "rows": rows}]
    if report.candidates and len(report.candidates) > 1:
        rows = [[name, score, "saved" if saved else ""] for name, score, saved in report.candidates]
        tables.append({"title": "Candidates", "columns": ["", f"{names[0]} on the validation rows", ""], "rows": rows})
    if report.folds:
        columns = [*FOLD_COLUMNS, report.baseline_name]
        tables.append({"title": "Cross-validation", "columns": columns, "rows": report.folds})
    if report.per_class:
        tables.append({"title": "By label", "columns": CLASS_COLUMNS, "rows": report.per_class})
    if report.mistakes:
        shown = report.mistakes[:MISTAKES_SHOWN]
        tables.append({"title": "Largest errors", "columns": report.mistake_columns, "rows": shown})
    return tables
