"""`keras-attention finetune`, `launch`, which trains in several processes, and `evaluate`."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from keras_attention.cli import bert, translate
from keras_attention.cli.io.many_texts import ProgressLine
from keras_attention.cli.io.terminal import compiling_note, json_text, print_json, print_whole, safe, silent_libraries
from keras_attention.cores import available_cores
from keras_attention.data.translation.parallel_corpus import read_parallel
from keras_attention.errors import UserError
from keras_attention.evaluation import translation_scores as metrics
from keras_attention.finetuning.settings import FinetuneSettings, check_settings, check_share
from keras_attention.whole_file import whole_file
from keras_attention.zoo.architectures import LANGUAGE
from keras_attention.zoo.registry import check_free, claim_entry, open_entry
from keras_attention.zoo.schema import check_value


def finetune(arguments):
    """Reads the tables, trains, reports, writes the entry."""
    out = Path(arguments.out or f"{Path(arguments.table).name.split('.')[0]}_classifier")
    settings = settings_of(arguments)
    check_free(out, arguments.overwrite)
    check_value("--language", arguments.language, LANGUAGE, "finetune")
    with silent_libraries():
        from keras_attention.finetuning.report import make_report, report_text, write_classifier
        from keras_attention.finetuning.start import accelerated
        from keras_attention.finetuning.trials import check_search, cross_validate, search_settings
        from keras_attention.finetuning.workflow import finetune_classifier
        from keras_attention.training.checkpoints import discard_folder
        from keras_attention.training.devices import chief_goes_on, description, use_strategy
        from keras_attention.training.history import run_facts

    journal = out.with_name(f"{out.name}_search.log")
    if arguments.search is not None:
        check_search(arguments.search, arguments.folds, journal, arguments.resume, arguments.restart)
    facts = run_facts()
    say = _silent if arguments.json else print
    settings = accelerated(arguments.start, settings)
    use_strategy(arguments.strategy, say)
    paths = {"train": arguments.table, "validation": arguments.validation, "test": arguments.test}
    read = {role: _read(arguments, path, say) for role, path in paths.items() if path}
    say(description(settings))
    claim_entry(out, arguments.overwrite)
    if arguments.search is not None and arguments.restart:
        journal.unlink(missing_ok=True)  # now that no other command searches for the same model
    unfinished = out.with_name(out.name + "_checkpoints")
    verbose = 0 if arguments.json else 1
    task = {"task": arguments.task, "separator": arguments.separator, "validation_share": arguments.validation_split}
    tables = read["train"], read.get("validation"), arguments.start
    if arguments.search is not None:
        searched = {"say": say, "test": read.get("test"), **task}
        settings = search_settings(*tables, settings, arguments.search, journal, **searched)
    folds = None
    if arguments.folds is not None:
        told = {"say": say, "verbose": verbose, **task}
        folds = cross_validate(read["train"], arguments.start, settings, arguments.folds, **told)
    running = {"checkpoint_dir": unfinished, "resume": arguments.resume, "restart": arguments.restart}
    running |= {"log_dir": arguments.log_dir, "verbose": verbose, "say": say}
    finetuned = finetune_classifier(*tables, settings, test=read.get("test"), **task, **running)
    if not chief_goes_on():  # only the chief writes the model
        return
    report = make_report(finetuned, read.get("test"))._replace(folds=folds)
    names = ", ".join(Path(path).name for path in paths.values() if path)
    data = [{"name": names, "terms": "as stated by its owner", "link": ""}]
    given = {"start": str(arguments.start), "facts": facts, "data": data, "test": read.get("test")}
    given["overwrite"] = arguments.overwrite
    entry = write_classifier(out, finetuned, report, **given, language=arguments.language)
    discard_folder(unfinished)
    if arguments.search is not None:
        journal.unlink(missing_ok=True)
    if arguments.json:
        print_json({"folder": str(entry.folder), **report.as_json()})
    else:
        print(safe(report_text(report), keep="\n"))
    example = "$'first text\\tsecond text'" if arguments.text_b else '"some text"'
    say(f"Saved to {out}. Try: keras-attention classify --model {out} {example}")


def _read(arguments, path, say):
    """The Examples of a table."""
    from keras_attention.finetuning.examples import read_examples

    columns = arguments.text, arguments.label, arguments.text_b
    options = {"skip_bad_rows": arguments.skip_bad_rows, "delimiter": arguments.delimiter}
    examples, said = read_examples(path, *columns, empty_labels=arguments.separator is not None, **options)
    say(said)
    return examples


def settings_of(arguments):
    """The FinetuneSettings from the flags.

    Raises:
        UserError: if a value is out of range.
    """
    settings = FinetuneSettings(**{name: getattr(arguments, name) for name in FinetuneSettings.__dataclass_fields__})
    check_share("validation_split", arguments.validation_split)
    check_settings(settings)
    return settings


def _silent(_):
    pass


TRY_AGAIN = 75  # exit code of a worker after another worker has stopped
GRACE_SECONDS = 60  # time for the other workers to notice a failure and to save
LOOK_SECONDS = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def launch(arguments):
    """Starts the workers, and restarts all of them from the last checkpoint if one dies.

    Returns:
        int, see `run_workers`; or 128 plus the number of the signal that the launcher received and forwarded.

    Raises:
        UserError: if a number is out of range.
    """
    if arguments.workers < 1 or arguments.max_restarts < 0:
        raise UserError("--workers must be at least 1, and --max-restarts at least 0.")
    command = python_command(arguments.command)
    signals = []
    before = {number: signal.signal(number, lambda number, _: signals.append(number)) for number in _SIGNALS}
    try:
        for restarts_left in range(arguments.max_restarts, -1, -1):
            code = run_workers(command, arguments.workers, signals)
            if code != TRY_AGAIN or signals or not restarts_left:
                break
            print(f"Restarting all workers (at most {restarts_left} more times).", file=sys.stderr, flush=True)
            command = resuming(command)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 + signals[0] if signals else code


def python_command(words):
    """The command line of a recipe, or of one of our own commands."""
    script = [words[0]] if words[0].endswith(".py") else ["-m", "keras_attention", words[0]]
    return [sys.executable, *script, *words[1:]]


def resuming(command):
    """The command that resumes `command`."""
    return [word for word in command if word not in ("--restart", "--resume")] + ["--resume"]


def run_workers(command, count, signals):
    """Runs the command in `count` processes that form a cluster through TF_CONFIG.

    Args:
        command: list of str.
        count: int > 0.
        signals: list, to which a handler appends signal numbers; they are forwarded to all workers.

    Returns:
        int: 0; the exit code of a worker that failed by itself; or 75 if a worker was killed or hung.
    """
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(count)]}
    threads = str(max(1, available_cores() // count))
    shared = {"OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads, **os.environ}
    workers = []
    for index in range(count):
        task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        # A separate session, so that each worker receives Ctrl-C only once, from the launcher.
        environment = {**shared, "TF_CONFIG": json.dumps(task)}
        workers.append(subprocess.Popen(command, env=environment, start_new_session=True))
    try:
        return _wait(workers, signals)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def free_ports(count):
    """Numbers of free TCP ports."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait(workers, signals):
    """Waits for all workers, but at most `GRACE_SECONDS` after a failure; returns the exit code for `run_workers`."""
    codes, deadline, passed_on = [None] * len(workers), float("inf"), 0
    while None in codes and time.monotonic() < deadline:
        for number in signals[passed_on:]:
            for worker in workers:
                worker.send_signal(number)
        passed_on = len(signals)
        time.sleep(LOOK_SECONDS)
        for index, worker in enumerate(workers):
            if codes[index] is None and worker.poll() is not None:
                codes[index] = worker.returncode
                if worker.returncode:
                    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
                    told = _told(worker.returncode)
                    print(f"Worker {index} of {len(workers)} {told}.", file=sys.stderr, flush=True)
    mistakes = [code for code in codes if code is not None and code > 0 and code != TRY_AGAIN]
    return mistakes[0] if mistakes else TRY_AGAIN if any(code != 0 for code in codes) else 0


def _told(code):
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


LENGTH_EDGES = (6, 11, 16, 21, 31)  # words
OF_TRANSLATORS, OF_CLASSIFIERS = ("source", "target"), ("table", "text", "label", "text_b", "delimiter")


def evaluate(arguments):
    """Scores a translator on the target file, or classifiers on the labels of the table."""
    arguments.model, *others = arguments.models
    entry = open_entry(arguments.model)
    task = entry.architecture.use.task
    if others and task != "classify":
        raise UserError(f"{arguments.model} can {task}. Expected: one --model; only classifiers can be compared.")
    if task == "classify":
        _check_files(arguments, "classifier", ("table",), OF_TRANSLATORS)
        beside = {"--engine": arguments.engine != "keras", "--compute-type": arguments.compute_type}
        beside |= translate.search_flags(arguments)
        if given := [name for name, value in beside.items() if value]:
            raise UserError(f"{arguments.model} is a classifier: leave out {' and '.join(given)}.")
        evaluate_model = _evaluate_classifier
    elif task == "translate":
        _check_files(arguments, "translator", OF_TRANSLATORS, OF_CLASSIFIERS)
        translate.check_engine(arguments)
        evaluate_model = _evaluate_translator
    else:
        raise UserError(f"{arguments.model} can {task}. Expected: a model that can translate or classify.")
    with whole_file(arguments.output) if arguments.output else nullcontext() as file:
        report = evaluate_model(arguments, entry)
        if file:
            file.write(f"{report}\n")
    if not arguments.output:
        print_whole(report)


def _check_files(arguments, kind, needed, in_vain):
    """Raises UserError unless the given files fit the kind of model."""
    for name in (*in_vain, *needed):
        if (getattr(arguments, name) is None) == (name in needed):
            found = "is missing" if name in needed else "is not allowed"
            flags = " and ".join(f"--{name} FILE" for name in needed)
            raise UserError(
                f"{arguments.model} is a {kind}: --{name.replace('_', '-')} {found}. Expected: {flags}"
                f"{' [--text COLUMN] [--label COLUMN]' * (kind == 'classifier')}"
            )


def _evaluate_classifier(arguments, entry):
    task = entry.config["task"]
    with silent_libraries():
        from keras_attention.evaluation.classification_scores import compare
        from keras_attention.finetuning.examples import read_examples
        from keras_attention.finetuning.report import judge, report_of, report_text

    columns = arguments.text or "text", arguments.label or "label", arguments.text_b
    options = {"empty_labels": task["separator"] is not None, "delimiter": arguments.delimiter}
    if task["pair"] != (arguments.text_b is not None):
        expected = "--text-b COLUMN" if task["pair"] else "no --text-b"
        raise UserError(f"{arguments.model} classifies {'pairs' if task['pair'] else 'single texts'}: {expected}.")
    examples, said = read_examples(arguments.table, *columns, **options)
    first, parts, reports = None, [], []
    for number, name in enumerate(arguments.models):
        classifier = bert.load(open_entry(name, "classify") if number else entry, "classify")
        _check_alike(arguments.model, task, name, classifier.task)
        judged = judge(classifier, examples)
        first = first or judged
        comparison = compare(judged.targets, first.found, judged.found, judged.task) if number else None
        report = report_of(classifier, examples, judged)
        if arguments.json:
            beside = {"beside": {"model": arguments.model, **comparison._asdict()}} if number else {}
            reports.append({"model": name, **report.as_json(), **beside})
            continue
        if len(arguments.models) > 1:
            said = said if number == 0 else ""
            said += f"\n\n{name}"
        parts += [said, safe(report_text(report), keep="\n")]
        if number:
            parts += ["", comparison.text(arguments.model, name)]
    if arguments.json:
        return json_text(reports if len(reports) > 1 else reports[0], indent=1)
    return "\n".join(parts)


def _check_alike(first, task, second, other):
    """Raises UserError unless two classifiers have the same task and labels, so that they can be compared."""
    for name in ("kind", "label_names", "pair", "separator"):
        if task[name] != other[name]:
            raise UserError(
                f"{first} and {second} cannot be compared: {name} is {task[name]!r:.100} and {other[name]!r:.100}. "
                "Expected: models with the same labels."
            )


def _evaluate_translator(arguments, entry):
    sources, references = read_parallel(arguments.source, arguments.target)
    progress = ProgressLine()
    translator = translate.with_engine(translate.load(entry, "translate"), arguments)
    answers = translator.hypotheses(sources, progress=progress, **translate.search_options(arguments))
    compiling_note.clear()
    outputs = [best.text for best, *_ in answers]
    report = {
        "model": arguments.model,
        "sentences": len(sources),
        "exact_match": 100.0 * sum(map(str.__eq__, outputs, references)) / len(outputs),
        "bleu_tradition_a": metrics.bleu_tradition_a(outputs, references, entry.config["target_language"])._asdict(),
        "bleu_tradition_b": metrics.bleu_tradition_b(outputs, references)._asdict(),
        "chrf": metrics.chrf(outputs, references)._asdict(),
        "bleu_by_source_length": [
            row._asdict()
            for row in metrics.bleu_by_source_length(outputs, references, sources, LENGTH_EDGES)
            if row.sentences
        ],
    }
    if len(set(sources)) < len(sources):
        grouped = metrics.by_source(outputs, references, sources)
        report["bleu_all_references"] = metrics.bleu_tradition_b(*grouped)._asdict()
    return json_text(report, indent=1) if arguments.json else _as_text(report)


def _as_text(report):
    """The report as lines, each score with its signature."""
    names = {
        "bleu_tradition_a": "BLEU A (lower-cased, Moses tokens)",
        "bleu_tradition_b": "BLEU B (cased, detokenised)",
        "chrf": "chrF2",
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
        words = f"{row['at_least']}+" if row["less_than"] is None else f"{row['at_least']}-{row['less_than'] - 1}"
        lines.append(f"{words:>12}  {row['sentences']:9}  {row['bleu']:6.2f}")
    return "\n".join(lines)
