"""The unigram tokenizer of a multilingual checkpoint of Hugging Face, as XLM-R and the encoders after it have it.

A checkpoint may have the pieces in `sentencepiece.bpe.model`, in `tokenizer.json`, or in both: these must then agree.
"""

import base64
from typing import NamedTuple

import numpy as np

from keras_attention.convert import wordpiece_files
from keras_attention.convert.published_settings import Fields, read_json
from keras_attention.support.errors import UserError
from keras_attention.tokenizers import UnigramTokenizer
from keras_attention.tokenizers.unigram_tokenizer import model_format

MODEL = "sentencepiece.bpe.model"
MAX_MODEL_BYTES = 32 << 20
CLASSES = ("XLMRobertaTokenizer", "XLMRobertaTokenizerFast")
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")  # do what tokenizer.json says, and nothing else
START, PAD, END, UNKNOWN, MASK = "<s>", "<pad>", "</s>", "<unk>", "<mask>"
SPECIALS = (START, PAD, END, UNKNOWN, MASK)
BLANK = "\N{LOWER ONE EIGHTH BLOCK}"  # in pieces
FIRST = [START, PAD, END, UNKNOWN]  # the ids 0 to 3 of such a checkpoint
ROWS = [1, 3, 0, 2]  # and where our ids 0 to 3 stand among them
ROLES = {"pad_token": PAD, "unk_token": UNKNOWN, "cls_token": START, "bos_token": START}
ROLES |= {"sep_token": END, "eos_token": END, "mask_token": MASK}


class Pieces(NamedTuple):
    """The ordinary pieces of a checkpoint.

    Attributes:
        texts: list of str.
        scores: array of float32, the log probability of each.
        charsmap: bytes, the compiled normalisation.
    """

    texts: list
    scores: np.ndarray
    charsmap: bytes


class UnigramFiles(NamedTuple):
    """What the files of a tokenizer say.

    Attributes:
        tokenizer: UnigramTokenizer.
        rows: int array (its vocabulary size,), the checkpoint's id of each of its pieces.
        max_length: int, the limit of a text in tokens, or None.
    """

    tokenizer: UnigramTokenizer
    rows: np.ndarray
    max_length: int | None


def is_unigram(folder):
    """Whether a checkpoint's folder has the tokenizer of XLM-R."""
    if (folder / MODEL).is_file():
        return True
    path = folder / wordpiece_files.TOKENIZER
    if not path.is_file():
        return False
    model = read_json(path, wordpiece_files.MAX_TOKENIZER_BYTES).get("model")
    return isinstance(model, dict) and model.get("type") == "Unigram"


def read_unigram(folder, size):
    """Reads the files of a tokenizer.

    Args:
        folder: Path, with `sentencepiece.bpe.model` or `tokenizer.json`.
        size: int, vocabulary size of the model, which may have unused rows behind those of the pieces.

    Returns:
        UnigramFiles.

    Raises:
        UserError: if a file is missing or damaged, requires another tokenizer, or contradicts another.
    """
    pieces = None
    if (folder / MODEL).is_file():
        pieces = _read_model(folder / MODEL, size)
    path = folder / wordpiece_files.TOKENIZER
    if path.is_file():
        its_pieces = _read_tokenizer_json(path, size)
        if pieces is not None and (
            pieces.texts != its_pieces.texts or not np.allclose(pieces.scores, its_pieces.scores)
        ):
            raise UserError(f"{path} has other pieces than {MODEL}. Remove the wrong file.")
        if pieces is not None and pieces.charsmap != its_pieces.charsmap:
            raise UserError(f"{path} normalises texts otherwise than {MODEL}. Remove the wrong file.")
        pieces = pieces or its_pieces
    if pieces is None:
        raise UserError(f"{folder} has neither {MODEL} nor {path.name}.")
    special = next((piece for piece in pieces.texts if piece in SPECIALS), None)
    if special is not None:
        raise UserError(f"{folder} has the special piece {special} among the ordinary ones.")
    max_length = None
    for name in (wordpiece_files.SETTINGS, wordpiece_files.SPECIAL):
        if (folder / name).is_file():
            fields = Fields(folder / name)
            fields.only("tokenizer_class", *CLASSES, *(GENERIC if path.is_file() else ()), None)
            wordpiece_files.check_special(fields, ROLES)
            for side in ("padding_side", "truncation_side"):
                fields.only(side, None, "right")
            max_length = max_length or wordpiece_files.max_length_of(fields)
    if (folder / wordpiece_files.ADDED).is_file():
        wordpiece_files.check_added(folder / wordpiece_files.ADDED, read_json(folder / wordpiece_files.ADDED), SPECIALS)
    try:
        tokenizer = UnigramTokenizer.from_pieces(pieces.texts, pieces.scores.tolist(), pieces.charsmap)
    except UserError as error:
        raise UserError(f"{folder}: {error}") from error
    return UnigramFiles(tokenizer, np.array([*ROWS, *range(len(FIRST), tokenizer.vocabulary_size)]), max_length)


def _check_count(path, count, size):
    """Raises UserError if a checkpoint has more pieces, special ones included, than rows."""
    if count > size:
        raise UserError(f"{path} has {count} pieces. The configuration has vocab_size {size}")


def _read_model(path, size):
    from google.protobuf.message import DecodeError

    try:
        with open(path, "rb") as file:
            content = file.read(MAX_MODEL_BYTES + 1)
        if len(content) > MAX_MODEL_BYTES:
            raise UserError(f"{path} has more than {MAX_MODEL_BYTES:,} bytes, the most that is supported.")
        model = model_format().FromString(content)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except DecodeError as error:
        raise UserError(f"{path} is not a SentencePiece model.") from error
    kinds = model.SentencePiece
    _check_count(path, len(model.pieces) + 2, size)  # here, because to look at millions of them takes a minute
    first, rest = model.pieces[:3], model.pieces[3:]
    is_sound = [piece.piece for piece in first] == [UNKNOWN, START, END] and model.trainer_spec.model_type == 1
    if not is_sound or any(piece.type != kinds.NORMAL for piece in rest):
        raise UserError(
            f"{path}: supported are unigram models whose first pieces are {UNKNOWN}, {START} and {END}, "
            "without pieces of the user's own and without bytes."
        )
    rules = model.normalizer_spec
    blanks = rules.add_dummy_prefix and rules.remove_extra_whitespaces and rules.escape_whitespaces
    if not blanks or model.trainer_spec.treat_whitespace_as_suffix:
        raise UserError(f"{path}: supported are models that begin a text with a blank, and join blanks.")
    scores = np.array([piece.score for piece in rest], np.float32)
    return Pieces([piece.piece for piece in rest], scores, rules.precompiled_charsmap)


def _read_tokenizer_json(path, size):
    fields = Fields(path, read_json(path, wordpiece_files.MAX_TOKENIZER_BYTES))
    model = fields.inside("model")
    model.choice("type", {"Unigram": "Unigram"})
    model.only("unk_id", FIRST.index(UNKNOWN))
    model.only("byte_fallback", None, False)
    pairs = model.values.get("vocab")
    is_sound = isinstance(pairs, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and type(pair[1]) in (int, float)
        for pair in pairs
    )
    texts = [pair[0] for pair in pairs] if is_sound else []
    if texts[: len(FIRST)] != FIRST:
        model.refuse("vocab", f"pairs of a piece and its log probability, the first ones {', '.join(FIRST)}")
    if texts[-1] == MASK:
        pairs, texts = pairs[:-1], texts[:-1]
    _check_count(path, len(texts) + 1, size)
    with np.errstate(over="ignore"):  # too large a number becomes infinite
        scores = np.array([pair[1] for pair in pairs[len(FIRST) :]], np.float32)
    if not np.isfinite(scores).all():
        model.refuse("vocab", "finite log probabilities")
    wordpiece_files.check_added(path, fields.values.get("added_tokens"), SPECIALS)
    _check_blanks(fields)
    if fields.values.get("post_processor") is not None:
        kinds = ("TemplateProcessing", "RobertaProcessing")
        wordpiece_files.check_frame(fields.inside("post_processor"), kinds, START, END)
    return Pieces(texts[len(FIRST) :], scores, _charsmap(fields))


def _charsmap(fields):
    """The compiled normalisation of a `tokenizer.json`."""
    steps = _steps(fields, "normalizer", "normalizers")
    compiled = [step for step in steps if step.get("type") == "Precompiled"]
    others = [step for step in steps if step.get("type") != "Precompiled"]
    joins = [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": blank} for blank in (" ", BLANK)]
    if len(compiled) > 1 or any(
        step not in (*joins, {"type": "Strip", "strip_left": False, "strip_right": True}) for step in others
    ):
        fields.refuse("normalizer", "a compiled normalisation of SentencePiece")
    try:
        return base64.b64decode(compiled[0]["precompiled_charsmap"], validate=True) if compiled else b""
    except (KeyError, TypeError, ValueError):
        fields.refuse("normalizer", "a compiled normalisation of SentencePiece in base64")


def _check_blanks(fields):
    """Raises UserError unless a "▁" takes the place of blanks, and stands before a text."""
    steps = [Fields(fields.path, step) for step in _steps(fields, "pre_tokenizer", "pretokenizers")]
    kinds = [step.choice("type", {name: name for name in ("WhitespaceSplit", "Metaspace")}) for step in steps]
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        fields.refuse("pre_tokenizer", "Metaspace, alone or after WhitespaceSplit")
    steps[-1].only("replacement", BLANK)
    steps[-1].only("add_prefix_space", True)
    steps[-1].only("prepend_scheme", "always")


def _steps(fields, name, of_sequence):
    """The steps of a field that is null, one step, or a Sequence of some: a list of dicts."""
    value = fields.values.get(name)
    if value is None:
        return []
    steps = value.get(of_sequence) if isinstance(value, dict) and value.get("type") == "Sequence" else [value]
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        fields.refuse(name, "null, a step, or a sequence of steps")
    return steps
