"""Fine-tune BERT (Devlin et al. 2019) to sort texts, on a table of one's own.

    python recipes/bert_finetune.py                    # is this text a date? from nothing, nothing to download
    python recipes/bert_finetune.py --table train.csv --text review --label mood
    python recipes/bert_finetune.py --smoke            # a few steps, end to end

The command `keras-attention finetune` does the same and tells more. What happens: the labels say what task it is; a new
head is put on the pre-trained encoder; all of it is trained with AdamW, with a learning rate that warms up, falls
linearly, and is the smaller the lower the layer; the weights of the best epoch are kept.
"""

import os
import shutil
import sys
from dataclasses import dataclass, fields
from pathlib import Path

from keras_attention.cli.io.silence import silent_libraries

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with silent_libraries():
    import keras  # noqa: F401 (its backend is chosen before anything else of it is imported)

from keras_attention.cli.main import guarded
from keras_attention.data.dates.dates import generate_dates
from keras_attention.data.dates.non_dates import generate_non_dates
from keras_attention.finetuning.examples import Examples, load_encoded_rows, read_examples, save_encoded_rows
from keras_attention.finetuning.fitting import fit_classifier
from keras_attention.finetuning.settings import DEFAULT_START, FinetuneSettings
from keras_attention.finetuning.start import accelerated
from keras_attention.training.acceleration import description
from keras_attention.training.distribution import chief_goes_on, use_strategy
from keras_attention.training.flags import parse_config, setting
from keras_attention.training.run_facts import run_facts
from keras_attention.training.run_settings import RunSettings
from keras_attention.training.trained_elsewhere import load_trained, save_trained
from keras_attention.zoo.place import claim_entry


@dataclass(frozen=True)
class Config(RunSettings, FinetuneSettings):
    # Beside these, all that `keras_attention.finetuning.settings` has: epochs, learning_rate, layer_decay ...
    # and `keras_attention.training.run_settings`: strategy, resume ...
    # Data
    table: str = setting("", "CSV, TSV or JSONL with a header; none: dates, and texts that are none")
    text: str = setting("text", "column of the texts")
    label: str = setting("label", "column of the labels")
    text_b: str | None = setting(None, "column of the second texts, if rows are pairs")
    validation: str = setting("", "table to choose the best epoch by; none: a share of the rows")
    validation_share: float = setting(0.1, "that share")
    test: str = setting("", "table for the report; none: the rows of the validation")
    separator: str | None = setting(None, "between the labels of a row, if it may have several")
    encode_to: str = setting("", "only write the encoded rows into this folder")
    encoded: str = setting("", "train on rows encoded before, and write the weights alone")
    # Model
    start: str = setting(DEFAULT_START, "entry with a BERT to start from, or none; for the dates none")
    # Run
    out: str = setting("runs/bert_finetune", "folder of the trained model")
    weights: str = setting("", "take these weights, trained with --encoded, instead of training")
    log_dir: str = setting("", "folder for TensorBoard")


ROWS, TEST_ROWS = 4000, 1000
DATES = {"start": "none", "size": "tiny", "vocabulary_size": 500, "max_tokens": 32, "epochs": 2, "learning_rate": 1e-3}
SMOKE = {"epochs": 1, "jit_compile": False, "max_tokens": 16, "rows_per_batch": 8}
SMOKE_ROWS = 40


def presets(config):
    return (DATES if not config.table else {}) | (SMOKE if config.smoke else {})


def dates(rows, seed, split):
    """As many dates as other texts."""
    texts = [*generate_dates(rows // 2, seed, split)[0], *generate_non_dates(rows // 2, seed + (split == "test"))]
    return Examples(texts, ["date"] * (rows // 2) + ["no date"] * (rows // 2), where=f"{split} dates")


def load_examples(config):
    """Examples to train on, to validate with, and to test with; the latter two may be None."""
    if not config.table:
        train, test = dates(ROWS, config.seed, "train"), dates(TEST_ROWS, config.seed, "test")
        short = range(0, ROWS, ROWS // SMOKE_ROWS), range(0, TEST_ROWS, TEST_ROWS // SMOKE_ROWS)
        return (train.some(short[0]), None, test.some(short[1])) if config.smoke else (train, None, test)
    examples = []
    for path in (config.table, config.validation, config.test):
        found, said = None, None
        if path:
            found, said = read_examples(path, config.text, config.label, config.text_b)
            print(said)
        examples.append(found)
    return examples


def train_elsewhere(config, settings, out, running, facts):
    """Trains on encoded rows alone, and writes the weights."""
    model, *task = load_encoded_rows(config.encoded, settings)
    print(description(settings))
    result = fit_classifier(model, *task, settings, **running)
    if chief_goes_on():  # the other workers are done
        save_trained(out, model, result, facts)


def finish(config, finetuned, out, facts, test):
    """Scores the classifier, writes it as an entry and shows what it does."""
    from keras_attention.finetuning.report import make_report, report_text, write_classifier

    report = make_report(finetuned, test)
    names = [Path(path).name for path in (config.table, config.test) if path] or ["dates and other texts, generated"]
    data = [{"name": ", ".join(names), "terms": "as its owner says" if config.table else "no terms", "link": ""}]
    told = {"start": config.start, "facts": facts, "data": data, "test": test}
    write_classifier(out, finetuned, report, **told, overwrite=config.overwrite)
    print(report_text(report))
    texts = (test or finetuned.validation).texts[:: max(1, len(test or finetuned.validation) // 5)]
    for text, label in zip(texts, finetuned.classifier.classify(texts), strict=True) if not config.text_b else ():
        print(f"{text:.100}  ->  {label}")


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    facts = run_facts()
    settings = FinetuneSettings(**{field.name: getattr(config, field.name) for field in fields(FinetuneSettings)})
    settings = accelerated(config.start, settings)
    use_strategy(config.strategy)
    out = Path(config.out + "_smoke" * config.smoke)
    unfinished = out.with_name(out.name + "_checkpoints")
    running = {"checkpoint_dir": unfinished, "log_dir": config.log_dir or None}
    running |= {"resume": config.resume, "restart": config.restart}
    if config.encoded:
        train_elsewhere(config, settings, out, running, facts)
    else:
        from keras_attention.finetuning import workflow as finetune

        claim_entry(out, config.overwrite)
        train, validation, test = load_examples(config)
        print(description(settings))
        options = {"test": test, "separator": config.separator, "validation_share": config.validation_share}
        prepared = finetune.prepare(train, validation, config.start, settings, **options)
        if config.encode_to:
            save_encoded_rows(config.encode_to, prepared)
            return
        if config.weights:
            result, facts = load_trained(config.weights, prepared.classifier.model)
        else:
            result = finetune.fit(prepared, settings, **running)
        if not chief_goes_on():  # the other workers are done
            return
        finish(config, finetune.finish(prepared, result, settings), out, facts, test)
    shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(guarded(main, "bert_finetune.py", "--debug" in sys.argv, (ValueError, OSError)))
