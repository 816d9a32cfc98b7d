"""Reads Marian translators of Hugging Face, such as those of Helsinki-NLP: settings, search, vocabulary, weights."""

import re

import numpy as np

from keras_attention.convert.marian_weights import MarianTensors
from keras_attention.convert.published_settings import Converted, Fields, marian_settings, read_json
from keras_attention.models import Transformer
from keras_attention.support.errors import UserError, quoted
from keras_attention.tokenizers import MarianTokenizer
from keras_attention.tokenizers.byte_level_tokenizer import pieces_in_order
from keras_attention.tokenizers.special_tokens import SPECIAL_PIECES, START_ID

MAX_BYTES = 32 << 20  # of a vocabulary or a SentencePiece model
ARCHITECTURES = (["MarianMTModel"], None)
START_LOGIT = -1e4  # START is not a token of Marian: with this bias, its probability is 0
PAD, UNKNOWN, START, END = SPECIAL_PIECES
LANGUAGE = re.compile(r"[A-Za-z][A-Za-z0-9 _-]{0,40}")
# An answer has at most this many tokens per source token, and these in addition; Marian itself has only `max_length`.
LENGTH_RATIO, LENGTH_OFFSET = 3.0, 32
MAX_LENGTH = 4096  # of an answer
UNKNOWN_LENGTH = 512  # if the checkpoint names no `max_length`, as in the models of Helsinki-NLP
GENERATION = "generation_config.json"
# Settings of `generate` in transformers that are not applied, with the values at which they change no text.
UNUSED = {
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "penalty_alpha": None,
    "min_length": 0,
    "min_new_tokens": None,
    "max_new_tokens": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
}


def load_marian(folder, fields):
    """Reads the files of a Marian checkpoint; the model has the same logits as in transformers, and the same search.

    The ids are in another order: those of `special_tokens.py` first. START has the vector of the token with which
    Marian starts, usually padding.

    Args:
        folder: Path, with `config.json`, `vocab.json`, `source.spm`, `target.spm`, and `model.safetensors` or
            `tf_model.h5`.
        fields: Fields of `config.json`.

    Returns:
        Converted, with `tokenizers`, `decoding` and `languages`.

    Raises:
        UserError: names the file, field or tensor that is missing, damaged or not supported.
    """
    settings = marian_settings(fields)
    size = settings["target_vocabulary_size"]
    fields.only("architectures", *ARCHITECTURES)
    vocabulary, order = _vocabulary(folder, fields, size)
    tokenizers = {side: _tokenizer(folder / f"{side}.spm", vocabulary) for side in ("source", "target")}
    decoding, notes = _search(folder, fields)
    tensors = MarianTensors(folder, fields, settings)
    model = Transformer(**settings | dict.fromkeys(("source_vocabulary_size", "target_vocabulary_size"), len(order)))
    model.build()
    for weight in model.trainable_weights:
        path = weight.path.removeprefix(f"{model.name}/")
        values = tensors.values(path, order)
        if path == "output_bias":
            values[START_ID] = START_LOGIT
        if not np.isfinite(values).all():
            raise UserError(f"{tensors.path}: the tensor for {path} holds NaN or infinity.")
        weight.assign(np.reshape(values, weight.shape))
    if targets := tokenizers["source"].languages:
        named = f"one of {len(targets)} target languages, such as {targets[0]}"
        notes += (f"Each text must begin with the token of {named}.",)
    texts = {"tokenizers": tokenizers, "decoding": decoding, "languages": _languages(folder), "notes": notes}
    return Converted(model, vocabulary, False, None, "Hugging Face", (), None, **texts)


def _vocabulary(folder, fields, size):
    """The pieces in the order of our ids, and the ids of Marian in this order."""
    path = folder / "vocab.json"
    if not path.is_file():
        raise UserError(f"{folder} lacks vocab.json.")
    pieces = pieces_in_order(read_json(path, MAX_BYTES), path)
    if len(pieces) != size:
        raise UserError(f"{path} has {len(pieces)} pieces. The configuration has vocab_size {size}")
    ids = {name: fields.whole(f"{name}_token_id", 0, size - 1) for name in ("pad", "eos", "decoder_start")}
    for name, piece in (("pad", PAD), ("eos", END)):
        token = pieces[ids[name]]
        if token != piece:
            raise UserError(f"{path}: {name}_token_id {ids[name]} is {quoted(token, 40)}. Supported: {piece}")
    if UNKNOWN not in pieces:
        raise UserError(f"{path} lacks the piece {UNKNOWN}.")
    first = [ids["pad"], pieces.index(UNKNOWN), ids["decoder_start"], ids["eos"]]
    others = [number for number in range(size) if number not in (first[0], first[1], first[3])]
    names = [pieces[number] for number in others]
    while START in names:  # an ordinary piece of Marian with this text, which no SentencePiece model yields
        names[names.index(START)] = _other_name(START, pieces)
    return [*SPECIAL_PIECES, *names], [*first, *others]


def _other_name(piece, pieces):
    while piece in pieces:
        piece += "_"
    return piece


def _tokenizer(path, vocabulary):
    """The MarianTokenizer of a .spm file."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Expected: a SentencePiece model.") from error
    if len(content) > MAX_BYTES:
        raise UserError(f"{path} has more than {MAX_BYTES:,} bytes.")
    try:
        return MarianTokenizer(content, vocabulary)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _search(folder, fields):
    """The settings of the search, see `zoo.decoding_settings`, and notes about settings that are not applied."""
    asked = Fields(folder / GENERATION) if (folder / GENERATION).is_file() else fields
    values = {name: value for name, value in asked.values.items() if value is not None}
    asked = Fields(asked.path, values)
    for name, allowed in {"do_sample": (False,), "early_stopping": (False, True)}.items():
        asked.only(name, *allowed)
    asked.only("forced_bos_token_id", None)
    for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
        asked.only(name, fields.values[name])
    pad = fields.values["pad_token_id"]
    notes = [name for name, usual in UNUSED.items() if values.get(name, usual) != usual]
    if values.get("bad_words_ids", [[pad]]) != [[pad]]:
        notes.append("bad_words_ids")
    positions = fields.whole("max_position_embeddings", 2, MAX_LENGTH)
    longest = asked.whole("max_length", 2, 1_000_000) if "max_length" in values else UNKNOWN_LENGTH
    asked.only("forced_eos_token_id", fields.values["eos_token_id"])
    decoding = {
        "beam_size": asked.whole("num_beams", 1, 64) if "num_beams" in values else 1,
        "length_penalty": asked.number("length_penalty", 0, 10, default=1.0),
        "patience": 1.0 if values.get("early_stopping") else None,
        "ranking": "length",
        "force_end": "forced_eos_token_id" in values,
        "max_length": min(longest - 1, positions, MAX_LENGTH),  # Marian counts the token with which it starts
        "length_ratio": LENGTH_RATIO,
        "length_offset": LENGTH_OFFSET,
        "max_source_length": positions,
    }
    if not notes:
        return decoding, ()
    return decoding, (f"{asked.path.name} of the original also sets {', '.join(notes)}, which is not applied.",)


def _languages(folder):
    """The languages of `tokenizer_config.json`: pair of str, "und" if it does not name them."""
    path = folder / "tokenizer_config.json"
    values = Fields(path).values if path.is_file() else {}
    names = (values.get(f"{side}_lang") for side in ("source", "target"))
    return tuple(name if isinstance(name, str) and LANGUAGE.fullmatch(name) else "und" for name in names)
