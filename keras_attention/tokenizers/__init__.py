"""Text <-> ids. Only `tokenize_in_graph` and the encoding of `WordPieceTokenizer` import TensorFlow."""

from pathlib import Path
from typing import get_args

from keras_attention.support.errors import UserError, parse_json, quoted
from keras_attention.tokenizers.amino_acid_tokenizer import AminoAcidTokenizer
from keras_attention.tokenizers.byte_level_tokenizer import ByteLevelTokenizer
from keras_attention.tokenizers.character_tokenizer import CharacterTokenizer
from keras_attention.tokenizers.marian_tokenizer import MarianTokenizer
from keras_attention.tokenizers.note_tokenizer import NoteTokenizer
from keras_attention.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attention.tokenizers.unigram_tokenizer import UnigramTokenizer
from keras_attention.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

__all__ = [
    "AminoAcidTokenizer",
    "ByteLevelTokenizer",
    "CharacterTokenizer",
    "MarianTokenizer",
    "NoteTokenizer",
    "SentencePieceTokenizer",
    "UnigramTokenizer",
    "WordPieceTokenizer",
    "load_tokenizer",
]

AnyTokenizer = (
    AminoAcidTokenizer
    | ByteLevelTokenizer
    | CharacterTokenizer
    | MarianTokenizer
    | NoteTokenizer
    | SentencePieceTokenizer
    | UnigramTokenizer
    | WordPieceTokenizer
)
KINDS = {tokenizer.kind: tokenizer for tokenizer in get_args(AnyTokenizer)}


def load_tokenizer(folder: str | Path) -> AnyTokenizer:
    """Reads a tokenizer from the folder that its `save` wrote.

    Args:
        folder: str or Path with tokenizer.json and the other files of the kind that it names.

    Returns:
        AminoAcidTokenizer, ByteLevelTokenizer, CharacterTokenizer, MarianTokenizer, NoteTokenizer,
        SentencePieceTokenizer, UnigramTokenizer or WordPieceTokenizer.

    Raises:
        UserError: if a file is missing or damaged, the kind is unknown, or the settings are not those of this kind.
    """
    path = Path(folder) / "tokenizer.json"
    try:
        settings = parse_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}). Expected: a folder with a tokenizer.") from error
    except ValueError as error:
        raise UserError(f"{path}: is not valid JSON ({error}).") from error
    kind = settings.get("kind") if isinstance(settings, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise UserError(f"{path}: the kind of tokenizer must be one of {', '.join(KINDS)}. Found: {quoted(kind)}")
    if set(settings) != set(KINDS[kind].settings):
        raise UserError(f"{path}: expected {', '.join(KINDS[kind].settings)}. Found: {', '.join(settings):.80}")
    return KINDS[kind].load(folder)
