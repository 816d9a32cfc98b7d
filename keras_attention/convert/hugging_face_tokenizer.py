"""How a Hugging Face BERT cuts texts: its pieces, and whether texts are lower-cased before."""

from keras_attention.convert.fields import Fields
from keras_attention.convert.vocabulary import check_pieces, looks_lowercase, read_vocabulary
from keras_attention.errors import UserError

CLASSES = ("BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast")


def read_tokenizer(folder, size):
    """Reads `vocab.txt`, or `tokenizer.json`, which transformers 5 writes in its place; and `tokenizer_config.json`.

    Where no file tells whether texts are lower-cased, the pieces do.

    Args:
        folder: Path.
        size: int, how many pieces the model has vectors for.

    Returns:
        Pair of the list of pieces and bool, whether texts are lower-cased and lose their accents.

    Raises:
        UserError: if a file is missing or damaged, or asks for another way of cutting than BERT's.
    """
    if (folder / "vocab.txt").is_file():
        pieces, lowercase = read_vocabulary(folder / "vocab.txt", size), None
    elif (folder / "tokenizer.json").is_file():
        pieces, lowercase = _read_tokenizer_json(folder / "tokenizer.json", size)
    else:
        raise UserError(f"{folder} lacks vocab.txt, and tokenizer.json in its place.")
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
    """Pieces and lower-casing out of `tokenizer.json`."""
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
