"""Attention and Transformer layers, named as in the papers. They use `keras.ops` only and run on every Keras backend.

Letters for shapes in comments and docstrings:
B batch, T queries, S keys, D width (Dq, Dk, Dv of query, key, value), H heads, K head width, V vocabulary.
"""

from keras_attention.layers.additive import AdditiveAttention
from keras_attention.layers.attention import AttentionRecord, attend, masked_softmax, record_attention
from keras_attention.layers.causal_convolution import GatedCausalConvolution
from keras_attention.layers.dropout import Dropout
from keras_attention.layers.feed_forward import FeedForward
from keras_attention.layers.hard_attention import HardAttention
from keras_attention.layers.location_aware import LocationAwareAttention
from keras_attention.layers.lstmn import LSTMNCell
from keras_attention.layers.luong import LuongAttention
from keras_attention.layers.masks import causal_mask, padding_mask, zero_masked
from keras_attention.layers.multi_head import MultiHeadAttention
from keras_attention.layers.patch_embedding import GridPositionalEmbedding, PatchEmbedding
from keras_attention.layers.positions import LearnedPositionalEmbedding, SinusoidalPositionalEmbedding
from keras_attention.layers.recurrent import GRUCell, LSTMCell
from keras_attention.layers.relative_positions import RelativeScores
from keras_attention.layers.ssru import SSRU, SSRUDecoderLayer
from keras_attention.layers.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer

__all__ = [
    "SSRU",
    "AdditiveAttention",
    "AttentionRecord",
    "Dropout",
    "FeedForward",
    "GRUCell",
    "GatedCausalConvolution",
    "GridPositionalEmbedding",
    "HardAttention",
    "LSTMCell",
    "LSTMNCell",
    "LearnedPositionalEmbedding",
    "LocationAwareAttention",
    "LuongAttention",
    "MultiHeadAttention",
    "PatchEmbedding",
    "RelativeScores",
    "SSRUDecoderLayer",
    "SinusoidalPositionalEmbedding",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "attend",
    "causal_mask",
    "masked_softmax",
    "padding_mask",
    "record_attention",
    "zero_masked",
]
