"""Text <-> ids. Only `tokenize_in_graph` and the encoding of `WordPieceTokenizer` import TensorFlow."""

from keras_attention.tokenizers.byte_level_tokenizer import ByteLevelTokenizer
from keras_attention.tokenizers.character_tokenizer import CharacterTokenizer
from keras_attention.tokenizers.load_tokenizer import load_tokenizer
from keras_attention.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_attention.tokenizers.wordpiece_tokenizer import WordPieceTokenizer

__all__ = [
    "ByteLevelTokenizer",
    "CharacterTokenizer",
    "SentencePieceTokenizer",
    "WordPieceTokenizer",
    "load_tokenizer",
]
