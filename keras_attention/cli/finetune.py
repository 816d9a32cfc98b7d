"""`keras-attention finetune`: trains a classifier on a table of texts and labels."""

from dataclasses import replace
from pathlib import Path

from keras_attention.catalog.common import LANGUAGE
from keras_attention.cli.io.terminal import print_json, safe, silent_libraries
from keras_attention.finetuning.settings import FinetuneSettings, check_settings, check_share
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.schema import check_value


def finetune(arguments):
    """Reads the tables, trains, reports, writes the entry."""
    out = Path(arguments.out or f"{Path(arguments.table).name.split('.')[0]}_classifier")
    settings = settings_of(arguments)
    check_free(out, arguments.overwrite)
    check_value("--language", arguments.language, LANGUAGE, "finetune")
    with silent_libraries():
        from keras_attention.finetuning.cross_validation import cross_validate
        from keras_attention.finetuning.report import make_report, report_text, write_classifier
        from keras_attention.finetuning.search import check_search, search_settings
        from keras_attention.finetuning.starting_model import accelerated, open_start
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
    say = _silent if arguments.json else _shown
    start = open_start(arguments.start, arguments.network)
    settings = accelerated(start, settings)
    use_strategy(arguments.strategy, say)
    paths = {"train": arguments.table, "validation": arguments.validation, "test": arguments.test}
    read = {role: _read(arguments, path, say) for role, path in paths.items() if path}
    if start.reads_files:  # names of files, relative to the table
        read = {role: _with_files(examples, paths[role]) for role, examples in read.items()}
    say(description(settings))
    claim_entry(out, arguments.overwrite)
    if arguments.search is not None and arguments.restart:
        journal.unlink(missing_ok=True)  # now that no other command searches for the same model
    verbose = 0 if arguments.json else 1
    task = {"task": arguments.task, "separator": arguments.separator, "validation_share": arguments.validation_split}
    tables = read["train"], read.get("validation"), start
    if arguments.search is not None:
        searched = {"say": say, "test": read.get("test"), **task}
        settings = search_settings(*tables, settings, arguments.search, journal, **searched)
    folds = None
    if arguments.folds is not None:
        told = {"say": say, "verbose": verbose, **task}
        folds = cross_validate(read["train"], start, settings, arguments.folds, **told)
    running = {"checkpoint_dir": unfinished, "resume": arguments.resume, "restart": arguments.restart}
    running |= {"log_dir": arguments.log_dir, "verbose": verbose, "say": say}
    finetuned = finetune_classifier(*tables, settings, test=read.get("test"), **task, **running)
    if not chief_goes_on():  # only the chief writes the model
        return
    report = make_report(finetuned, read.get("test"))._replace(folds=folds)
    names = ", ".join(Path(path).name for path in paths.values() if path)
    data = [{"name": names, "terms": "as stated by its owner", "link": ""}]
    given = {"start": start, "facts": facts, "data": data, "test": read.get("test")}
    given["overwrite"] = arguments.overwrite
    entry = write_classifier(out, finetuned, report, **given, language=arguments.language)
    for folder in checkpoint_folders(unfinished):
        discard_folder(folder)
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
    options["encoding"] = arguments.encoding
    examples, said = read_examples(path, *columns, empty_labels=arguments.separator is not None, **options)
    say(said)
    return examples


def _with_files(examples, table):
    """The Examples, whose texts are names of files in or below the folder of the table."""
    return replace(examples, texts=[str(Path(table).parent / name) for name in examples.texts])


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
