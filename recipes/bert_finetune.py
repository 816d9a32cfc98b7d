"""Fine-tune BERT (Devlin et al. 2019) to classify texts, on your own table.

    python recipes/bert_finetune.py                    # is this text a date? random weights, no download
    python recipes/bert_finetune.py --table train.csv --text review --label mood
    python recipes/bert_finetune.py --smoke            # a few steps, end to end

The labels determine the task. The pre-trained encoder gets a new head, and all layers are trained, lower layers with
smaller learning rates; the weights of the best epoch are kept. The linear start and mixing with it, frozen layers,
--teacher, --lora, --pairs and --contrastive work only in `keras-attention finetune`.
"""

import functools
from dataclasses import dataclass, fields, replace

from keras_attention.cli.io.terminal import command_line, silent_libraries

with silent_libraries():
    from keras_attention.training.session import Session

from keras_attention.cli.main import run_recipe
from keras_attention.data.batches import ClassificationBatches
from keras_attention.finetuning.examples import TableSettings, load_encoded_examples, load_tables, save_encoded_examples
from keras_attention.finetuning.label_training import BUCKETS, class_weights, filled_in, layers_of
from keras_attention.finetuning.settings import DEFAULT_START, FinetuneSettings
from keras_attention.finetuning.starting_model import accelerated, starting_classifier
from keras_attention.support.flags import parse_config, setting
from keras_attention.training.losses import class_cross_entropy, multilabel_cross_entropy, squared_error
from keras_attention.training.optim import LayerWiseAdamW, LinearDecay, layer_factors
from keras_attention.training.run import RunSettings
from keras_attention.zoo.registry import check_free, claim_entry


@dataclass(frozen=True)
class Config(TableSettings, RunSettings, FinetuneSettings):
    start: str = setting(DEFAULT_START, "BERT by name or folder, or none; without --table: none", name="from")
    out: str = setting("runs/bert_finetune", "folder of the trained model")


DATES = {"start": "none", "size": "tiny", "vocabulary_size": 500, "max_tokens": 32, "epochs": 2, "learning_rate": 1e-3}
SMOKE = {"epochs": 1, "jit_compile": False, "max_tokens": 16, "rows_per_batch": 8}


def presets(config):
    """The defaults that depend on other flags."""
    return (DATES if not config.table else {}) | (SMOKE if config.smoke else {})


def make_model(start, num_labels, settings, texts):
    """The trained encoder under a new head: tanh(W_p [CLS] + b_p), dropout, and one logit for each label."""
    return starting_classifier(start, num_labels, replace(settings, linear_start=False), texts)


def make_optimizer(model, settings, total_steps):
    """AdamW with smaller learning rates in lower layers, warm-up and linear decay; biases and norms do not decay."""
    total_steps = max(total_steps, 2)
    warmup = min(int(settings.warmup_share * total_steps), total_steps - 1)
    rate = LinearDecay(settings.learning_rate, warmup, total_steps)
    factors = layer_factors(layers_of(model), settings.layer_decay)  # 0.9, 0.9^2 ... from the top down
    optimizer = LayerWiseAdamW(rate, factors, settings.weight_decay, epsilon=1e-6)
    optimizer.exclude_from_weight_decay(var_list=[v for v in model.trainable_variables if len(v.shape) < 2])
    return optimizer


def loss(model, inputs, labels, kind, weights, label_smoothing):
    """Depends on the kind of task: cross-entropy of one or several labels, or the squared error of a number."""
    logits = model(inputs, training=True)  # (B, K)
    if kind == "regression":
        return squared_error(labels, logits)
    if kind == "multilabel":
        return multilabel_cross_entropy(labels, logits, weights)
    return class_cross_entropy(labels, logits, weights, label_smoothing)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    config = accelerated(config.start, config)  # bfloat16 for wide models, if the device is faster with it
    session = Session.start(config, config.out + "_smoke" * config.smoke, unit="rows", check_out=check_free)
    settings = FinetuneSettings(**{field.name: getattr(config, field.name) for field in fields(FinetuneSettings)})
    if config.encoded:  # encoded on another machine
        model, ids, targets, kind = load_encoded_examples(config.encoded, settings)
    else:
        from keras_attention.finetuning.calibration import finish
        from keras_attention.finetuning.preparation import validator
        from keras_attention.finetuning.report import make_report, report_text, write_classifier
        from keras_attention.finetuning.workflow import prepare

        claim_entry(session.out, config.overwrite)
        train, validation, test = load_tables(config)
        held_out = {"test": test, "validation_share": config.validation_split, "separator": config.separator}
        prepared = prepare(train, validation, config.start, settings, **held_out, make_model=make_model)
        if config.encode_to:
            return save_encoded_examples(config.encode_to, prepared)
        model, ids = prepared.classifier.model, prepared.sequences
        targets, kind = prepared.rows.targets, prepared.rows.task.kind

    print(session.description)
    settings = filled_in(settings, model, len(ids))
    segments = model.encoder.num_segments > 1
    batches = ClassificationBatches(ids, targets, settings.rows_per_batch, BUCKETS, settings.seed, segments)
    optimizer = make_optimizer(model, settings, settings.epochs * len(batches.epoch(0)))
    weights = class_weights(targets, kind, model.settings["num_labels"]) if settings.class_weights else None
    objective = functools.partial(loss, kind=kind, weights=weights, label_smoothing=settings.label_smoothing)
    update = session.compile(model, optimizer, objective, clip_norm=1.0, ema_decay=settings.ema_decay or None)
    watched = {"monitor": "val_score", "patience": settings.patience, "restore_best": True}
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, settings.epochs, **watched):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the mean loss, clipped; a step of AdamW
            if not config.encoded:
                with session.averaged_weights():  # with --ema-decay
                    session.report(**validator(prepared)(model))

    if result := session.finish(weights_only=bool(config.encoded)):  # only in the chief worker
        finetuned = finish(prepared, result, settings)
        report = make_report(finetuned, test)
        options = {"start": config.start, "facts": session.facts, "data": config.origin, "overwrite": config.overwrite}
        write_classifier(session.out, finetuned, report, test=test, **options)
        print(report_text(report))
        texts = (test or finetuned.validation).texts[:: max(1, len(test or finetuned.validation) // 5)]
        for text, label in zip(texts, finetuned.classifier.classify(texts), strict=True) if not config.text_b else ():
            print(f"{text:.100}  ->  {label}")
        session.clean_up()
        pair = r" $'first text\tsecond text'" if config.text_b else ""
        print(f"Saved to {session.out}. Try: {command_line('classify', session.out, '' if pair else texts[0])}{pair}")


if __name__ == "__main__":
    run_recipe(main, __file__)
