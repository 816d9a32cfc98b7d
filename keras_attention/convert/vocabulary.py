"""The vocabularies of published models: vocab.txt of a BERT, byte-level pieces and merges of a GPT-2."""

from keras_attention.convert.published_settings import Fields, read_json
from keras_attention.errors import UserError, quoted
from keras_attention.tokenizers import ByteLevelTokenizer
from keras_attention.tokenizers.byte_level_tokenizer import merge_of, pieces_in_order, read_merges, read_pieces

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_CHARACTERS = 64  # per piece, on average


def read_vocabulary(path, size):
    """Reads the pieces.

    Args:
        path: Path of vocab.txt.
        size: int, vocabulary size of the model.

    Returns:
        List of str.

    Raises:
        UserError: if there are more or fewer than `size` pieces, two are equal, or a special token is missing; [PAD]
            must be the first, because id 0 is padding.
    """
    try:
        with open(path, encoding="utf-8") as file:  # not `splitlines`: a piece may be another line separator
            text = file.read(MAX_CHARACTERS * size + 1).removesuffix("\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    found = text.count("\n") + 1
    if found != size or len(text) > MAX_CHARACTERS * size:
        raise UserError(f"{path} has {found} pieces. The configuration has vocab_size {size}")
    pieces = text.split("\n")
    check_pieces(path, pieces, size)
    return pieces


def check_pieces(path, pieces, size):
    """Raises UserError unless there are `size` different pieces, the special ones among them and [PAD] first."""
    if len(pieces) != size:
        raise UserError(f"{path} has {len(pieces)} pieces. The configuration has vocab_size {size}")
    if len(set(pieces)) < size:
        seen = set()
        twice = next(piece for piece in pieces if piece in seen or seen.add(piece))
        raise UserError(f"{path} has the piece {twice!r:.80} twice.")
    for token in SPECIAL_TOKENS:
        if token not in pieces:
            raise UserError(f"{path} lacks the special token {token}.")
    if pieces[0] != "[PAD]":
        raise UserError(f"{path} begins with {pieces[0]!r:.80}. Expected [PAD], because id 0 is padding.")


def looks_lowercase(pieces):
    """Whether no piece has a capital letter, except special ones like [CLS]."""
    return not any(piece != piece.lower() for piece in pieces if not (piece.startswith("[") and piece.endswith("]")))


END = "<|endoftext|>"
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
