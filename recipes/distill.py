"""Distil a large BERT into a small one (Sanh et al. 2019; Wang et al. 2020), on plain text.

    python recipes/distill.py --teacher minilm_l6 --text FILES --layers 0 3 5 --vocabulary_size 16800
    python recipes/distill.py --smoke      # a few steps, a tiny random teacher, the docstrings of this Python

The student starts with some layers of the teacher and with the vectors of its most frequent pieces. Both read the same
texts; the student learns to give every text the vector of the teacher, and every token its hidden state. A teacher is
an entry, for example of `keras-attention convert`. The result is an entry that gives the vectors of texts.
"""

import os
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from keras_attention.cli.io.silence import silent_libraries

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with silent_libraries():
    import keras

from keras_attention.cli.main import guarded
from keras_attention.data.prose.distillation import DistillationBatches, distillation_rows
from keras_attention.data.prose.documents import docstrings, hold_out, read_documents
from keras_attention.models import BertEncoder
from keras_attention.models.distiller import Distiller, student_of
from keras_attention.pipelines.release import write_distilled
from keras_attention.tokenizers import WordPieceTokenizer
from keras_attention.tokenizers.pruning import piece_counts, prune
from keras_attention.training.acceleration import accelerate, description, in_float32
from keras_attention.training.acceleration_settings import AccelerationSettings
from keras_attention.training.distillation_losses import attention_loss, hidden_loss, vector_loss
from keras_attention.training.flags import parse_config, setting
from keras_attention.training.run_facts import run_facts
from keras_attention.training.run_settings import RunSettings
from keras_attention.training.schedules import LinearDecay
from keras_attention.training.trainer import train
from keras_attention.zoo.place import claim_entry
from keras_attention.zoo.warm_start import load_start


@dataclass(frozen=True)
class Config(RunSettings, AccelerationSettings):
    teacher: str = setting("", "entry of the teacher, a BERT without a head; none: a tiny random one, with --smoke")
    text: tuple[str, ...] = setting((), "files with a text on each line; none: docstrings of the standard library")
    validation_share: float = setting(0.01, "share of the texts held out")
    language: str = setting("en", "code of the language, for the card")
    max_tokens: int = setting(128, "longest text, in tokens with [CLS] and [SEP]; longer ones are left out")
    vocabulary_size: int = setting(16800, "pieces of the teacher's vocabulary that the student keeps")
    layers: tuple[int, ...] = setting((0, 3, 5), "layers of the teacher that the student starts with, from 0 on")
    vector_weight: float = setting(1.0, "of the cosine of the texts' vectors in the loss")
    hidden_weight: float = setting(1.0, "of the squared error of the hidden states in the loss")
    attention_weight: float = setting(0.0, "of the divergence of the last layers' attention in the loss")
    epochs: int = setting(1, "passes over the texts")
    tokens_per_batch: int = setting(1024, "tokens of one update")
    learning_rate: float = setting(5e-4, "peak, AdamW; linear decay to 0")
    warmup_steps: int = setting(50, "updates until the peak")
    weight_decay: float = setting(0.01, "of AdamW, not on biases and norms")
    clip_norm: float = setting(1.0, "largest global norm of the gradients")
    max_steps: int | None = setting(None, "updates after which to end, if the epochs have more")
    seed: int = setting(1, "order of the texts")
    out: str = setting("runs/distill", "folder of the trained model")


SMOKE = {
    "vocabulary_size": 250,
    "max_tokens": 64,
    "validation_share": 0.2,
    "layers": (0, 2),
    "max_steps": 2,
    "jit_compile": False,
}
TINY = {"hidden_dim": 24, "intermediate_dim": 48, "num_heads": 3, "num_layers": 3, "max_length": 64, "dropout": 0.0}


def load_teacher(config, texts):
    if not config.smoke:
        start = load_start(config.teacher)
        return start.model, start.tokenizers["text"]
    tokenizer = WordPieceTokenizer.train(texts, 400)
    teacher = BertEncoder(tokenizer.vocabulary_size, **TINY)
    teacher.build()
    return teacher, tokenizer


def with_policy(encoder):
    """The same encoder, computing as Keras's dtype policy says."""
    copy = BertEncoder(**encoder.settings | {"dropout": 0.0})
    copy.build()
    copy.set_weights(encoder.get_weights())
    return copy


def loss_of(config):
    def loss(aligned, outputs):
        student, teacher = outputs
        of_vectors = vector_loss(student["vector"], teacher["vector"])  # (B,)
        of_tokens = config.hidden_weight * hidden_loss(student["hidden"], teacher["hidden"], aligned)
        if config.attention_weight:
            of_tokens += config.attention_weight * attention_loss(student["weights"], teacher["weights"], aligned)
        texts = keras.ops.cast(keras.ops.shape(of_vectors)[0], "float32")
        total = config.vector_weight * keras.ops.sum(of_vectors) + texts * of_tokens
        return total, texts, keras.ops.sum(1.0 - of_vectors)  # the "accuracy" is the cosine

    return loss


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, lambda config: SMOKE if config.smoke else {})
    facts = run_facts()
    out = Path(config.out + "_smoke" * config.smoke)
    unfinished = out.with_name(out.name + "_checkpoints")
    claim_entry(out, config.overwrite)
    texts = read_documents(config.text) if config.text else docstrings(most_files=20 if config.smoke else None)
    teacher, tokenizer = load_teacher(config, texts)
    texts, held_out = hold_out(texts, config.validation_share)
    few_pieces, kept = prune(tokenizer, piece_counts(tokenizer, tokenizer.encode(texts)), config.vocabulary_size)
    rows, held_out = (
        distillation_rows(some, tokenizer, few_pieces, kept, config.max_tokens) for some in (texts, held_out)
    )
    batches = DistillationBatches(rows, config.tokens_per_batch, config.seed)

    config = accelerate(config, large_products=True)
    keras.utils.set_random_seed(config.seed)
    student = with_policy(student_of(teacher, config.layers, kept))
    model = Distiller(student, with_policy(teacher), with_attention=bool(config.attention_weight))
    model.build()
    total_steps = min(config.epochs * len(batches.epoch(0)), config.max_steps or sys.maxsize)
    schedule = LinearDecay(config.learning_rate, min(config.warmup_steps, total_steps - 1), total_steps)
    optimizer = keras.optimizers.AdamW(schedule, config.weight_decay, beta_2=0.98, epsilon=1e-6)
    optimizer.exclude_from_weight_decay(var_list=[v for v in student.trainable_variables if len(v.shape) < 2])
    print(f"{len(rows):,} texts, {student.count_params():,} parameters, {total_steps:,} updates\n{description(config)}")
    loss, held_out = loss_of(config), DistillationBatches(held_out, config.tokens_per_batch).epoch(0)

    def validate(model):
        """The mean cosine of the student's vectors and the teacher's, over the texts held out."""
        sums = [loss(batch.pop("labels"), model(batch, training=False)) for batch in map(dict, held_out)]
        _, texts, cosines = (sum(map(float, column)) for column in zip(*sums, strict=True))
        return {"val_cosine": cosines / texts}

    limits = {"epochs": config.epochs, "max_steps": config.max_steps, "clip_norm": config.clip_norm}
    limits |= {
        "checkpoint_dir": unfinished,
        "unit": "texts",
        "monitor": "val_cosine",
        "mode": "max",
        "jit_compile": config.jit_compile,
    }
    result = train(model, optimizer, batches, loss=loss, validate=validate, **limits, **config.running)
    settings = asdict(config) | {"text": [Path(path).name for path in config.text], "out": out.name}
    told = {"scores": validate(model), "settings": settings, "result": result, "facts": facts}
    write_distilled(out, in_float32(student), few_pieces, **told, overwrite=config.overwrite)
    shutil.rmtree(unfinished, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(guarded(main, "distill.py", "--debug" in sys.argv, (ValueError, OSError)))
