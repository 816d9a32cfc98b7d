"""The WordPiece tokenizer of a BERT checkpoint of Hugging Face, from all files that describe it.

A checkpoint may say the same in several files: `vocab.txt`, `tokenizer.json`, `tokenizer_config.json` and others. If
two of them differ, the libraries that read them differ, too: such a checkpoint is refused.
"""

from typing import NamedTuple

from keras_attention.convert.published_settings import (
    SPECIAL_TOKENS,
    Fields,
    check_pieces,
    looks_lowercase,
    read_json,
    read_vocabulary,
)
from keras_attention.support.errors import UserError, quoted

CLASSES = ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast")
PAD, UNKNOWN, START, END, MASK = SPECIAL_TOKENS
ROLES = {"pad_token": PAD, "unk_token": UNKNOWN, "cls_token": START, "sep_token": END, "mask_token": MASK}
FURTHER = ("additional_special_tokens", "extra_special_tokens")
TOKENIZER, SETTINGS, SPECIAL, ADDED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
MAX_TOKENIZER_BYTES = 64 << 20
MAX_CHARACTERS = 100  # of a word; longer ones are unknown
UNLIMITED = 1 << 20  # a larger `model_max_length`, such as 10 ** 30, means that there is none


class TokenizerFiles(NamedTuple):
    """What the files of a tokenizer say.

    Attributes:
        pieces: list of str, the vocabulary in the order of the ids.
        lowercase: bool, whether texts are lower-cased and lose their accents.
        max_length: int, the limit of a text in tokens, or None.
    """

    pieces: list
    lowercase: bool
    max_length: int | None


def read_tokenizer(folder, size):
    """Reads the files of a tokenizer.

    If no file states whether texts are lower-cased, this is inferred from the vocabulary.

    Args:
        folder: Path, with `vocab.txt` or `tokenizer.json`, which transformers 5 writes instead.
        size: int, vocabulary size of the model.

    Returns:
        TokenizerFiles.

    Raises:
        UserError: if a file is missing or damaged, requires a tokenizer other than BERT's, or contradicts another.
    """
    pieces = lowercase = None
    if (folder / "vocab.txt").is_file():
        pieces = read_vocabulary(folder / "vocab.txt", size)
    if (folder / TOKENIZER).is_file():
        its_pieces, lowercase = _read_tokenizer_json(folder / TOKENIZER, size)
        if pieces is not None and pieces != its_pieces:
            raise UserError(f"{folder / TOKENIZER} has other pieces than vocab.txt. Remove the wrong file.")
        pieces = its_pieces
    if pieces is None:
        raise UserError(f"{folder} has neither vocab.txt nor tokenizer.json.")
    if (folder / SPECIAL).is_file():
        check_special(Fields(folder / SPECIAL))
    if (folder / ADDED).is_file():
        check_added(folder / ADDED, read_json(folder / ADDED))
    max_length = None
    if (folder / SETTINGS).is_file():
        fields = Fields(folder / SETTINGS)
        lowercase = _stated_lowercase(fields, lowercase)
        max_length = max_length_of(fields)
        check_special(fields)
        for side in ("padding_side", "truncation_side"):
            fields.only(side, None, "right")
    return TokenizerFiles(pieces, looks_lowercase(pieces) if lowercase is None else lowercase, max_length)


def _stated_lowercase(fields, lowercase):
    """Whether texts are lower-cased, from `tokenizer.json` (None if it is missing) and `tokenizer_config.json`."""
    fields.only("tokenizer_class", *CLASSES, None)
    fields.only("do_lower_case", *((True, False) if lowercase is None else (lowercase,)))
    if lowercase is None:
        lowercase = fields.values.get("do_lower_case")
    if lowercase is not None:
        fields.only("strip_accents", None, lowercase)
    for name in ("tokenize_chinese_chars", "do_basic_tokenize"):
        fields.only(name, None, True)
    fields.only("never_split", None, [])
    return lowercase


def max_length_of(fields):
    """`model_max_length`, or `max_len`, its older name; None if there is no limit."""
    name = "model_max_length" if fields.values.get("model_max_length") is not None else "max_len"
    value = fields.values.get(name)
    if value is None or (type(value) in (int, float) and value > UNLIMITED):
        return None
    return fields.whole(name, 3, UNLIMITED)


def check_special(fields, roles=ROLES):
    """Raises UserError for special tokens other than those of `roles`, at which texts would be cut."""
    specials = tuple(dict.fromkeys(roles.values()))
    for name, piece in roles.items():
        if fields.values.get(name) is not None and _content(fields.values[name]) != piece:
            fields.refuse(name, repr(piece))
    for name in FURTHER:
        value = fields.values.get(name)
        tokens = [*value.values()] if isinstance(value, dict) else value or []
        if not isinstance(tokens, list) or any(_content(token) not in specials for token in tokens):
            fields.refuse(name, "no further tokens")
    check_added(fields.path, fields.values.get("added_tokens_decoder"), specials)


def check_added(path, added, specials=SPECIAL_TOKENS):
    """Raises UserError if there are added tokens besides these special ones, at which texts would be cut."""
    if isinstance(added, dict):  # from pieces to ids, or from ids to pieces
        added = [key if isinstance(value, int) else value for key, value in added.items()]
    if added is None:
        return
    strange = [token for token in added if _content(token) not in specials] if isinstance(added, list) else added
    if strange or not isinstance(added, list):
        raise UserError(f"{path} adds the token {quoted(strange)}. Supported: {', '.join(specials)}")


def _content(token):
    """The text of a special token, which is a str or the fields of one."""
    return token.get("content") if isinstance(token, dict) else token


def _read_tokenizer_json(path, size):
    """The pieces and the lower-casing from `tokenizer.json`."""
    fields = Fields(path, read_json(path, MAX_TOKENIZER_BYTES))
    model, normalizer = (fields.inside(name) for name in ("model", "normalizer"))
    model.choice("type", {"WordPiece": "WordPiece"})
    model.only("unk_token", UNKNOWN)
    model.only("continuing_subword_prefix", "##")
    model.only("max_input_chars_per_word", MAX_CHARACTERS)
    vocabulary = model.values.get("vocab")
    if not isinstance(vocabulary, dict) or sorted(map(repr, vocabulary.values())) != sorted(map(repr, range(size))):
        model.refuse("vocab", f"pieces with the ids from 0 to {size - 1}")
    normalizer.choice("type", {"BertNormalizer": "BertNormalizer"})
    lowercase = normalizer.truth("lowercase")
    normalizer.only("strip_accents", None, lowercase)
    for name in ("clean_text", "handle_chinese_chars"):
        normalizer.only(name, True)
    if fields.values.get("pre_tokenizer") is not None:
        fields.inside("pre_tokenizer").choice("type", {"BertPreTokenizer": "BertPreTokenizer"})
    if fields.values.get("post_processor") is not None:
        check_frame(fields.inside("post_processor"), ("TemplateProcessing", "BertProcessing"), START, END)
    check_added(path, fields.values.get("added_tokens"))
    pieces = sorted(vocabulary, key=vocabulary.get)
    check_pieces(path, pieces, size)
    return pieces, lowercase


def check_frame(fields, kinds, start, end):
    """Raises UserError unless a text stands between two special pieces, such as [CLS] and [SEP].

    Args:
        fields: Fields of the post-processor of a `tokenizer.json`.
        kinds: tuple of str, the supported ones.
        start, end: str, the special pieces.
    """
    kind = fields.choice("type", {name: name for name in kinds})
    if kind != "TemplateProcessing":
        frame = [_first(fields.values.get(name)) for name in ("cls", "sep")]
    else:
        single = fields.values.get("single")
        frame = [_part(part) for part in single] if isinstance(single, list) else [single]
        frame = [piece for piece in frame if piece != "A"] if frame[1:2] == ["A"] else frame
    if frame != [start, end]:
        fields.refuse("single" if kind == "TemplateProcessing" else "cls", f"a text between {start} and {end}")


def _part(part):
    """The special token of a part of a template, or the name of its sequence."""
    if isinstance(part, dict):
        for name in ("SpecialToken", "Sequence"):
            if isinstance(part.get(name), dict):
                return part[name].get("id")
    return None


def _first(pair):
    return pair[0] if isinstance(pair, list) and pair else None
