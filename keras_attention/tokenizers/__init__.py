"""Text <-> ids. Importing this needs no TensorFlow; only `tokenize_in_graph` does."""

from keras_attention.tokenizers.character_tokenizer import CharacterTokenizer
from keras_attention.tokenizers.load_tokenizer import load_tokenizer
from keras_attention.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer

__all__ = ["CharacterTokenizer", "SentencePieceTokenizer", "load_tokenizer"]
