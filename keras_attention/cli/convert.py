"""`keras-attention convert`."""

from pathlib import Path

from keras_attention.cli.io.terminal import print_json, safe, silent_libraries
from keras_attention.training.run import run_facts
from keras_attention.zoo.architectures import LANGUAGE
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.schema import check_value


def convert(arguments):
    """Reads a published checkpoint and writes it as an entry, with example answers in its card."""
    folder = Path(arguments.path)
    out = Path(arguments.out or folder.resolve().name.lower().replace("-", "_"))
    check_free(out, arguments.overwrite)
    check_value("--language", arguments.language, LANGUAGE, "convert")
    with silent_libraries():
        from keras_attention.convert import load_checkpoint
        from keras_attention.pipelines.base import make_pipeline
        from keras_attention.tokenizers import WordPieceTokenizer
        from keras_attention.zoo.archive import write_entry

    facts = run_facts()
    with silent_libraries():
        converted = load_checkpoint(folder)
        tokenizer = WordPieceTokenizer(converted.vocabulary, converted.lowercase)
    claim_entry(out, arguments.overwrite)
    about = {"language": arguments.language, "max_tokens": converted.model.get_config()["max_length"]}
    if converted.label_names is not None:
        about["task"] = task_of(converted.label_names, arguments.pair)
    metrics = {
        "description": f"The {converted.source_format} checkpoint {folder.resolve().name}, converted.",
        "data": [{"name": "the data of the original model", "terms": "as stated by its publisher", "link": ""}],
        **facts,
        "minutes": 0.0,
        "seeds": [],
        "parameters": converted.model.count_params(),
        "scores": [],
        "limits": ["The limits of the original model; see its card."],
        "examples": make_pipeline(converted.model, {"text": tokenizer}, about).examples(),
    }
    options = {"about": about, "metrics": metrics, "weights_dtype": "float16" if arguments.half else "float32"}
    options["overwrite"] = arguments.overwrite
    entry = write_entry(out, converted.model, {"text": tokenizer}, **options)
    report = {"folder": str(out), "architecture": entry.config["architecture"], "parameters": metrics["parameters"]}
    report |= {"labels": converted.label_names, "left_out": converted.left_out, "bytes": entry.bytes}
    if arguments.json:
        print_json(report)
    else:
        print(safe(_as_text(report)))


def task_of(label_names, pair=False):
    """The task of a published classifier, see `schema.TASK`; a single output means regression."""
    kind = {1: "regression", 2: "binary"}.get(len(label_names), "multiclass")
    names = [] if kind == "regression" else list(label_names)
    return {"kind": kind, "label_names": names, "separator": None, "threshold": 0.5, "pair": pair}


def _as_text(report):
    left_out = f"; left out: {', '.join(report['left_out'])}" if report["left_out"] else ""
    return f"{report['folder']}: {report['architecture']}, {report['parameters']:,} parameters{left_out}"
