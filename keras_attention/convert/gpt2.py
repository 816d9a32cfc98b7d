"""Reads GPT-2 checkpoints of Hugging Face: settings, vocabulary, weights."""

import re

import numpy as np

from keras_attention.convert.published_settings import Converted, Fields, gpt2_settings, read_json
from keras_attention.convert.published_weights import SafetensorsFile, check_shapes, tensor_file
from keras_attention.models import GPT
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers import ByteLevelTokenizer
from keras_attention.tokenizers.byte_level_tokenizer import merge_of, pieces_in_order, read_merges, read_pieces

ARCHITECTURES = (["GPT2LMHeadModel"], ["GPT2Model"], None)
# Our names to GPT-2's. Its kernels are (inputs, outputs), like ours; query, key and value are one kernel (D, 3 D).
NAMES = {
    "token_embedding/embeddings": "wte.weight",
    "position_embedding/embeddings": "wpe.weight",
    "final_norm/gamma": "ln_f.weight",
    "final_norm/beta": "ln_f.bias",
}
LAYER = {
    "self_attention/attention_output": "attn.c_proj",
    "self_attention_norm": "ln_1",
    "feed_forward/intermediate_dense": "mlp.c_fc",
    "feed_forward/output_dense": "mlp.c_proj",
    "feed_forward_norm": "ln_2",
}
LEAVES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
JOINED = ("query", "key", "value")  # in the order of attn.c_attn
BUFFER = re.compile(r"h\.\d+\.attn\.(masked_)?bias")


def load_gpt2(folder, fields):
    """Reads the files of a GPT-2 checkpoint; the model has the same logits as in transformers.

    Args:
        folder: Path, with `config.json`, `model.safetensors` and the files of a byte-level tokenizer.
        fields: Fields of `config.json`.

    Returns:
        Converted. The model has no padding token: every id, including 0, is a token of a text.

    Raises:
        UserError: names the file, field or tensor that is missing, damaged or not supported.
    """
    settings = gpt2_settings(fields)
    fields.only("architectures", *ARCHITECTURES)
    end_id = None
    if fields.values.get("eos_token_id") is not None:
        end_id = fields.whole("eos_token_id", 0, settings["vocabulary_size"] - 1)
    tokenizer = read_byte_level_tokenizer(folder, settings["vocabulary_size"], end_id)
    begins_with = _begins_with(folder, tokenizer.special_pieces["end"])
    tensors = SafetensorsFile(tensor_file(folder))
    names = _unified(tensors)
    check_shapes(tensors.path, {name: tensors.shapes[names[name]] for name in names}, _shapes(settings))
    tensors.check_readable(names.values())
    model = GPT(**settings, dtype="float32")
    model.build()
    for weight in model.trainable_weights:
        values = _values(lambda name: tensors.read(names[name]), weight.path.removeprefix(f"{model.name}/"))
        if not np.isfinite(values).all():
            raise UserError(f"{tensors.path}: the tensor for {weight.path} holds NaN or infinity.")
        weight.assign(np.reshape(values, weight.shape))
    texts = {"tokenizer": tokenizer, "begins_with": begins_with, "notes": _notes(folder)}
    return Converted(model, tokenizer.vocabulary, False, None, "Hugging Face", (), None, **texts)


def _unified(tensors):
    """Dict from names without "transformer." to the names in the file; without buffers and the copied output kernel."""
    names = {}
    for name in tensors.shapes:
        short = name.removeprefix("transformer.")
        if short in names:
            raise UserError(f"{tensors.path} has {names[short]:.80} and {name:.80}, which are the same tensor.")
        if not BUFFER.fullmatch(short):
            names[short] = name
    output = names.pop("lm_head.weight", None)
    if output is not None and "wte.weight" in names:
        other = names["wte.weight"]
        same = tensors.shapes[output] == tensors.shapes[other]
        if not (same and np.array_equal(tensors.read(output), tensors.read(other))):
            raise UserError(f"{tensors.path}: {output:.80} differs from {other:.80}. Supported: models that tie them")
    return names


def _shapes(settings):
    """The tensors that the file must have, with their shapes."""
    D, inner = settings["hidden_dim"], settings["intermediate_dim"]
    shapes = {"wte.weight": (settings["vocabulary_size"], D), "wpe.weight": (settings["max_length"], D)}
    sizes = {"attn.c_attn": (D, 3 * D), "attn.c_proj": (D, D), "mlp.c_fc": (D, inner), "mlp.c_proj": (inner, D)}
    layers = [f"h.{i}." for i in range(settings["num_layers"])]
    for layer in layers:
        for name, (inputs, outputs) in sizes.items():
            shapes |= {f"{layer}{name}.weight": (inputs, outputs), f"{layer}{name}.bias": (outputs,)}
    for norm in ("ln_f", *(f"{layer}{name}" for layer in layers for name in ("ln_1", "ln_2"))):
        shapes |= {f"{norm}.weight": (D,), f"{norm}.bias": (D,)}
    return shapes


def _values(read, path):
    """The values of our weight at `path`; `read` returns a tensor of the file by its name."""
    if path in NAMES:
        return read(NAMES[path])
    layer, _, rest = path.partition("/")
    part, _, leaf = rest.rpartition("/")
    layer = f"h.{layer.removeprefix('layer_')}"
    if part.startswith("self_attention/") and part.rpartition("/")[2] in JOINED:
        joined = read(f"{layer}.attn.c_attn.{LEAVES[leaf]}")
        return np.split(joined, 3, axis=-1)[JOINED.index(part.rpartition("/")[2])]
    return read(f"{layer}.{LAYER[part]}.{LEAVES[leaf]}")


END = "<|endoftext|>"
TOKENIZER, SETTINGS, GENERATION = "tokenizer.json", "tokenizer_config.json", "generation_config.json"
TEXT = {"Sequence": {"id": "A", "type_id": 0}}  # in a template
# Settings of `generate` in transformers that change greedy texts, with the values at which they do not.
GREEDY = {
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "penalty_alpha": None,
    "min_length": 0,
    "min_new_tokens": None,
    "bad_words_ids": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "stop_strings": None,
}
MAX_BYTES = 32 << 20
# Fields of the model in tokenizer.json that change how texts are split, and their only supported values.
MODEL_ONLY = {
    "type": ("BPE",),
    "dropout": (None,),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (False,),
    "ignore_merges": (False,),
}


def read_byte_level_tokenizer(folder, size, end_id=None):
    """Reads the files of a byte-level tokenizer; `tokenizer.json` has priority, as in transformers.

    Special pieces after the vocabulary, such as "<|pad|>", have their own ids; no text is split into them.

    Args:
        folder: Path.
        size: int, vocabulary size of the model.
        end_id: int, the token that ends a text, or None for "<|endoftext|>".

    Returns:
        ByteLevelTokenizer.

    Raises:
        UserError: if a file is missing or damaged, or requires a tokenizer other than GPT-2's.
    """
    path = folder / TOKENIZER
    if path.is_file():
        vocabulary, merges = _read_tokenizer_json(path)
    elif (folder / "vocab.json").is_file():
        path = folder / "vocab.json"
        vocabulary, merges = read_pieces(path), read_merges(folder / "merges.txt")
    else:
        raise UserError(f"{folder} has neither tokenizer.json nor vocab.json and merges.txt.")
    if (folder / SETTINGS).is_file():
        fields = Fields(folder / SETTINGS)
        fields.only("add_prefix_space", False, None)
    if len(vocabulary) != size:
        raise UserError(f"{path} has {len(vocabulary)} pieces. The configuration has vocab_size {size}")
    end = END if end_id is None else vocabulary[end_id]
    try:
        return ByteLevelTokenizer(vocabulary, merges, {"end": end})
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _begins_with(folder, end):
    """What transformers puts before a text: "nothing", or "end" for the token that ends a text.

    `tokenizer.json` says it in its template; without that file, `add_bos_token` counts.
    """
    if (folder / TOKENIZER).is_file():
        fields = Fields(folder / TOKENIZER, read_json(folder / TOKENIZER, MAX_BYTES))
        if fields.values.get("post_processor") is None:
            return "nothing"
        frame = fields.inside("post_processor")
        if frame.choice("type", {name: name for name in ("ByteLevel", "TemplateProcessing")}) == "ByteLevel":
            return "nothing"
        if frame.values.get("single") != [{"SpecialToken": {"id": end, "type_id": 0}}, TEXT]:
            frame.refuse("single", f"a text after {end}")
        return "end"
    if not (folder / SETTINGS).is_file():
        return "nothing"
    fields = Fields(folder / SETTINGS)
    fields.only("add_bos_token", None, False, True)
    start = fields.values.get("bos_token")
    if not fields.values.get("add_bos_token"):
        return "nothing"
    if (start.get("content") if isinstance(start, dict) else start) not in (None, end):
        fields.refuse("bos_token", repr(end))
    return "end"


def _notes(folder):
    """Sentences for the card: settings of the checkpoint that change greedy texts, and are not applied."""
    if not (folder / GENERATION).is_file():
        return ()
    values = Fields(folder / GENERATION).values
    asked = [name for name, usual in GREEDY.items() if values.get(name, usual) not in (usual, None)]
    if not asked:
        return ()
    return (f"{GENERATION} of the original also sets {', '.join(asked)}, which `generate` does not apply by itself.",)


def _read_tokenizer_json(path):
    """The pieces, special ones among them, and the merges from `tokenizer.json`."""
    fields = Fields(path, read_json(path, MAX_BYTES))
    fields.only("normalizer", None)
    before, model = fields.inside("pre_tokenizer"), fields.inside("model")
    before.choice("type", {"ByteLevel": "ByteLevel"})
    before.only("add_prefix_space", False)
    before.only("use_regex", True)
    for name, allowed in MODEL_ONLY.items():
        model.only(name, *allowed)
    ids, merges = model.values.get("vocab"), model.values.get("merges")
    if not isinstance(ids, dict) or not isinstance(merges, list):
        raise UserError(f"{path}: expected the fields vocab and merges in model.")
    ids = ids | _special_ids(path, fields.values.get("added_tokens"), ids)
    return pieces_in_order(ids, path), [merge_of(merge, f"{path}, merge {n}") for n, merge in enumerate(merges)]


def _special_ids(path, added, ids):
    """Dict from each added token to its id; all of them must be special, or texts would be cut at them."""
    special = {}
    for token in added if isinstance(added, list) else []:
        content, number = (token.get("content"), token.get("id")) if isinstance(token, dict) else (None, None)
        if not isinstance(content, str) or ids.get(content, number) != number:
            raise UserError(f"{path}: expected added tokens with content and id. Found: {quoted(token)}")
        if token.get("special") is not True:
            raise UserError(f"{path}: the added token {quoted(content)} is not special. Supported: special ones")
        special[content] = number
    return special
