"""Distil a large BERT into a small one (Sanh et al. 2019; Wang et al. 2020), on plain text.

    python recipes/distill.py --teacher minilm_l6 --text FILES --layers 0 3 5 --vocabulary-size 16800
    python recipes/distill.py --teacher bert_mini_en --prediction-weight 1 --text FILES --layers 0 3
    python recipes/distill.py --smoke      # a few steps, a tiny random teacher, the docstrings of this Python

The student starts with some layers of the teacher and with the vectors of its most frequent pieces. Both read the same
texts; the student learns the teacher's vector of every text and its hidden state of every token, and turns texts into
vectors. With `--prediction-weight`, it also learns the predictions of a masked language model, and fills masks.
With `--pairs`, it also learns the teacher's vector of a text from its translation (Reimers & Gurevych 2020).
"""

import functools
import itertools
from dataclasses import dataclass
from pathlib import Path

from keras_attention.cli.io.terminal import command_line, silent_libraries

with silent_libraries():
    import keras

from keras_attention.cli.main import run_recipe
from keras_attention.data.prose.distillation import MaskedTexts, TextSettings, distillation_batches
from keras_attention.data.prose.documents import docstrings, read_documents
from keras_attention.data.translation.parallel_corpus import read_tsv
from keras_attention.evaluation.masked_lm_scores import MaskedLMScores
from keras_attention.models import BertEncoder, BertMaskedLM
from keras_attention.models.distiller import Distiller, student_of, with_policy
from keras_attention.publishing.trained_entries import write_distilled
from keras_attention.support.flags import parse_config, setting
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.training import losses
from keras_attention.training.devices import in_float32
from keras_attention.training.gradients import split_labels
from keras_attention.training.optim import LinearDecay
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.warm_start import load_teacher


@dataclass(frozen=True)
class Config(TextSettings, RunSettings):
    teacher: str = setting("", "the teacher, such as a BERT from `keras-attention convert`; not with --smoke")
    layers: tuple[int, ...] = setting((0, 3, 5), "layers of the teacher to copy into the student, counted from 0")
    vector_weight: float = setting(1.0, "weight of the cosine loss of the text vectors")
    hidden_weight: float = setting(1.0, "weight of the squared error of the hidden states")
    attention_weight: float = setting(0.0, "weight of the divergence of the last layers' attention weights")
    value_weight: float = setting(0.0, "weight of the divergence of the last layers' value relations")
    prediction_weight: float = setting(0.0, "weight of the divergence of the predictions of masked tokens")
    temperature: float = setting(2.0, "divides the logits of these predictions")
    epochs: int = setting(1, "passes over the texts")
    learning_rate: float = setting(5e-4, "peak learning rate of AdamW; linear decay to 0")
    warmup_steps: int = setting(50, "updates until the peak")
    weight_decay: float = setting(0.01, "weight decay of AdamW, except for biases and norms")
    clip_norm: float = setting(1.0, "maximum global norm of the gradients")
    max_steps: int | None = setting(None, "maximum number of updates")
    out: str = setting("runs/distill", "folder of the trained model")


SMOKE = {"vocabulary_size": 250, "max_tokens": 64, "validation_split": 0.2, "layers": (0, 2), "max_steps": 2,
         "jit_compile": False}  # fmt: skip


def tiny_teacher(texts, kind):
    tokenizer = WordPieceTokenizer.train(texts, 400)
    teacher = kind(tokenizer.vocabulary_size, 24, 48, num_heads=3, num_layers=3, max_length=64, dropout=0.0)
    teacher.build()
    return teacher, tokenizer


def loss(model, inputs, labels, weights, temperature, training=True):
    """1 - cosine of both vectors for every text, plus the distance of both hidden states for every token."""
    student, teacher = model(inputs, training=training)  # labels: positions of its tokens in the teacher's
    of_vectors = losses.vector_loss(student["vector"], teacher["vector"])  # (B,)
    of_tokens = weights["hidden"] * losses.hidden_loss(student["hidden"], teacher["hidden"], labels)
    if weights["attention"]:
        of_tokens += weights["attention"] * losses.attention_loss(student["weights"], teacher["weights"], labels)
    if weights["value"]:
        of_tokens += weights["value"] * losses.value_loss(student["values"], teacher["values"], labels)
    if weights["prediction"]:
        predictions = student["logits"], teacher["logits"]  # (B, P, V)
        of_tokens += weights["prediction"] * losses.prediction_loss(inputs["masked_ids"], *predictions, temperature)
    count = keras.ops.cast(keras.ops.shape(of_vectors)[0], "float32")
    total = weights["vector"] * keras.ops.sum(of_vectors) + count * of_tokens
    return losses.Loss(total, count, keras.ops.sum(1.0 - of_vectors))  # the cosine is shown as accuracy


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, lambda config: SMOKE if config.smoke else {})
    session = Session.start(
        config, config.out + "_smoke" * config.smoke, large_products=True, unit="texts", check_out=check_free
    )
    config = session.config
    predicts = bool(config.prediction_weight)  # masked tokens, with the teacher's head
    trained = None if config.smoke else load_teacher(config.teacher, predicts)
    pairs = [pair for path in config.pairs for pair in zip(*read_tsv(path), strict=True)]
    if config.text or config.pairs:
        texts = read_documents(config.text) if config.text else []
    else:
        texts = docstrings(most_files=20 if config.smoke else None)
    both = [*texts, *itertools.chain(*pairs)]
    teacher, tokenizer = trained or tiny_teacher(both, BertMaskedLM if predicts else BertEncoder)
    claim_entry(session.out, config.overwrite)

    few_pieces, kept, batches, held_out = distillation_batches(texts, pairs, tokenizer, config, with_masks=predicts)
    student = with_policy(student_of(teacher, config.layers, kept))
    model = Distiller(student, with_policy(teacher), kept, bool(config.attention_weight), bool(config.value_weight))

    total_steps = min(config.epochs * len(batches.epoch(0)), config.max_steps or 10**9)
    print(f"{len(batches.sequences):,} texts, {student.count_params():,} parameters, {total_steps:,} updates")
    print(session.description)
    rate = LinearDecay(config.learning_rate, min(config.warmup_steps, total_steps - 1), total_steps)
    optimizer = keras.optimizers.AdamW(rate, config.weight_decay, beta_2=0.98, epsilon=1e-6)
    optimizer.exclude_from_weight_decay(var_list=[v for v in student.trainable_variables if len(v.shape) < 2])
    weights = {name.removesuffix("_weight"): value for name, value in vars(config).items() if "_weight" in name}
    weighted_loss = functools.partial(loss, weights=weights, temperature=config.temperature)
    update = session.compile(model, optimizer, weighted_loss, config.clip_norm)
    masked_scores = MaskedLMScores(student, config.jit_compile)

    def scores():  # means over the held-out texts
        losses = [weighted_loss(model, *split_labels(batch), training=False) for batch in held_out]
        cosine = sum(float(one.correct) for one in losses) / sum(float(one.count) for one in losses)
        return {"cosine": cosine} | (masked_scores(MaskedTexts(held_out)) if predicts else {})

    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, config.epochs, max_steps=config.max_steps, monitor="val_cosine"):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the mean loss, clipped; a step of AdamW
            session.report(**{f"val_{name}": value for name, value in scores().items()})

    if session.finish():  # only in the chief worker
        options = {"scores": scores(), **session.outcome}
        options["settings"] |= config.file_names | {"out": session.out.name, "teacher": Path(config.teacher).name}
        write_distilled(session.out, in_float32(student), few_pieces, **options)
        session.clean_up()
        example = ("fill-mask", "This [MASK] is it.") if predicts else ("encode", "A text.")
        print(f"Saved to {session.out}. Try: {command_line(example[0], session.out, example[1])}")


if __name__ == "__main__":
    run_recipe(main, __file__)
