"""The settings of a beam search in `config.json`: their bounds and defaults, and the check of those of a call."""

from typing import Any

from keras_attention.support.errors import UserError, quoted
from keras_attention.zoo.schema import TRUTH, choice, number, optional, whole

# Lengths count tokens with END. An answer has at most min(max_length, length_ratio * source + length_offset) tokens.
DECODING = {
    "beam_size": whole(1, 64),
    "length_penalty": number(0, 10),
    "coverage_penalty": number(0, 10),
    "patience": optional(number(0.01, 1000)),
    "max_length": whole(1, 4096),
    "length_ratio": number(0, 1000),
    "length_offset": whole(0, 4096),
    "max_source_length": whole(2, 4096),
    "ranking": choice("gnmt", "length"),
    "force_end": TRUTH,
}
DECODING_DEFAULTS = {
    "beam_size": 5,
    "length_penalty": 0.0,
    "coverage_penalty": 0.0,
    "patience": 2.0,
    "max_length": 128,
    "length_ratio": 2.0,
    "length_offset": 10,
    "max_source_length": 128,
    "ranking": "gnmt",
    "force_end": False,
}
# Of a captioner. `max_length` counts tokens with END.
CAPTION_DECODING = {name: DECODING[name] for name in ("beam_size", "length_penalty", "max_length")}
CAPTION_DECODING_DEFAULTS = {"beam_size": 3, "length_penalty": 0.0, "max_length": 32}


def alignment_heads_of(layers: int, heads: int) -> Any:
    """What the alignment heads of a decoder are, and a check of them: different pairs [layer, head], or null."""

    def holds(values):
        pairs = [value for value in values if isinstance(value, list) and len(value) == 2]
        whole_numbers = all(type(number) is int for pair in pairs for number in pair)
        inside = whole_numbers and all(0 <= layer < layers and 0 <= head < heads for layer, head in pairs)
        return inside and 1 <= len(values) == len(pairs) == len({*map(tuple, pairs)})

    what = f"a list of different pairs [layer, head] of {layers} layers and {heads} heads, from 0"
    return optional((what, lambda value: isinstance(value, list) and holds(value)))


def check_search(settings: dict[str, Any], n_best: int, bounds: dict[str, Any]) -> None:
    """Raises UserError if a setting of a search is out of its bounds, or more answers are wanted than beams."""
    for name, value in settings.items():
        what, holds = bounds[name]
        if not holds(value):
            raise UserError(f"`{name}` must be {what}. Received: {name}={quoted(value)}")
    if type(n_best) is not int or not 1 <= n_best <= settings["beam_size"]:
        raise UserError(
            f"`n_best` must lie between 1 and the beam size {settings['beam_size']}. Received: {quoted(n_best)}"
        )
