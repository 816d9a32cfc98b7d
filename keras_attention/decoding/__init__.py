"""Greedy search, sampling and beam search over a step function; independent of the models.

A step function is `step(token_ids (N,), state) -> (logits (N, V), state)`; a state is a nested structure of tensors
with leading axis N. A beam search may pass a third argument, `memory`, which the step reads but does not change. If the
state is a dict, all beams of a sentence share `state["shared"]`: the search neither repeats nor reorders it.

Shapes: B sentences, K beams, N sequences (B * K in a beam search), L steps, S source positions, V vocabulary.
"""

from keras_attention.decoding.hypotheses import Hypotheses, repeat_beams, replace_unknowns
from keras_attention.decoding.token_loop import beam_search, greedy_search, sample

__all__ = ["Hypotheses", "beam_search", "greedy_search", "repeat_beams", "replace_unknowns", "sample"]
