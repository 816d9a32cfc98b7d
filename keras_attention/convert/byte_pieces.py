"""The byte-level vocabulary of a published GPT-2: tokenizer.json, or vocab.json and merges.txt."""

from keras_attention.convert.published_settings import Fields, read_json
from keras_attention.errors import UserError, quoted
from keras_attention.tokenizers import ByteLevelTokenizer
from keras_attention.tokenizers.byte_level_tokenizer import merge_of, pieces_in_order, read_merges, read_pieces

END = "<|endoftext|>"
MAX_BYTES = 32 << 20
# Fields of the model in tokenizer.json with which texts would be split in another way.
MODEL_ONLY = {
    "type": ("BPE",),
    "dropout": (None,),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (False,),
    "ignore_merges": (False,),
}


def read_byte_level_tokenizer(folder, size, end_id=None):
    """Reads the files of a byte-level tokenizer; `tokenizer.json` goes first, as in transformers.

    Special pieces behind the vocabulary, such as "<|pad|>", have ids of their own, and no text contains them.

    Args:
        folder: Path.
        size: int, vocabulary size of the model.
        end_id: int, the token that ends a text, or None for "<|endoftext|>".

    Returns:
        ByteLevelTokenizer.

    Raises:
        UserError: if a file is missing or damaged, or requires another tokenizer than GPT-2's.
    """
    path = folder / "tokenizer.json"
    if path.is_file():
        vocabulary, merges = _read_tokenizer_json(path)
    elif (folder / "vocab.json").is_file():
        path = folder / "vocab.json"
        vocabulary, merges = read_pieces(path), read_merges(folder / "merges.txt")
    else:
        raise UserError(f"{folder} has neither tokenizer.json nor vocab.json and merges.txt.")
    if (folder / "tokenizer_config.json").is_file():
        fields = Fields(folder / "tokenizer_config.json")
        fields.only("add_prefix_space", False, None)
    if len(vocabulary) != size:
        raise UserError(f"{path} has {len(vocabulary)} pieces. The configuration has vocab_size {size}")
    end = END if end_id is None else vocabulary[end_id]
    try:
        return ByteLevelTokenizer(vocabulary, merges, {"end": end})
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


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
    found = {}
    for token in added if isinstance(added, list) else []:
        content, number = (token.get("content"), token.get("id")) if isinstance(token, dict) else (None, None)
        if not isinstance(content, str) or ids.get(content, number) != number:
            raise UserError(f"{path}: expected added tokens with content and id. Found: {quoted(token)}")
        if token.get("special") is not True:
            raise UserError(f"{path}: the added token {quoted(content)} is not special. Supported: special ones")
        found[content] = number
    return found
