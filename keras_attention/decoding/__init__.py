"""Greedy search, sampling and beam search over a step function; knows no model.

A step function is `step(token_ids (N,), state) -> (logits (N, V), state)`; a state is a nested structure of tensors
with leading axis N.
"""

from keras_attention.decoding.beam_search import beam_search
from keras_attention.decoding.greedy import greedy_search
from keras_attention.decoding.hypotheses import Hypotheses, repeat_beams

__all__ = ["Hypotheses", "beam_search", "greedy_search", "repeat_beams"]
