"""Complete models; they return logits."""

from keras_attention.models.bert_encoder import BERT_PRESETS, BertEncoder
from keras_attention.models.bert_heads import BertClassifier, BertMaskedLM, BertPretrainer
from keras_attention.models.convolutional_lm import ConvolutionalLM
from keras_attention.models.gpt import GPT, GPT_PRESETS
from keras_attention.models.recurrent_lm import RecurrentLM
from keras_attention.models.seq2seq import AttentionSeq2Seq
from keras_attention.models.transformer import PRESETS, Transformer

__all__ = [
    "BERT_PRESETS",
    "GPT",
    "GPT_PRESETS",
    "PRESETS",
    "AttentionSeq2Seq",
    "BertClassifier",
    "BertEncoder",
    "BertMaskedLM",
    "BertPretrainer",
    "ConvolutionalLM",
    "RecurrentLM",
    "Transformer",
]
