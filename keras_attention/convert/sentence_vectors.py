"""Reads the settings of sentence-transformers: how token vectors become the vector of a text."""

from keras_attention.convert.published_settings import Fields, Vectors
from keras_attention.errors import UserError, quoted
from keras_attention.strict_json import parse_json

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
    """Whether the modules are a Transformer, a Pooling and a Normalize; otherwise they are the first two."""
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
    """The name of the module's class. Only the usual folder is allowed, so that a file cannot choose what is read."""
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
