"""`keras-attention evaluate`: scores translators on files, or classifiers on a table, and compares them."""

import sys
from contextlib import nullcontext

from keras_attention.cli import classify, translate
from keras_attention.cli.io.many_texts import ProgressLine
from keras_attention.cli.io.search_options import check_engine, search_flags, search_options, with_engine
from keras_attention.cli.io.terminal import compiling_note, json_text, print_whole, safe, silent_libraries
from keras_attention.cli.io.text_files import check_text_name
from keras_attention.data.tables.label_task import spelling_key
from keras_attention.data.translation.parallel_corpus import read_parallel
from keras_attention.evaluation import translation_scores as metrics
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UserError, quoted
from keras_attention.zoo.registry import no_model, open_entry

LENGTH_EDGES = (6, 11, 16, 21, 31)  # words
OF_TRANSLATORS, OF_CLASSIFIERS = ("source", "target"), ("table", "text", "label", "text_b", "delimiter")


def evaluate(arguments):
    """Scores translators on the target file, or classifiers on the labels of the table."""
    if not arguments.models:
        raise no_model("translate", "classify")
    arguments.model, *others = arguments.models
    entry = open_entry(arguments.model)
    task = entry.architecture.task.name
    if others and task not in ("classify", "translate"):
        raise UserError(f"{arguments.model} can {task}. Expected: translators or classifiers, which can be compared.")
    if task == "classify":
        _check_files(arguments, "classifier", ("table",), OF_TRANSLATORS)
        of_translators = {"--engine": arguments.engine != "keras", "--compute-type": arguments.compute_type}
        of_translators |= search_flags(arguments)
        if given := [name for name, value in of_translators.items() if value]:
            raise UserError(f"{arguments.model} is a classifier: leave out {' and '.join(given)}.")
        evaluate_model = _evaluate_classifier
    elif task == "translate":
        _check_files(arguments, "translator", OF_TRANSLATORS, OF_CLASSIFIERS)
        check_engine(arguments)
        evaluate_model = _evaluate_translator
    else:
        raise UserError(f"{arguments.model} can {task}. Expected: a model that can translate or classify.")
    if arguments.output:
        check_text_name(arguments.output, "lines of text (.txt), or JSON with --json")
    with whole_file(arguments.output) if arguments.output else nullcontext() as file:
        report = evaluate_model(arguments, entry)
        if file:
            file.write(f"{report}\n")
    if arguments.output:
        print(f"keras-attention: {arguments.output}: the report", file=sys.stderr)
    else:
        print_whole(report)


def _check_files(arguments, kind, needed, forbidden):
    """Raises UserError unless the given files fit the kind of model."""
    for name in (*forbidden, *needed):
        if (getattr(arguments, name) is None) == (name in needed):
            problem = "is missing" if name in needed else "is not allowed"
            flags = " and ".join(f"--{name} FILE" for name in needed)
            raise UserError(
                f"{arguments.model} is a {kind}: --{name.replace('_', '-')} {problem}. Expected: {flags}"
                f"{' [--text COLUMN] [--label COLUMN]' * (kind == 'classifier')}"
            )


def _evaluate_classifier(arguments, entry):
    task = entry.config["task"]
    if entry.input.is_file:
        raise UserError(
            f"{arguments.model} reads inputs of the kind {entry.input.name}. A table of --table has texts, which it "
            "cannot read. See `keras-attention classify`."
        )
    with silent_libraries():
        from keras_attention.evaluation.classification_scores import compare
        from keras_attention.finetuning.examples import read_examples
        from keras_attention.finetuning.report import judge, report_of, report_text

    columns = arguments.text or "text", arguments.label or "label", arguments.text_b
    options = {"empty_labels": task["separator"] is not None, "delimiter": arguments.delimiter}
    options["encoding"] = arguments.encoding
    if task["pair"] != (arguments.text_b is not None):
        expected = "--text-b COLUMN" if task["pair"] else "no --text-b"
        raise UserError(f"{arguments.model} classifies {'pairs' if task['pair'] else 'single texts'}: {expected}.")
    examples, summary = read_examples(arguments.table, *columns, **options)
    first, parts, reports = None, [], []
    for number, name in enumerate(arguments.models):
        classifier = classify.load(open_entry(name, "classify") if number else entry, "classify")
        _check_alike(arguments.model, task, name, classifier.task)
        judged = judge(classifier, examples)
        first = first or judged
        comparison = compare(judged.targets, first.predicted, judged.predicted, judged.task) if number else None
        report = report_of(classifier, examples, judged)
        if arguments.json:
            comparisons = {"beside": {"model": arguments.model, **comparison._asdict()}} if number else {}
            reports.append({"model": name, **report.as_json(), **comparisons})
            continue
        if len(arguments.models) > 1:
            summary = summary if number == 0 else ""
            summary += f"\n\n{name}"
        parts += [summary, report_text(report)]
        if number:
            parts += ["", comparison.text(arguments.model, name)]
    if arguments.json:
        return json_text(reports if len(reports) > 1 else reports[0], indent=1)
    return safe("\n".join(parts), keep="\n")


def _check_alike(first, task, second, other):
    """Raises UserError unless two classifiers have the same task and labels, so that they can be compared."""
    keys = [[spelling_key(name) for name in each["label_names"]] for each in (task, other)]
    for name in ("kind", "label_names", "pair", "separator"):
        if task[name] != other[name] and not (name == "label_names" and keys[0] == keys[1]):
            raise UserError(
                f"{first} and {second} cannot be compared: {name} is {quoted(task[name], 100)} and "
                f"{quoted(other[name], 100)}. Expected: models with the same labels."
            )


def _evaluate_translator(arguments, entry):
    entries = [entry, *(open_entry(name, "translate") for name in arguments.models[1:])]
    for name, other in zip(arguments.models, entries, strict=True):
        for side in ("source_language", "target_language"):
            if other.config[side] != entry.config[side]:
                received = f"{quoted(entry.config[side])} and {quoted(other.config[side])}"
                raise UserError(f"{arguments.model} and {name} cannot be compared: {side} is {received}.")
    sources, references = read_parallel(arguments.source, arguments.target, arguments.encoding)
    reports, first, parts = [], None, []
    for name, one in zip(arguments.models, entries, strict=True):
        outputs = _outputs(arguments, one, sources)
        report = {"model": name, **_scores_of(outputs, references, sources, entry.config["target_language"])}
        first = first or outputs
        if reports:
            differences = metrics.compare_translators(first, outputs, references)
            report["beside"] = {"model": arguments.model, "scores": [one._asdict() for one in differences]}
        reports.append(report)
        parts += [safe(name), ""] if len(entries) > 1 else []
        parts.append(_as_text(report))
        if "beside" in report:
            parts.append(_comparison(report, reports[0]))
    if arguments.json:
        return json_text(reports if len(reports) > 1 else reports[0], indent=1)
    return "\n".join(parts)


def _outputs(arguments, entry, sources):
    translator = with_engine(translate.load(entry, "translate"), arguments)
    options = {"split": False, "keep_items": False, **search_options(arguments)}  # as for the cards
    answers = translator.hypotheses(sources, progress=ProgressLine(), **options)
    compiling_note.clear()
    return [best.text for best, *_ in answers]


def _scores_of(outputs, references, sources, language):
    report = {
        "sentences": len(sources),
        "exact_match": 100.0 * sum(map(str.__eq__, outputs, references)) / len(outputs),
        "bleu_tradition_a": metrics.bleu_tradition_a(outputs, references, language)._asdict(),
        "bleu_tradition_b": metrics.bleu_tradition_b(outputs, references)._asdict(),
        "chrf": metrics.chrf(outputs, references)._asdict(),
        "ter": metrics.ter(outputs, references)._asdict(),
        "bleu_by_source_length": [
            row._asdict()
            for row in metrics.bleu_by_source_length(outputs, references, sources, LENGTH_EDGES)
            if row.sentences
        ],
    }
    if len(set(sources)) < len(sources):
        grouped = metrics.by_source(outputs, references, sources)
        report["bleu_all_references"] = metrics.bleu_tradition_b(*grouped)._asdict()
    return report


def _comparison(report, first):
    """The differences from the first translator as lines, with those of BLEU by length."""
    scores = report["beside"]["scores"]
    lines = ["", f"compared with {safe(first['model'])}, paired bootstrap of {scores[0]['samples']:,} samples"]
    for one in scores:
        change = f"{one['first']:6.2f} -> {one['second']:6.2f}  {one['second'] - one['first']:+6.2f}"
        lines.append(f"{one['metric']:5} {change}  p = {one['p_value']:.3f}")
    lines.append("")
    for row, before in zip(report["bleu_by_source_length"], first["bleu_by_source_length"], strict=True):
        change = row["bleu"] - before["bleu"]
        lines.append(f"{_words(row):>12} words  {before['bleu']:6.2f} -> {row['bleu']:6.2f}  {change:+6.2f}")
    return "\n".join(lines)


def _words(row):
    return f"{row['at_least']}+" if row["less_than"] is None else f"{row['at_least']}-{row['less_than'] - 1}"


def _as_text(report):
    """The report as lines, each score with its signature."""
    names = {
        "bleu_tradition_a": "BLEU A (lower-cased, Moses tokens)",
        "bleu_tradition_b": "BLEU B (cased, detokenised)",
        "chrf": "chrF2",
        "ter": "TER (lower is better)",
        "bleu_all_references": "BLEU B, all targets of a source",
    }
    lines = [f"{report['sentences']} sentences, {report['exact_match']:.2f} % exactly as in the target file"]
    lines += [
        f"{name:35} {report[key]['score']:6.2f}  {report[key]['signature']}"
        for key, name in names.items()
        if key in report
    ]
    lines += ["", "source words  sentences  BLEU B"]
    for row in report["bleu_by_source_length"]:
        lines.append(f"{_words(row):>12}  {row['sentences']:9}  {row['bleu']:6.2f}")
    return "\n".join(lines)
