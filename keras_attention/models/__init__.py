"""Whole networks; they return logits."""

from keras_attention.models.attention_seq2seq import AttentionSeq2Seq

__all__ = ["AttentionSeq2Seq"]
