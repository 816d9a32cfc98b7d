"""The configuration of a published checkpoint, translated into settings of our models, and the vocabulary of a BERT."""

from typing import TYPE_CHECKING, NamedTuple

from keras_attention.support.errors import UserError, parse_json, quoted

if TYPE_CHECKING:
    import keras

    from keras_attention.tokenizers import ByteLevelTokenizer, MarianTokenizer


class Vectors(NamedTuple):
    """How a text becomes a vector.

    Attributes:
        pooling: "mean" over all tokens, [CLS] and [SEP] included, or "cls".
        normalize: bool. Whether vectors are scaled to length 1.
        max_tokens: int, maximum tokens of a text, or None for the model's number of positions.
    """

    pooling: str = "mean"
    normalize: bool = False
    max_tokens: int | None = None


class Converted(NamedTuple):
    """A published checkpoint as a model of this package.

    Attributes:
        model: built BertEncoder, BertMaskedLM, BertClassifier, GPT or Transformer with the checkpoint's weights, in
            float32.
        vocabulary: list of str, the pieces of the vocabulary; the index is the id.
        lowercase: bool, whether texts are lower-cased and lose their accents before they are split into pieces.
        label_names: tuple of str in the order of the logits, or None if the model is not a classifier.
        source_format: "Hugging Face", "Google" or "keras-hub".
        left_out: tuple of str, unused tensors of the checkpoint: the pooler of an encoder or language model, and the
            next-sentence head.
        vectors: Vectors, how a text becomes a vector, or None if the model generates texts.
        tokenizer: ByteLevelTokenizer, or None for a WordPieceTokenizer of `vocabulary` and `lowercase`.
        begins_with: what a GPT-2 gets before a prompt: "nothing", or "end" for the token that ends a text.
        notes: tuple of str, sentences for the card about what is not as in the original.
        tokenizers: dict of a translator's MarianTokenizers, "source" and "target", or None.
        decoding: dict, the settings of a translator's search, see `zoo.decoding_settings`, or None.
        languages: pair of str, a translator's source and target language, or None.
    """

    model: "keras.Model"
    vocabulary: list
    lowercase: bool
    label_names: tuple | None
    source_format: str
    left_out: tuple
    vectors: Vectors | None
    tokenizer: "ByteLevelTokenizer | None" = None
    begins_with: str = "nothing"
    notes: tuple = ()
    tokenizers: "dict[str, MarianTokenizer] | None" = None
    decoding: dict | None = None
    languages: tuple | None = None


MAX_JSON_BYTES = 2 * 1024 * 1024
MAX_WEIGHTS = 1 << 31  # bytes


def read_json(path, most=MAX_JSON_BYTES):
    """Reads a JSON object.

    Args:
        path: Path.
        most: int, maximum size of the file in bytes.

    Returns:
        dict.

    Raises:
        UserError: if the file is missing, too large, or not a JSON object.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(most + 1)
        value = parse_json(content) if len(content) <= most else None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} must hold a JSON object of at most {most} bytes.")
    return value


class Fields:
    """The fields of a configuration; each getter checks and returns a value.

    Args:
        path: Path of the JSON file.
        values: dict, the content of the file if it was already read.

    Raises:
        UserError: by the constructor, see `read_json`; by each getter, with file, field, value and expected values.
    """

    def __init__(self, path, values=None):
        self.path = path
        self.values = read_json(path) if values is None else values

    def inside(self, name):
        """The `Fields` of a field that is an object."""
        value = self.values.get(name)
        self._check(name, isinstance(value, dict), "an object")
        return Fields(self.path, value)

    def whole(self, name, low, high):
        """An int from `low` to `high`."""
        value = self.values.get(name)
        self._check(name, type(value) is int and low <= value <= high, f"an integer from {low} to {high}")
        return value

    def number(self, name, low, high, default):
        """A float from `low` to `high`."""
        value = self.values.get(name, default)
        sound = type(value) in (int, float) and low <= value <= high
        self._check(name, sound, f"a number from {low} to {high}")
        return float(value)

    def choice(self, name, allowed, default=None):
        """The item of the dict `allowed` whose key is the value of the field."""
        value = self.values.get(name, default)
        sound = isinstance(value, str) and value in allowed
        self._check(name, sound, f"one of {', '.join(allowed)}")
        return allowed[value]

    def truth(self, name):
        """A bool."""
        value = self.values.get(name)
        self._check(name, isinstance(value, bool), "true or false")
        return value

    def only(self, name, *allowed):
        """Raises UserError for values other than these; the field may be absent."""
        if name in self.values:
            value = self.values[name]
            sound = any(type(value) is type(other) and value == other for other in allowed)
            self._check(name, sound, " or ".join(map(repr, allowed)))

    def refuse(self, name, expected):
        """Raises UserError for the field."""
        self._check(name, False, expected)

    def _check(self, name, sound, expected):
        if not sound:
            received = quoted(self.values[name]) if name in self.values else "nothing"
            raise UserError(f"{self.path}: {name} is {received}. Supported: {expected}")


# The largest sizes that a checkpoint may have.
MAX_VOCABULARY, MAX_LENGTH, MAX_SEGMENTS = 1_000_000, 65536, 16
MAX_WIDTH, MAX_INNER, MAX_HEADS, MAX_LAYERS = 8192, 32768, 128, 64
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_approximate",
    "gelu_pytorch_tanh": "gelu_approximate",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
# Google's code computes the tanh approximation under this name.
GOOGLE_ACTIVATIONS = {"gelu": "gelu_approximate", "relu": "relu"}
# Fields that change the network, and their only supported values.
BERT_ONLY = {
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "pruned_heads": ({}, None),
    "tie_word_embeddings": (True,),
    "quantization_config": (None,),
}


def bert_settings(fields, activations=ACTIVATIONS):
    """The arguments of `BertEncoder` for the configuration of a BERT.

    Our model has one dropout rate: the hidden dropout of the configuration, not the dropout of attention weights.

    Args:
        fields: Fields.
        activations: dict from names of activations to ours.

    Returns:
        dict.

    Raises:
        UserError: for a field out of range or a value that is not supported.
    """
    return _bert_settings(fields, activations)


XLM_ROBERTA_SHIFT = 2  # the first rows of its table of positions are unused


def xlm_roberta_settings(fields):
    """The arguments of `BertEncoder` for the configuration of an XLM-RoBERTa, see `bert_settings`."""
    settings = _bert_settings(fields, ACTIVATIONS, pad_id=1)
    if settings["max_length"] <= XLM_ROBERTA_SHIFT:
        fields.refuse("max_position_embeddings", f"at least {XLM_ROBERTA_SHIFT + 1}")
    return settings | {"max_length": settings["max_length"] - XLM_ROBERTA_SHIFT}


def _bert_settings(fields, activations, pad_id=0):
    return _settings(
        fields,
        pad_id,
        hidden_dim=fields.whole("hidden_size", 1, MAX_WIDTH),
        intermediate_dim=fields.whole("intermediate_size", 1, MAX_INNER),
        num_heads=fields.whole("num_attention_heads", 1, MAX_HEADS),
        num_layers=fields.whole("num_hidden_layers", 1, MAX_LAYERS),
        num_segments=fields.whole("type_vocab_size", 0, MAX_SEGMENTS),
        dropout=fields.number("hidden_dropout_prob", 0, 0.99, default=0.1),
        activation=fields.choice("hidden_act", activations, default="gelu"),
        layer_norm_epsilon=fields.number("layer_norm_eps", 1e-20, 0.1, default=1e-12),
    )


def distilbert_settings(fields):
    """The arguments of `BertEncoder` for the configuration of a DistilBERT, see `bert_settings`."""
    return _settings(
        fields,
        0,
        hidden_dim=fields.whole("dim", 1, MAX_WIDTH),
        intermediate_dim=fields.whole("hidden_dim", 1, MAX_INNER),
        num_heads=fields.whole("n_heads", 1, MAX_HEADS),
        num_layers=fields.whole("n_layers", 1, MAX_LAYERS),
        num_segments=0,
        dropout=fields.number("dropout", 0, 0.99, default=0.1),
        activation=fields.choice("activation", ACTIVATIONS, default="gelu"),
        layer_norm_epsilon=1e-12,
    )


def _settings(fields, pad_id, **settings):
    """The settings, completed by those that have the same names in all configurations."""
    for name, allowed in BERT_ONLY.items():
        fields.only(name, *allowed)
    fields.only("pad_token_id", pad_id)
    if settings["hidden_dim"] % settings["num_heads"]:
        fields.refuse("num_attention_heads", f"a divisor of the width {settings['hidden_dim']}")
    sizes = {
        "vocabulary_size": fields.whole("vocab_size", 5, MAX_VOCABULARY),
        "max_length": fields.whole("max_position_embeddings", 1, MAX_LENGTH),
    }
    return sizes | settings


# Like BERT_ONLY, for GPT-2.
GPT2_ONLY = {
    "add_cross_attention": (False,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "tie_word_embeddings": (True,),
    "quantization_config": (None,),
}


def gpt2_settings(fields):
    """The arguments of `GPT` for the configuration of a GPT-2; its dropout is that of the residual stream."""
    for name, allowed in GPT2_ONLY.items():
        fields.only(name, *allowed)
    width = fields.whole("n_embd", 1, MAX_WIDTH)
    heads = fields.whole("n_head", 1, MAX_HEADS)
    if width % heads:
        fields.refuse("n_head", f"a divisor of the width {width}")
    inner = 4 * width if fields.values.get("n_inner") is None else fields.whole("n_inner", 1, MAX_INNER)
    return {
        "vocabulary_size": fields.whole("vocab_size", 5, MAX_VOCABULARY),
        "hidden_dim": width,
        "intermediate_dim": inner,
        "num_heads": heads,
        "num_layers": fields.whole("n_layer", 1, MAX_LAYERS),
        "max_length": fields.whole("n_positions", 2, MAX_LENGTH),
        "dropout": fields.number("resid_pdrop", 0, 0.99, default=0.1),
        "activation": fields.choice("activation_function", ACTIVATIONS, default="gelu_new"),
        "layer_norm_epsilon": fields.number("layer_norm_epsilon", 1e-14, 0.1, default=1e-5),
        "pad_id": None,
    }


# Like BERT_ONLY, for Marian.
MARIAN_ONLY = {
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "static_position_embeddings": (True,),
    "share_encoder_decoder_embeddings": (True,),
    "tie_word_embeddings": (True,),
    "quantization_config": (None,),
}
MARIAN_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}


def marian_settings(fields):
    """The arguments of `Transformer` for the configuration of a Marian model, with the vocabulary of Marian."""
    for name, allowed in MARIAN_ONLY.items():
        fields.only(name, *allowed)
    width, size = fields.whole("d_model", 2, MAX_WIDTH), fields.whole("vocab_size", 5, MAX_VOCABULARY)
    fields.only("decoder_vocab_size", None, size)
    if width % 2:
        fields.refuse("d_model", "an even number")
    heads = fields.whole("encoder_attention_heads", 1, MAX_HEADS)
    inner = fields.whole("encoder_ffn_dim", 1, MAX_INNER)
    for name, value in (("decoder_attention_heads", heads), ("decoder_ffn_dim", inner)):
        if fields.values.get(name) != value:
            fields.refuse(name, f"{value}, as in the encoder")
    if width % heads:
        fields.refuse("encoder_attention_heads", f"a divisor of the width {width}")
    scaled = fields.values.get("scale_embedding", False)
    fields.only("scale_embedding", False, True)
    return {
        "source_vocabulary_size": size,
        "target_vocabulary_size": size,
        "hidden_dim": width,
        "intermediate_dim": inner,
        "num_heads": heads,
        "num_encoder_layers": fields.whole("encoder_layers", 1, MAX_LAYERS),
        "num_decoder_layers": fields.whole("decoder_layers", 1, MAX_LAYERS),
        "dropout": fields.number("dropout", 0, 0.99, default=0.1),
        "attention_dropout": fields.number("attention_dropout", 0, 0.99, default=0.0),
        "activation": fields.choice("activation_function", MARIAN_ACTIVATIONS, default="gelu"),
        "max_length": fields.whole("max_position_embeddings", 2, MAX_LENGTH),
        # Our model scales embeddings always: without `scale_embedding`, they are smaller than the output's kernel.
        "tie_embeddings": "all" if scaled else "none",
        "output_bias": True,
    }


SETTINGS = {
    "bert": bert_settings,
    "distilbert": distilbert_settings,
    "xlm-roberta": xlm_roberta_settings,
    "gpt2": gpt2_settings,
    "marian": marian_settings,
}


def model_settings(fields):
    """The family, such as "gpt2", and the arguments of our model for a `config.json` of Hugging Face."""
    model_type = fields.choice("model_type", {name: name for name in SETTINGS}, default="bert")
    return model_type, SETTINGS[model_type](fields)


SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_CHARACTERS = 64  # per piece, on average


def read_vocabulary(path, size):
    """Reads the pieces.

    Args:
        path: Path of vocab.txt.
        size: int, vocabulary size of the model.

    Returns:
        List of str.

    Raises:
        UserError: if there are more or fewer than `size` pieces, two are equal, or a special token is missing; [PAD]
            must be the first, because id 0 is padding.
    """
    try:
        with open(path, encoding="utf-8") as file:  # not `splitlines`: a piece may be another line separator
            text = file.read(MAX_CHARACTERS * size + 1).removesuffix("\n")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    received = text.count("\n") + 1
    if received != size or len(text) > MAX_CHARACTERS * size:
        raise UserError(f"{path} has {received} pieces. The configuration has vocab_size {size}")
    pieces = text.split("\n")
    check_pieces(path, pieces, size)
    return pieces


def check_pieces(path, pieces, size):
    """Raises UserError unless there are `size` different pieces, the special ones among them and [PAD] first."""
    if len(pieces) != size:
        raise UserError(f"{path} has {len(pieces)} pieces. The configuration has vocab_size {size}")
    if len(set(pieces)) < size:
        seen = set()
        twice = next(piece for piece in pieces if piece in seen or seen.add(piece))
        raise UserError(f"{path} has the piece {quoted(twice)} twice.")
    for token in SPECIAL_TOKENS:
        if token not in pieces:
            raise UserError(f"{path} lacks the special token {token}.")
    if pieces[0] != "[PAD]":
        raise UserError(f"{path} begins with {quoted(pieces[0])}. Expected [PAD], because id 0 is padding.")


def looks_lowercase(pieces):
    """Whether no piece has a capital letter, except special ones like [CLS]."""
    return not any(piece != piece.lower() for piece in pieces if not (piece.startswith("[") and piece.endswith("]")))
