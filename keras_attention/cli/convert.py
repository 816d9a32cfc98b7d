"""`keras-attention convert`: reads a published checkpoint as a model of this package."""

import re
from pathlib import Path

from keras_attention.catalog.common import LANGUAGE
from keras_attention.cli.io.terminal import print_json, safe, silent_libraries
from keras_attention.convert.hub import Fetched
from keras_attention.convert.published import default_folder, entry_texts, fetched, is_cached_place, is_published_name
from keras_attention.support.errors import UserError
from keras_attention.training.history import run_facts
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.schema import check_value


def convert(arguments):
    """Reads a published checkpoint and writes it as an entry, with example answers in its card."""
    out = Path(arguments.out or default_folder(arguments.path))
    check_free(out, arguments.overwrite)
    check_value("--language", arguments.language, LANGUAGE, "convert")
    source = fetched(arguments.path) if is_published_name(arguments.path) else Path(arguments.path)
    with silent_libraries():
        from keras_attention.convert import load_checkpoint
        from keras_attention.pipelines.base import make_pipeline
        from keras_attention.tokenizers import WordPieceTokenizer
        from keras_attention.zoo.entry_io import write_entry

    facts = run_facts()
    with silent_libraries():
        converted = load_checkpoint(source if isinstance(source, Path) else source.folder)
        tokenizers = converted.tokenizers
        if tokenizers is None:
            one = converted.tokenizer or WordPieceTokenizer(converted.vocabulary, converted.lowercase)
            tokenizers = {"text": one}
    if arguments.pair and converted.label_names is None:
        raise UserError(f"--pair is for classifiers, and {arguments.path} has no labels. Leave it out.")
    claim_entry(out, arguments.overwrite)
    name = default_folder(source.name if isinstance(source, Fetched) else arguments.path)
    about = about_converted(converted, arguments.language, arguments.pair, name)
    metrics = {
        **facts,
        **entry_texts(converted, source),
        "parameters": converted.model.count_params(),
        "examples": make_pipeline(converted.model, tokenizers, about).examples(),
    }
    if is_cached_place(out):
        metrics["loaded_as"] = metrics["source"]
    options = {"about": about, "metrics": metrics, "weights_dtype": "float16" if arguments.half else "float32"}
    options["overwrite"] = arguments.overwrite
    entry = write_entry(out, converted.model, tokenizers, **options)
    report = {"folder": str(out), "architecture": entry.config["architecture"], "parameters": metrics["parameters"]}
    report |= {"labels": converted.label_names, "left_out": converted.left_out, "bytes": entry.bytes}
    report |= {"source": metrics.get("source")}
    if arguments.json:
        print_json(report)
    else:
        print(safe(_as_text(report)))


OPUS = re.compile(r"opus_mt_(?:tc_)?(?:big_|base_|tiny_|small_)*([a-z]{2,3})_([a-z]{2,3})")


def about_converted(converted, language, pair=False, name=""):
    """The fields of config.json for a Converted, except those of the network; see `schema.Task`.

    `name` may say the languages of a translator whose files do not, as in "opus_mt_en_ro".
    """
    if converted.decoding is not None:
        named = OPUS.fullmatch(name)
        languages = zip(converted.languages, named.groups() if named else converted.languages, strict=True)
        source, target = (stated if stated != "und" else other for stated, other in languages)
        return {"decoding": converted.decoding, "source_language": source, "target_language": target}
    if converted.vectors is None:
        return {"language": language, "begins_with": converted.begins_with}
    longest = converted.model.get_config()["max_length"]
    about = {"language": language, "max_tokens": converted.vectors.max_tokens or longest}
    if converted.label_names is None:
        return about | {"pooling": converted.vectors.pooling, "normalize": converted.vectors.normalize}
    return about | {"task": task_of(converted.label_names, pair)}


def task_of(label_names, pair=False):
    """The task of a published classifier, see `schema.TASK`; a single output means regression."""
    kind = {1: "regression", 2: "binary"}.get(len(label_names), "multiclass")
    names = [] if kind == "regression" else list(label_names)
    return {"kind": kind, "label_names": names, "separator": None, "threshold": 0.5, "pair": pair}


def _as_text(report):
    left_out = f"; left out: {', '.join(report['left_out'])}" if report["left_out"] else ""
    source = f", from {report['source']}" if report["source"] else ""
    return f"{report['folder']}: {report['architecture']}, {report['parameters']:,} parameters{source}{left_out}"
