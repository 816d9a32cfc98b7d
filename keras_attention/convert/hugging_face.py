"""Reads BERT and DistilBERT checkpoints of Hugging Face: settings, vocabulary, weights, pooling of sentence vectors."""

import numpy as np

from keras_attention.convert.gpt2 import load_gpt2
from keras_attention.convert.published_settings import (
    Converted,
    Fields,
    Vectors,
    check_pieces,
    looks_lowercase,
    model_settings,
    read_vocabulary,
)
from keras_attention.convert.published_weights import (
    SafetensorsFile,
    build_filled,
    check_shapes,
    hugging_face_name,
    matrix_shapes,
    tensor_file,
)
from keras_attention.errors import UserError, parse_json, quoted

CLASSES = ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast")


def read_tokenizer(folder, size):
    """Reads `vocab.txt`, or `tokenizer.json`, which transformers 5 writes instead, and `tokenizer_config.json`.

    If no file states whether texts are lower-cased, this is inferred from the vocabulary.

    Args:
        folder: Path.
        size: int, vocabulary size of the model.

    Returns:
        Pair of the list of pieces and bool, whether texts are lower-cased and lose their accents.

    Raises:
        UserError: if a file is missing or damaged, or requires a tokenizer other than BERT's.
    """
    if (folder / "vocab.txt").is_file():
        pieces, lowercase = read_vocabulary(folder / "vocab.txt", size), None
    elif (folder / "tokenizer.json").is_file():
        pieces, lowercase = _read_tokenizer_json(folder / "tokenizer.json", size)
    else:
        raise UserError(f"{folder} has neither vocab.txt nor tokenizer.json.")
    if not (folder / "tokenizer_config.json").is_file():
        return pieces, looks_lowercase(pieces) if lowercase is None else lowercase
    fields = Fields(folder / "tokenizer_config.json")
    fields.only("tokenizer_class", *CLASSES, None)
    fields.only("do_lower_case", *((True, False) if lowercase is None else (lowercase,)))
    if lowercase is None:
        lowercase = fields.values.get("do_lower_case", looks_lowercase(pieces))
    fields.only("strip_accents", None, lowercase)
    for name in ("tokenize_chinese_chars", "do_basic_tokenize"):
        fields.only(name, True)
    return pieces, lowercase


def _read_tokenizer_json(path, size):
    """The pieces and the lower-casing from `tokenizer.json`."""
    fields = Fields(path)
    model, normalizer = (fields.inside(name) for name in ("model", "normalizer"))
    model.choice("type", {"WordPiece": "WordPiece"})
    model.only("unk_token", "[UNK]")
    model.only("continuing_subword_prefix", "##")
    vocabulary = model.values.get("vocab")
    if not isinstance(vocabulary, dict) or sorted(map(repr, vocabulary.values())) != sorted(map(repr, range(size))):
        model.refuse("vocab", f"pieces with the ids from 0 to {size - 1}")
    normalizer.choice("type", {"BertNormalizer": "BertNormalizer"})
    lowercase = normalizer.truth("lowercase")
    normalizer.only("strip_accents", None, lowercase)
    for name in ("clean_text", "handle_chinese_chars"):
        normalizer.only(name, True)
    pieces = sorted(vocabulary, key=vocabulary.get)
    check_pieces(path, pieces, size)
    return pieces, lowercase


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
}
MAX_LABELS = 100_000
# Prefixes of the tensor names of an encoder that was saved alone, where the leading "bert." is missing.
BARE = ("embeddings.", "encoder.", "pooler.", "transformer.")
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
# Tensors that may be stored twice: copy -> original.
COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight",
}
LEFT_OUT = {
    "encoder": ("bert.pooler.",),
    "masked_lm": ("bert.pooler.", "cls.seq_relationship."),
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
    pieces, lowercase = read_tokenizer(folder, settings["vocabulary_size"])
    vectors = read_vectors(folder, settings, lowercase)
    tensors = SafetensorsFile(tensor_file(folder))
    names = _unified(tensors, model_type)
    kind = _kind(fields, model_type, names)
    label_names = None
    if kind == "classifier":
        label_names = _label_names(fields)
        settings |= {"num_labels": len(label_names)}
        settings |= {"pooler_activation": "relu" if model_type == "distilbert" else "tanh"}
    left_out = tuple(name for name in names if name.startswith(LEFT_OUT[kind]))
    shapes = {
        hugging_face_name(path, model_type): shape[::-1] if path.endswith("/kernel") else shape
        for path, shape in matrix_shapes(kind, settings).items()
    }
    found = {name: tensors.shapes[names[name]] for name in names if name not in left_out}
    check_shapes(tensors.path, found, shapes)
    tensors.check_readable(names[name] for name in shapes)

    def read(path):
        values = tensors.read(names[hugging_face_name(path, model_type)])
        return values.T if path.endswith("/kernel") else values

    model = build_filled(kind, settings, read)
    return Converted(model, pieces, lowercase, label_names, "Hugging Face", left_out, vectors)


def _unified(tensors, model_type):
    """Dict from the current tensor names of transformers to the names in the file, without buffers and copies."""
    names = {}
    for name in tensors.shapes:
        new = f"{model_type}.{name}" if name.startswith(BARE) else name
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
        if "classifier.weight" in names:
            return "classifier"
        return "masked_lm" if {"cls.predictions.bias", "vocab_projector.bias"} & names.keys() else "encoder"
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


MODULES, SENTENCES = "modules.json", "sentence_bert_config.json"
POOLING = "1_Pooling"
MAX_MODULES = 16
MAX_BYTES = 65536
# Name of the module's class -> its only allowed folder. The order is that of the file.
STEPS = {"Transformer": "", "Pooling": POOLING, "Normalize": "2_Normalize"}
FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


def read_vectors(folder, settings, lowercase):
    """Reads `modules.json`, `1_Pooling/config.json` and `sentence_bert_config.json`.

    Args:
        folder: Path of a checkpoint of Hugging Face.
        settings: dict, arguments of `BertEncoder`.
        lowercase: bool, whether the tokenizer lower-cases texts.

    Returns:
        Vectors; without `modules.json` the mean over all tokens.

    Raises:
        UserError: if a file is damaged, or the modules compute something that `Vectors` cannot describe.
    """
    if not (folder / MODULES).is_file():
        return Vectors()
    normalize = _normalizes(folder / MODULES)
    pooling = _pooling(Fields(folder / POOLING / "config.json"), settings["hidden_dim"])
    max_tokens = None
    if (folder / SENTENCES).is_file():
        fields = Fields(folder / SENTENCES)
        fields.only("do_lower_case", *((False, True) if lowercase else (False,)))
        if fields.values.get("max_seq_length") is not None:
            max_tokens = min(fields.whole("max_seq_length", 3, 1 << 20), settings["max_length"])
    return Vectors(pooling, normalize, max_tokens)


def _normalizes(path):
    """Whether the modules Transformer and Pooling are followed by Normalize; UserError for any other modules."""
    modules = _read_list(path)
    names = [_module_name(path, module) for module in modules]
    if names not in (list(STEPS)[:2], list(STEPS)):
        found = ", ".join(names) or "nothing"
        raise UserError(f"{path}: texts go through {quoted(found)}. Supported: Transformer, Pooling and Normalize")
    return len(names) == len(STEPS)


def _read_list(path):
    try:
        with open(path, "rb") as file:
            modules = parse_json(file.read(MAX_BYTES))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON of at most {MAX_BYTES} bytes: {error}") from error
    if not isinstance(modules, list) or not 1 <= len(modules) <= MAX_MODULES:
        raise UserError(f"{path} must hold a list of 1 to {MAX_MODULES} modules.")
    return modules


def _module_name(path, module):
    """The name of the module's class. Only the usual folder is allowed, so that no other files can be read."""
    kind = module.get("type") if isinstance(module, dict) else None
    if not isinstance(kind, str) or not kind.startswith("sentence_transformers."):
        raise UserError(f"{path} has the module {quoted(module)}. Supported: those of sentence_transformers")
    name = kind.rpartition(".")[2]
    if name in STEPS and module.get("path", STEPS[name]) != STEPS[name]:
        raise UserError(f"{path}: {name} is in the folder {quoted(module['path'])}. Supported: {STEPS[name]!r}")
    return name


def _pooling(fields, width):
    """ "mean" or "cls", from the flags of older versions or the name of newer ones."""
    for name in ("word_embedding_dimension", "embedding_dimension"):
        fields.only(name, width)
    if "pooling_mode" in fields.values:
        return fields.choice("pooling_mode", {"mean": "mean", "cls": "cls"})
    modes = [name for name, value in fields.values.items() if name.startswith("pooling_mode_") and value is not False]
    if len(modes) != 1 or modes[0] not in FLAGS or fields.values[modes[0]] is not True:
        found = ", ".join(modes) or "none"
        raise UserError(f"{fields.path}: the pooling is {quoted(found)}. Supported: one of {', '.join(FLAGS)}")
    return FLAGS[modes[0]]
