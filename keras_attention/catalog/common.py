"""What several registrations have in common: bounds of settings, and numbers of weights."""

from keras_attention.zoo.schema import text, whole

LANGUAGE = text("[A-Za-z][A-Za-z0-9 _-]{0,40}", "the name or code of a language")
VOCABULARY = whole(5, 1_000_000)
TEXT_TOKENIZER = {"text": "vocabulary_size"}
WITHOUT_PATTERN = {"attention_pattern": None}


def language_of(config):
    return f"Language: {config['language']}"


def recurrent_layer_parameters(model):
    """The number of weights of a recurrent layer."""
    width = model["hidden_dim"]
    return {"gru": 6, "lstm": 8, "lstmn": 11}[model["cell"]] * width * (width + 1)


def layer_parts(model):
    """The numbers of weights of an attention layer, a feed-forward network and a norm."""
    width, inner = model["hidden_dim"], model["intermediate_dim"]
    return 4 * (width + 1) * width, (2 * width + 1) * inner + width, 2 * width
