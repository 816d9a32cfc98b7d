"""How a text becomes a vector, from the files that sentence-transformers reads.

Each key of these files is applied, has no influence on the vectors, or has a value that is refused by its name.
"""

from keras_attention.convert.published_settings import Fields, Vectors
from keras_attention.support.errors import UserError, parse_json, quoted

MODULES, LIBRARY = "modules.json", "config_sentence_transformers.json"
# The first of these files that a checkpoint has describes its module Transformer.
TRANSFORMERS = ("sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json")
# Files besides `config.json`, those of the tokenizer, and `model.safetensors`.
VECTOR_FILES = (MODULES, LIBRARY, *TRANSFORMERS, "1_Pooling/config.json", "2_Normalize/config.json")
MAX_MODULES = 16
MAX_BYTES = 65536
# Name of the module's class -> its only allowed folder. The order is that of the file.
STEPS = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
NOTHING = (None, {})
TEXT_ONLY = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
# Keys of the module Transformer, besides `max_seq_length` and `do_lower_case`, with their supported values.
TRANSFORMER_ONLY = {
    "transformer_task": ("feature-extraction",),
    "modality_config": (None, TEXT_ONLY),
    "module_output_name": (None, "token_embeddings"),
    "unpad_inputs": (None, False, True),
    "tokenizer_name_or_path": (None,),
    **dict.fromkeys(("query_length", "document_length", "query_expansion"), (None,)),
    **dict.fromkeys(("processing_kwargs", "model_args", "tokenizer_args", "config_args"), NOTHING),
    **dict.fromkeys(("model_kwargs", "processor_kwargs", "config_kwargs"), NOTHING),
}
POOLING_KEYS = ("embedding_dimension", "word_embedding_dimension", "pooling_mode", "include_prompt")


def read_vectors(folder, settings, lowercase, model_max_length=None):
    """Reads `modules.json`, the files of its modules, and `config_sentence_transformers.json`.

    Args:
        folder: Path of a checkpoint of Hugging Face.
        settings: dict, arguments of `BertEncoder`.
        lowercase: bool, whether the tokenizer lower-cases texts.
        model_max_length: int, the limit of the tokenizer, or None. `max_seq_length` has priority.

    Returns:
        Vectors; without `modules.json` the mean over all tokens.

    Raises:
        UserError: if a file is damaged, or the modules compute something that `Vectors` cannot describe.
    """
    longest = settings["max_length"]
    max_tokens = None if model_max_length is None else min(model_max_length, longest)
    if not (folder / MODULES).is_file():
        return Vectors(max_tokens=max_tokens)
    normalize = _normalizes(folder)
    pooling = _pooling(Fields(folder / STEPS["Pooling"] / "config.json"), settings["hidden_dim"])
    _check_library(folder / LIBRARY, settings["hidden_dim"])
    path = next((folder / name for name in TRANSFORMERS if (folder / name).is_file()), None)
    if path is not None:
        fields = Fields(path)
        _check_known(fields, ("max_seq_length", "do_lower_case", *TRANSFORMER_ONLY))
        fields.only("do_lower_case", *((False, True) if lowercase else (False,)))
        for name, allowed in TRANSFORMER_ONLY.items():
            fields.only(name, *allowed)
        if fields.values.get("max_seq_length") is not None:
            max_tokens = min(fields.whole("max_seq_length", 3, 1 << 20), longest)
    return Vectors(pooling, normalize, max_tokens)


def _normalizes(folder):
    """Whether the modules Transformer and Pooling are followed by Normalize; UserError for any other modules."""
    path = folder / MODULES
    modules = _read_list(path)
    names = [_module_name(path, module) for module in modules]
    if names not in (list(STEPS)[:2], list(STEPS)):
        received = ", ".join(names) or "nothing"
        raise UserError(f"{path}: texts go through {quoted(received)}. Supported: Transformer, Pooling and Normalize")
    own = folder / STEPS["Normalize"] / "config.json"
    if len(names) == len(STEPS) and own.is_file():
        fields = Fields(own)
        fields.only("module_input_name", "sentence_embedding")
        fields.only("module_output_name", None, "sentence_embedding")
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
    if module.get("kwargs"):
        raise UserError(f"{path}: {name} has the kwargs {quoted(module['kwargs'])}. Supported: none")
    return name


def _pooling(fields, width):
    """ "mean" or "cls", from the flags of older versions or the name of newer ones."""
    for name in ("word_embedding_dimension", "embedding_dimension"):
        fields.only(name, width)
    fields.only("include_prompt", True, False)  # no prompt is put before a text
    flags = [name for name in fields.values if name.startswith("pooling_mode_")]
    _check_known(fields, (*POOLING_KEYS, *flags))
    if "pooling_mode" in fields.values:
        return fields.choice("pooling_mode", {"mean": "mean", "cls": "cls"})
    modes = [name for name in flags if fields.values[name] is not False]
    if len(modes) != 1 or modes[0] not in FLAGS or fields.values[modes[0]] is not True:
        received = ", ".join(modes) or "none"
        raise UserError(f"{fields.path}: the pooling is {quoted(received)}. Supported: one of {', '.join(FLAGS)}")
    return FLAGS[modes[0]]


def _check_library(path, width):
    """Raises UserError if the settings of the whole model change its vectors.

    A prompt that is used only when it is asked for, and the measure of similarity, do not.
    """
    if not path.is_file():
        return
    fields = Fields(path)
    fields.only("model_type", None, "SentenceTransformer")
    fields.only("truncate_dim", None, width)
    name, prompts = fields.values.get("default_prompt_name"), fields.values.get("prompts")
    if name is not None and not (isinstance(prompts, dict) and prompts.get(name) == ""):
        fields.refuse("default_prompt_name", "null, because no prompt is put before a text")


def _check_known(fields, known):
    strange = next((name for name in fields.values if name not in known), None)
    if strange is not None:
        fields.refuse(strange, "a file without this key")
