"""The settings of a translator's search in `config.json`: their bounds and defaults."""

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
