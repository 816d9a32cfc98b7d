"""Whole networks; they return logits."""

from keras_attention.models.attention_seq2seq import AttentionSeq2Seq
from keras_attention.models.transformer import Transformer
from keras_attention.models.transformer_settings import PRESETS

__all__ = ["PRESETS", "AttentionSeq2Seq", "Transformer"]
