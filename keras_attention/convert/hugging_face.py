"""Reads BERT, DistilBERT and XLM-RoBERTa checkpoints of Hugging Face, with all that describes their texts."""

import numpy as np

from keras_attention.convert.gpt2 import load_gpt2
from keras_attention.convert.marian import load_marian
from keras_attention.convert.published_settings import XLM_ROBERTA_SHIFT, Converted, model_settings
from keras_attention.convert.published_weights import (
    SafetensorsFile,
    build_filled,
    check_shapes,
    hugging_face_name,
    matrix_shapes,
    tensor_file,
)
from keras_attention.convert.sentence_vectors import read_vectors
from keras_attention.convert.unigram_files import is_unigram, read_unigram
from keras_attention.convert.wordpiece_files import read_tokenizer
from keras_attention.support.errors import UserError

ADAPTER = "adapter_config.json"
KINDS = {
    "bert": {
        "BertModel": "encoder",
        "BertForMaskedLM": "masked_lm",
        "BertForPreTraining": "masked_lm",
        "BertForSequenceClassification": "classifier",
    },
    "distilbert": {
        "DistilBertModel": "encoder",
        "DistilBertForMaskedLM": "masked_lm",
        "DistilBertForSequenceClassification": "classifier",
    },
    "xlm-roberta": {
        "XLMRobertaModel": "encoder",
        "XLMRobertaForMaskedLM": "masked_lm",
        "XLMRobertaForSequenceClassification": "classifier",
    },
}
MAX_LABELS = 100_000
SEGMENTS = "encoder/segment_embedding/embeddings"
PAIRS = "Two texts of a pair are separated by one </s> here, and by two in the original."
# Prefixes of the tensor names of an encoder that was saved alone, where the leading "bert." is missing.
BARE = ("embeddings.", "encoder.", "pooler.", "transformer.")
PREFIXES = {"bert": "bert", "distilbert": "distilbert", "xlm-roberta": "roberta"}
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# Tensors that may be stored twice: copy -> original.
COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight",
    "lm_head.decoder.weight": "roberta.embeddings.word_embeddings.weight",
    "lm_head.decoder.bias": "lm_head.bias",
}
LEFT_OUT = {
    "encoder": ("bert.pooler.", "roberta.pooler."),
    "masked_lm": ("bert.pooler.", "roberta.pooler.", "cls.seq_relationship."),
    "classifier": (),
}


def load_hugging_face(folder, fields):
    """Reads the files of the tokenizer, `model.safetensors` and `modules.json` of a folder.

    Args:
        folder: Path.
        fields: Fields of `config.json`.

    Returns:
        Converted.
    """
    model_type, settings = model_settings(fields)
    if model_type == "gpt2":
        return load_gpt2(folder, fields)
    if model_type == "marian":
        return load_marian(folder, fields)
    if (folder / ADAPTER).is_file():
        raise UserError(f"{folder / ADAPTER} changes the weights. Supported: a model without adapter, or a merged one")
    unigram = None
    if model_type == "xlm-roberta" or is_unigram(folder):
        unigram = read_unigram(folder, settings["vocabulary_size"])
        pieces, lowercase, longest = unigram.tokenizer.vocabulary, False, unigram.max_length
    else:
        pieces, lowercase, longest = read_tokenizer(folder, settings["vocabulary_size"])
    vectors = read_vectors(folder, settings, lowercase, longest)
    tensors = SafetensorsFile(tensor_file(folder))
    names = _unified(tensors, model_type)
    kind = _kind(fields, model_type, names)
    label_names = None
    if kind == "classifier":
        label_names = _label_names(fields)
        settings |= {"num_labels": len(label_names)}
        settings |= {"pooler_activation": "relu" if model_type == "distilbert" else "tanh"}
    stored = {}  # the sizes of tables that differ in the file
    if model_type == "xlm-roberta":
        stored = {"max_length": settings["max_length"] + XLM_ROBERTA_SHIFT}
    left_out = tuple(name for name in names if name.startswith(LEFT_OUT[kind]))
    shapes = {
        hugging_face_name(path, model_type): shape[::-1] if path.endswith("/kernel") else shape
        for path, shape in matrix_shapes(kind, settings | stored).items()
    }
    kept_shapes = {name: tensors.shapes[names[name]] for name in names if name not in left_out}
    check_shapes(tensors.path, kept_shapes, shapes)
    tensors.check_readable(names[name] for name in shapes)

    def read(path):
        values = tensors.read(names[hugging_face_name(path, model_type)])
        return values.T if path.endswith("/kernel") else values

    if unigram is None:
        model = build_filled(kind, settings, read)
        return Converted(model, pieces, lowercase, label_names, "Hugging Face", left_out, vectors)
    model = build_filled(kind, *_for_unigram(settings, read, unigram.rows))
    notes = (PAIRS,) if kind == "classifier" else ()
    facts = {"tokenizer": unigram.tokenizer, "notes": notes}
    return Converted(model, pieces, lowercase, label_names, "Hugging Face", left_out, vectors, **facts)


def _for_unigram(settings, read, rows):
    """Settings and reader of a model whose rows of the vocabulary are these of the checkpoint.

    All tokens of such a checkpoint are in the first segment: its vector is added to those of the positions.
    """

    def changed(path):
        if path.endswith("position_embedding/embeddings"):
            table = read(path)[-settings["max_length"] :]  # an XLM-RoBERTa has two unused rows before them
            return table + read(SEGMENTS)[0] if settings["num_segments"] else table
        return read(path)[rows] if path.endswith(("token_embedding/embeddings", "output_bias")) else read(path)

    return settings | {"vocabulary_size": len(rows), "num_segments": 0}, changed


def _unified(tensors, model_type):
    """Dict from the current tensor names of transformers to the names in the file, without buffers and copies."""
    names = {}
    for name in tensors.shapes:
        new = f"{PREFIXES[model_type]}.{name}" if name.startswith(BARE) else name
        new = new.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if new.endswith(BUFFERS):
            continue
        if new in names:
            raise UserError(f"{tensors.path} has {names[new]:.80} and {name:.80}, which are the same tensor.")
        names[new] = name
    for copy, original in COPIES.items():
        if copy in names:
            name = names.pop(copy)
            other = names.setdefault(original, name)
            same_shape = tensors.shapes[name] == tensors.shapes[other]
            if name != other and not (same_shape and np.array_equal(tensors.read(name), tensors.read(other))):
                raise UserError(
                    f"{tensors.path}: {name:.80} differs from {other}. Supported: language models that tie them"
                )
    return names


def _kind(fields, model_type, names):
    """The kind of model, from the configuration, or otherwise from the tensors."""
    architectures = fields.values.get("architectures")
    if architectures is None:
        if {"classifier.weight", "classifier.out_proj.weight"} & names.keys():
            return "classifier"
        biases = {"cls.predictions.bias", "vocab_projector.bias", "lm_head.bias"}
        return "masked_lm" if biases & names.keys() else "encoder"
    known = KINDS[model_type]
    sound = isinstance(architectures, list) and len(architectures) == 1 and isinstance(architectures[0], str)
    if not sound or architectures[0] not in known:
        fields.refuse("architectures", f"a list of one of {', '.join(known)}")
    return known[architectures[0]]


def _label_names(fields):
    """The names of the labels in the order of the logits."""
    labels = fields.values.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    sound = isinstance(labels, dict) and 1 <= len(labels) <= MAX_LABELS
    sound = sound and set(labels) == {str(i) for i in range(len(labels))}
    if not sound or not all(isinstance(label, str) for label in labels.values()):
        fields.refuse("id2label", "a name for each of the numbers from 0 on")
    fields.only("num_labels", len(labels))
    one = ("regression",) if len(labels) == 1 else ()
    fields.only("problem_type", None, "single_label_classification", *one)
    return tuple(labels[str(i)] for i in range(len(labels)))
