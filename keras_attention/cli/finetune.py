"""`keras-attention finetune`: trains a classifier on a table of texts and labels, or on a folder of files."""

import shlex
from pathlib import Path

from keras_attention.catalog.common import LANGUAGE
from keras_attention.cli.io.terminal import command_line, print_json, safe, silent_libraries
from keras_attention.finetuning.settings import FinetuneSettings, check_settings, check_share
from keras_attention.support.errors import UserError, counted, quoted
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.schema import check_value

SERIES = "series"  # the kind of input that tables may have
MOST_LABELS = 3  # named in a message


def finetune(arguments):
    """Reads the tables, trains, reports, writes the entry."""
    out = Path(arguments.out or f"{Path(arguments.table).resolve().name.split('.')[0]}_classifier")
    in_folder = Path(arguments.table).is_dir()
    _check_columns(arguments, in_folder)
    settings = settings_of(arguments)
    check_free(out, arguments.overwrite)
    if arguments.language is not None:
        check_value("--language", arguments.language, LANGUAGE, "finetune")
    with silent_libraries():
        from keras_attention.finetuning.cross_validation import cross_validate
        from keras_attention.finetuning.report import make_report, report_text, write_classifier
        from keras_attention.finetuning.search import check_search, search_settings
        from keras_attention.finetuning.starting_model import (
            FILES,
            accelerated,
            language_for_card,
            open_start,
            suited_start,
        )
        from keras_attention.finetuning.time_plan import plan_path
        from keras_attention.finetuning.workflow import checkpoint_folders, finetune_classifier
        from keras_attention.training.checkpoints import check_unused, discard_folder
        from keras_attention.training.devices import chief_goes_on, description, use_strategy, workers
        from keras_attention.training.history import run_facts

    journal = out.with_name(f"{out.name}_search.log")
    if arguments.search is not None:
        check_search(arguments.search, arguments.folds, journal, arguments.resume, arguments.restart)
    unfinished = out.with_name(out.name + "_checkpoints")
    if not (arguments.resume or arguments.restart or workers().index):
        for folder in checkpoint_folders(unfinished):
            check_unused(folder)
    facts = run_facts()
    notify = _silent if arguments.json else _shown
    paths = {"train": arguments.table, "validation": arguments.validation, "test": arguments.test}
    paths = {role: path for role, path in paths.items() if path}
    tables = {} if in_folder or arguments.kind == SERIES else _read_tables(arguments, paths, notify)
    of_files = in_folder or arguments.kind is not None
    network = FILES if of_files and arguments.start is None else arguments.network
    start = open_start(arguments.start, arguments.network or network)
    _check_start(arguments, start, of_files)
    settings = accelerated(start, settings)
    use_strategy(arguments.strategy, notify)
    read = {role: _read(arguments, path, notify, start, tables.get(role)) for role, path in paths.items()}
    start = suited_start(start, read["train"].all_texts, arguments.kind, notify, arguments.language)
    language = arguments.language or language_for_card(start, read["train"])
    notify(description(settings))
    claim_entry(out, arguments.overwrite)
    if arguments.search is not None and arguments.restart:
        journal.unlink(missing_ok=True)  # now that no other command searches for the same model
    verbose = 0 if arguments.json else 1
    task = {"task": arguments.task, "separator": arguments.separator, "validation_share": arguments.validation_split}
    tables = read["train"], read.get("validation"), start
    if arguments.search is not None:
        searched = {"notify": notify, "test": read.get("test"), **task}
        settings = search_settings(*tables, settings, arguments.search, journal, **searched)
    folds = None
    if arguments.folds is not None:
        options = {"notify": notify, "verbose": verbose, **task}
        folds = cross_validate(read["train"], start, settings, arguments.folds, **options)
    checkpoint_options = {"checkpoint_dir": unfinished, "resume": arguments.resume, "restart": arguments.restart}
    checkpoint_options |= {"log_dir": arguments.log_dir, "verbose": verbose, "notify": notify}
    finetuned = finetune_classifier(*tables, settings, test=read.get("test"), **task, **checkpoint_options)
    if not chief_goes_on():  # only the chief writes the model
        return
    report = make_report(finetuned, read.get("test"))._replace(folds=folds)
    names = ", ".join(Path(path).name for path in paths.values())
    data = [{"name": names, "terms": "as stated by its owner", "link": ""}]
    given = {"start": start, "facts": facts, "data": data, "test": read.get("test")}
    given["overwrite"] = arguments.overwrite
    entry = write_classifier(out, finetuned, report, **given, language=language)
    for folder in checkpoint_folders(unfinished):
        discard_folder(folder)
    plan_path(unfinished).unlink(missing_ok=True)
    if arguments.search is not None:
        journal.unlink(missing_ok=True)
    if arguments.json:
        print_json({"folder": str(entry.folder), **report.as_json()})
    else:
        print(safe(report_text(report), keep="\n"))
    example = "$'first text\\tsecond text'" if arguments.text_b else '"some text"'
    if start.reads_files:
        example = shlex.quote(str(out / f"example_1{finetuned.classifier.input.example_suffix}"))
    notify(f"Saved to {out}. Try: {command_line('classify', out)} {example}")


def _check_columns(arguments, folder):
    """Raises UserError for columns that are missing, or that a folder does not have."""
    if folder:
        for name in ("text", "label", "text_b", "separator", "delimiter", "encoding"):
            if getattr(arguments, name) is not None:
                raise UserError(
                    f"--{name.replace('_', '-')} is for tables. {arguments.table} is a folder: leave it out."
                )
    elif arguments.kind == SERIES:
        for name in ("text", "text_b", "separator", "delimiter", "encoding"):
            if getattr(arguments, name) is not None:
                raise UserError(f"--{name.replace('_', '-')} is for tables of texts. Series have --label alone.")
    else:
        if missing := [f"--{name}" for name in ("text", "label") if getattr(arguments, name) is None]:
            if not Path(arguments.table).exists():  # perhaps a folder was meant, which needs no columns
                raise UserError(f"{arguments.table} does not exist. Expected: a table, or a folder of files.")
            raise UserError(f"The following arguments are required for a table: {', '.join(missing)}")
        if arguments.kind and arguments.text_b is not None:
            raise UserError(f"--text-b is for tables of texts, not of {arguments.kind}.")


def _check_start(arguments, start, folder):
    """Raises UserError if files are given to a network that reads texts."""
    if folder and not start.reads_files:
        what = "folder of files" if Path(arguments.table).is_dir() else f"table of {arguments.kind}"
        raise UserError(
            f"{arguments.table} is a {what}, but a {start.architecture.name} reads texts. Leave out --from "
            "and --network, or choose a model that reads files."
        )
    kind = start.entry.input.plural if folder and start.entry else None
    if kind and arguments.kind not in (None, kind):
        raise UserError(f"{arguments.start} reads {kind}. Received: --kind {arguments.kind}")


def _read_tables(arguments, paths, notify):
    """The Examples of each table, with names of files as in the table; finds their kind, which only the rows tell."""
    from keras_attention.finetuning.examples import kind_of_files, read_examples
    from keras_attention.finetuning.starting_model import FILES, open_start

    columns, read = (arguments.text, arguments.label, arguments.text_b), {}
    options = {"skip_bad_rows": arguments.skip_bad_rows, "delimiter": arguments.delimiter}
    options |= {"encoding": arguments.encoding, "empty_labels": arguments.separator is not None}
    for role, path in paths.items():
        if not Path(path).is_dir():
            read[role], summary = read_examples(path, *columns, **options)
            notify(summary)
    if not (arguments.kind or arguments.start or arguments.network or arguments.text_b):
        arguments.kind = kind_of_files(read["train"], open_start(None, FILES).architecture.task.inputs)
        if arguments.kind:
            notify(f"{arguments.table} names {arguments.kind}. To train on the names as texts, choose --network bert.")
    return read


def _read(arguments, path, notify, start, table):
    """The Examples of a folder of files or of a table; of tables that are not of series, `table`."""
    from keras_attention.finetuning.examples import read_folder, read_series_examples, with_files

    kind = start.entry.input.plural if start.entry and start.reads_files else arguments.kind
    kinds = start.architecture.task.inputs
    if table is not None:
        if start.reads_files:
            named = table
            arguments.kind, table = with_files(named, kinds, kind, arguments.skip_bad_rows)
            if len(table) < len(named):
                notify(f"{path}: skipped {counted(len(named) - len(table), 'file')} that cannot be read")
            if lost := sorted(set(named.labels) - set(table.labels)):
                labels = ", ".join(map(quoted, lost[:MOST_LABELS])) + ", ..." * (len(lost) > MOST_LABELS)
                notify(f"{path}: without the skipped rows, none has the label {labels}")
        return table
    if Path(path).is_dir() and start.reads_files:
        examples, arguments.kind, summary = read_folder(path, kinds, kind, arguments.skip_bad_rows)
        notify(summary)
        return examples
    if arguments.kind == SERIES:
        examples, summary = read_series_examples(path, arguments.label)
        notify(summary)
        return examples
    what = ("folder", "table") if Path(path).is_dir() else ("table", "folder")
    raise UserError(f"{path} is a {what[0]}. Expected: a {what[1]}, as {arguments.table} is.")


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


def _shown(text):
    print(safe(text, keep="\n"), flush=True)
