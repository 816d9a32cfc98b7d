"""What several registrations have in common: bounds of settings, and numbers of weights."""

from keras_attention.support.errors import EntryError
from keras_attention.zoo.decoding_settings import CAPTION_DECODING, CAPTION_DECODING_DEFAULTS
from keras_attention.zoo.schema import OBJECT, check_fields, number, optional, text, whole

LANGUAGE = text("[A-Za-z][A-Za-z0-9 _-]{0,40}", "the name or code of a language")
NO_LANGUAGE = "zxx"  # such as music, proteins
VOCABULARY = whole(5, 1_000_000)
TEXT_TOKENIZER = {"text": "vocabulary_size"}
LOW_SCORE, LOW_SCORE_DEFAULTS = {"low_score_threshold": optional(number(-100, 0))}, {"low_score_threshold": None}
FROM_FILE = {"decoding": OBJECT, "language": LANGUAGE, **LOW_SCORE}  # keys of models that write texts about files
WITHOUT_PATTERN = {"attention_pattern": None}


def language_of(config):
    return f"Language: {config['language']}"


def with_search(config, where, kind, fields, input_of, optional=()):
    """Checks the kind of input and the search of a model that writes texts about files; fills in the search.

    Args:
        config: dict, the content of config.json.
        where: str, for messages.
        kind: str, the key of the kind of input, such as "image".
        fields: dict from each key of the kind to its allowed values.
        input_of: callable(config) -> the kind of input; raises ValueError if its numbers do not fit together.
        optional: names of the fields that may be missing.

    Returns:
        The dict with all settings of the search.
    """
    check_fields(config[kind], fields, tuple(set(fields) - set(optional)), f"{where}, {kind}")
    check_fields(config["decoding"], CAPTION_DECODING, (), f"{where}, decoding")
    try:
        input_of(config)
    except ValueError as error:
        raise EntryError(f"{where}: {error}") from error
    return {**config, "decoding": {**CAPTION_DECODING_DEFAULTS, **config["decoding"]}}


def recurrent_layer_parameters(model):
    """The number of weights of a recurrent layer."""
    width = model["hidden_dim"]
    return {"gru": 6, "lstm": 8, "lstmn": 11}[model["cell"]] * width * (width + 1)


def layer_parts(model):
    """The numbers of weights of an attention layer, a feed-forward network and a norm."""
    width, inner = model["hidden_dim"], model["intermediate_dim"]
    return 4 * (width + 1) * width, (2 * width + 1) * inner + width, 2 * width
