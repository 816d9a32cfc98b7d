"""`keras-attention convert`."""

from pathlib import Path

from keras_attention.cli.io.printing import print_json, safe
from keras_attention.cli.io.silence import silent_libraries
from keras_attention.training.run_facts import run_facts
from keras_attention.zoo.place import check_free, claim_entry
from keras_attention.zoo.schema import VALUES, check_value

GAPS = ("Paris is the capital of [MASK].", "She opened the [MASK] and went in.")
MOST_TOKENS = 64  # that these have, whatever the vocabulary
TEXTS = ("What a wonderful day.", "This is the worst that I have seen.")


def convert(arguments):
    """Reads a published checkpoint and writes it as an entry, with example answers in its card."""
    folder = Path(arguments.path)
    out = Path(arguments.out or folder.resolve().name.lower().replace("-", "_"))
    check_free(out, arguments.overwrite)
    check_value("--language", arguments.language, VALUES["language"], "convert")
    with silent_libraries():
        from keras_attention.convert import load_checkpoint
        from keras_attention.tokenizers import WordPieceTokenizer
        from keras_attention.zoo.archive import write_entry

    facts = run_facts()
    with silent_libraries():
        converted = load_checkpoint(folder)
        tokenizer = WordPieceTokenizer(converted.vocabulary, converted.lowercase)
    claim_entry(out, arguments.overwrite)
    encoder = getattr(converted.model, "encoder", converted.model)
    about = {"language": arguments.language, "max_tokens": encoder.max_length}
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
        "examples": examples_of(converted, tokenizer, about),
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


def examples_of(converted, tokenizer, about):
    """A few texts with the model's answers; none for an encoder, text pairs, or a limit of a few tokens."""
    from keras_attention.pipelines.base import answers_to
    from keras_attention.pipelines.classifier import Classifier
    from keras_attention.pipelines.mask_filler import MaskFiller

    model, max_tokens, task = converted.model, about["max_tokens"], about.get("task")
    kind = type(model).__name__
    if kind == "BertEncoder" or max_tokens < MOST_TOKENS or (task and task["pair"]):
        return []
    if kind == "BertMaskedLM":
        texts, pipeline = GAPS, MaskFiller(model, tokenizer, max_tokens)
    else:
        texts, pipeline = TEXTS, Classifier(model, tokenizer, max_tokens, task)
    outputs = answers_to(pipeline, list(texts))
    return [{"source": text, "output": output} for text, output in zip(texts, outputs, strict=True)]


def _as_text(report):
    left_out = f"; left out: {', '.join(report['left_out'])}" if report["left_out"] else ""
    return f"{report['folder']}: {report['architecture']}, {report['parameters']:,} parameters{left_out}"
