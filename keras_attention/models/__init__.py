"""Whole networks; they return logits."""

from keras_attention.models.attention_seq2seq import AttentionSeq2Seq
from keras_attention.models.bert_classifier import BertClassifier
from keras_attention.models.bert_encoder import BertEncoder
from keras_attention.models.bert_masked_lm import BertMaskedLM
from keras_attention.models.bert_pretrainer import BertPretrainer
from keras_attention.models.bert_settings import BERT_PRESETS
from keras_attention.models.transformer import Transformer
from keras_attention.models.transformer_settings import PRESETS

__all__ = [
    "BERT_PRESETS",
    "PRESETS",
    "AttentionSeq2Seq",
    "BertClassifier",
    "BertEncoder",
    "BertMaskedLM",
    "BertPretrainer",
    "Transformer",
]
