"""Texts, images or music for causal language models: a stream of tokens, in windows in the order of (seed, epoch)."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.batches import check_tokens_at_once, random_order
from keras_attention.data.download import named_dataset
from keras_attention.data.files import read_lines
from keras_attention.data.idx_files import read_idx
from keras_attention.data.music.chorales import PieceWindows, TransposedStreams, as_stream, read_chorales, rule_chorales
from keras_attention.data.prose.documents import docstrings, hold_out, read_documents
from keras_attention.support.atomic_files import check_holds_only, whole_folder
from keras_attention.support.errors import UNREADABLE, UserError
from keras_attention.support.flags import setting
from keras_attention.tokenizers import CharacterTokenizer, NoteTokenizer, SentencePieceTokenizer, load_tokenizer
from keras_attention.tokenizers.special_tokens import PAD_ID

STREAMS = "streams.npz"
LINE_BREAK = "␤"  # stands for a line break in vocabularies, which have no control characters
SMOKE_FILES, SMOKE_TEXTS, SMOKE_CHARACTERS = 20, 100, 20_000
RULE_PIECES = 240
SHOWN = 8  # images that a trained model completes


@dataclass(frozen=True)
class StreamSettings:
    """Base class for the `Config` of a recipe: the texts, and how to split them into windows."""

    data: str = setting(
        "",
        "shakespeare: download the plays; pixels: images of the IDX file --text; music: pieces in four voices, from "
        "the files of --text or made by rules; default: the files of --text",
        ("", "shakespeare", "pixels", "music"),
    )
    text: tuple[str, ...] = setting((), "text files; default: the docstrings of the Python standard library")
    validation: tuple[str, ...] = setting((), "text files for validation; default: a share of the texts")
    lines: bool = setting(False, "keep line breaks: all files are one text, and its end is held out for validation")
    validation_split: float = setting(
        0.05, "share of the texts, or of the one text, for validation", aliases=("validation_share",)
    )
    language: str = setting("en", "code of the language, for the card")
    level: str = setting("bpe", "bpe: pieces of words; char: characters", ("bpe", "char"))
    vocabulary_size: int = setting(4000, "number of pieces in the vocabulary; with --level char, the maximum")
    max_tokens: int = setting(128, "tokens of a window (the context)")
    rows_per_batch: int = setting(32, "windows per update")
    encode_to: str = setting("", "only write the encoded texts to this path, for a machine without TensorFlow")
    encoded: str = setting("", "train on texts encoded with --encode-to, and write only the weights")

    @property
    def file_names(self):
        """The names of the files without their folders, a dict."""
        return {name: [Path(path).name for path in getattr(self, name)] for name in ("text", "validation")}


class TokenStream(NamedTuple):
    """The tokens of all texts, one text after the other.

    Attributes:
        tokenizer: CharacterTokenizer, SentencePieceTokenizer or NoteTokenizer.
        train, validation: int32 (N,). END is before, between and after documents or pieces of music, and before each
            image; a text with line breaks has none.
        words: int, number of words in the validation texts, of validation images, or of time steps of music.
        lines: bool, whether line breaks were kept.
        images: list of str, some validation images as strings of `PIXELS`; [] for texts.
        pixels: int, number of pixels of an image, which is one window; 0 for texts.
    """

    tokenizer: CharacterTokenizer | SentencePieceTokenizer | NoteTokenizer
    train: np.ndarray
    validation: np.ndarray
    words: int
    lines: bool
    images: list = []
    pixels: int = 0

    def __str__(self):
        return f"{len(self.train):,} tokens"

    @property
    def is_music(self):
        """bool. Whether the tokens are notes."""
        return isinstance(self.tokenizer, NoteTokenizer)

    @property
    def pipeline_options(self):
        """The arguments of a TextGenerator that depend on how the texts were read."""
        return {"line_break": LINE_BREAK, "begins_with": "line_break"} if self.lines else {}

    def batches(self, config):
        """Returns the training batches (`WindowBatches`) and the batches of all validation tokens (`Windows`)."""
        check_tokens_at_once(config.rows_per_batch, config.max_tokens, config.accumulate)
        sizes, whole = (config.max_tokens, config.rows_per_batch), self.pixels > 0
        if self.is_music:
            return MusicBatches(self.train, self.tokenizer, *sizes, config.seed), PieceWindows(self.validation, *sizes)
        training = WindowBatches(self.train, *sizes, config.seed, whole)
        return training, Windows.all(self.validation, *sizes, whole)

    def scores(self, measured):
        """The scores for a card, from "loss" (nats per token) and "accuracy" on the validation texts."""
        scores = {"loss per token": measured["loss"], "accuracy": measured["accuracy"]}
        if self.is_music:
            labels = len(self.validation) - 1  # all notes, and the END of each piece
            return scores | {"nats per time step": measured["loss"] * labels / max(1, self.words)}
        if self.pixels:
            return scores | {"nats per image": measured["loss"] * self.pixels}
        return scores | {"perplexity per word": self.perplexity_per_word(measured["loss"])}

    def perplexity_per_word(self, loss):
        """The perplexity of the validation texts, from their loss in nats per token; at most exp(100)."""
        return math.exp(min(100.0, loss * (len(self.validation) - 1) / max(1, self.words)))

    def save(self, folder):
        """Writes the vocabulary and both streams, and replaces an earlier folder of such files."""
        known = (STREAMS, *CharacterTokenizer.files, *SentencePieceTokenizer.files, *NoteTokenizer.files)
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(folder, partial(check_holds_only, names=known)) as new:
            self.tokenizer.save(new)
            facts = {"words": self.words, "lines": self.lines, "pixels": self.pixels}
            np.savez_compressed(new / STREAMS, train=self.train, validation=self.validation, **facts)


def load_stream(config, tokenizer=None):
    """Reads and encodes texts, or loads a folder of `TokenStream.save`.

    Args:
        config: StreamSettings and RunSettings; with `smoke`, only a little text is used.
        tokenizer: a tokenizer, or None to learn one from the texts.

    Returns:
        TokenStream.

    Raises:
        UserError: if a file is missing or holds something else.
    """
    if config.encoded:
        return _read_stream(Path(config.encoded))
    if config.data == "pixels":
        return _pixel_stream(config)
    if config.data == "music":
        return _music_stream(config, tokenizer)
    if isinstance(tokenizer, NoteTokenizer):
        raise UserError("--from is a model of music. Expected: --data music, or a model of texts.")
    paths = [named_dataset(config.data) / "input.txt"] if config.data else config.text
    if config.lines:
        train, validation = _whole_text(paths, config)
    else:
        few, most = (SMOKE_FILES, SMOKE_TEXTS) if config.smoke else (None, None)
        texts = (read_documents(paths) if paths else docstrings(most_files=few))[:most]
        if config.validation:
            train, validation = texts, read_documents(config.validation)[:most]
        else:
            train, validation = hold_out(texts, config.validation_split)
    if tokenizer is None:
        kind = CharacterTokenizer if config.level == "char" else SentencePieceTokenizer
        parts = [line for text in train for line in text.split(LINE_BREAK)]  # short texts, one per line
        tokenizer = kind.train([*parts, LINE_BREAK] if config.lines else parts, config.vocabulary_size)
    streams = [_joined(tokenizer, texts, config.lines) for texts in (train, validation)]
    if min(map(len, streams)) < 2:
        raise UserError(
            "There is too little text to hold out a part for validation. Expected: some thousand characters."
        )
    words = sum(len(text.replace(LINE_BREAK, " ").split()) for text in validation)
    return TokenStream(tokenizer, *streams, words, config.lines)


def _whole_text(paths, config):
    """Joins all files into one text with line breaks; returns [its beginning] and [its end]."""
    if not paths:
        raise UserError("--lines is for the files of --text or for --data. Received: neither")
    if config.validation:
        raise UserError("--validation is for documents; with --lines, set --validation-split. Received: both")
    text = "".join(f"{line}{LINE_BREAK}" for path in paths for line in read_lines(path))
    text = text[:SMOKE_CHARACTERS] if config.smoke else text
    middle = len(text) - int(len(text) * config.validation_split)
    return [text[:middle]], [text[middle:]]


def _pixel_stream(config):
    """Images as a stream: END, then the pixels of an image, END, the pixels of the next ..."""
    images = read_images(config.text)[: SMOKE_TEXTS if config.smoke else None]
    pixels = images[0].size
    if config.max_tokens != pixels:
        raise UserError(f"Images of --data pixels have {pixels} tokens. Received: --max-tokens {config.max_tokens}")
    tokenizer = CharacterTokenizer(PIXELS)
    middle = len(images) - int(len(images) * config.validation_split)
    begin, ids = tokenizer.end_id, tokenizer.encode([PIXELS])[0]
    streams = [image_tokens(part, begin, ids) for part in (images[:middle], images[middle:])]
    return TokenStream(tokenizer, *streams, len(images) - middle, False, image_texts(images[middle:][:SHOWN]), pixels)


def _music_stream(config, tokenizer=None):
    """Pieces of music as a stream; without files, pieces made by rules."""
    pieces = read_chorales(config.text) if config.text else rule_chorales(RULE_PIECES, config.seed)
    pieces = pieces[: SMOKE_TEXTS if config.smoke else None]
    if config.validation:
        train, validation = pieces, read_chorales(config.validation)[: SMOKE_TEXTS if config.smoke else None]
    else:
        train, validation = hold_out(pieces, config.validation_split)
    if not train:
        raise UserError(f"There is {len(pieces)} piece. Expected: two or more, or a file for --validation.")
    tokenizer = tokenizer or NoteTokenizer.train(train)
    if not isinstance(tokenizer, NoteTokenizer):
        raise UserError(f"--from is a model of texts. Expected: a model of music. Found: {tokenizer.kind} as tokens")
    streams = [as_stream(part, tokenizer) for part in (train, validation)]
    return TokenStream(tokenizer, *streams, sum(map(len, validation)), False)


def _joined(tokenizer, texts, lines):
    encoded = tokenizer.encode(texts)
    if lines:
        return encoded[0]
    end = np.array([tokenizer.end_id], np.int32)
    return np.concatenate([end, *(part for ids in encoded if len(ids) for part in (ids, end))])


def _read_stream(folder):
    try:
        with np.load(folder / STREAMS, allow_pickle=False) as file:
            streams = [file[name].astype("int32") for name in ("train", "validation")]
            words, lines, pixels = int(file["words"]), bool(file["lines"]), int(file["pixels"])
    except UNREADABLE as error:
        raise UserError(f"{folder / STREAMS}: no encoded text ({error}). Expected: a folder by --encode-to.") from error
    return TokenStream(load_tokenizer(folder), *streams, words, lines, pixels=pixels)


class WindowBatches:
    """Windows of a stream: T tokens, and as labels the token after each; a pure function of (seed, epoch).

    Each epoch starts at a different offset, so its windows differ from those of the epoch before. Tokens that do not
    fill a batch (less than a batch and a window) are left out.

    Args:
        stream: int32 array (N,).
        max_tokens: int > 0 (T).
        rows_per_batch: int > 0 (B).
        seed: int >= 0.
        whole: bool. Whether the stream consists of texts of T + 1 tokens, each of which is one window.

    Raises:
        UserError: if the stream does not fill a batch.
    """

    def __init__(self, stream, max_tokens, rows_per_batch, seed=0, whole=False):
        for name, value in (("max_tokens", max_tokens), ("rows_per_batch", rows_per_batch)):
            if value < 1:
                raise ValueError(f"`{name}` must be positive. Received: {name}={value}")
        needed = max_tokens * (rows_per_batch + 1)
        if len(stream) < needed:
            raise UserError(
                f"The texts have {len(stream):,} tokens to train on. Expected: {needed:,} for a batch of "
                f"{rows_per_batch} windows of {max_tokens}. Give more text or a smaller --rows-per-batch."
            )
        self.stream, self.max_tokens, self.rows_per_batch, self.seed = stream, max_tokens, rows_per_batch, seed
        self.whole = whole

    def epoch(self, epoch):
        """Returns the batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of int32 arrays (B, T)."""
        generator = np.random.PCG64([self.seed, epoch])
        first = 0 if self.whole else int(generator.random_raw() % self.max_tokens)
        starts = np.arange(first, len(self.stream) - self.max_tokens, self.max_tokens + self.whole)
        starts = starts[random_order(generator, len(starts))]
        whole = len(starts) // self.rows_per_batch * self.rows_per_batch
        return Windows(self.stream, starts[:whole].reshape(-1, self.rows_per_batch), self.max_tokens)


class MusicBatches:
    """Windows of pieces in random order and random keys; a pure function of (seed, epoch).

    Args:
        stream: int32 array (N,), see `chorales.as_stream`.
        tokenizer: NoteTokenizer.
        max_tokens, rows_per_batch, seed: see `WindowBatches`.

    Raises:
        UserError: if the stream does not fill a batch.
    """

    def __init__(self, stream, tokenizer, max_tokens, rows_per_batch, seed=0):
        WindowBatches(stream, max_tokens, rows_per_batch)  # checks the sizes
        self.streams, self.sizes = TransposedStreams(stream, tokenizer, seed), (max_tokens, rows_per_batch, seed)

    def epoch(self, epoch):
        """Returns the batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of int32 arrays (B, T)."""
        return WindowBatches(self.streams.epoch(epoch), *self.sizes).epoch(epoch)


class Windows:
    """Batches of the windows at `starts` (batches, B): `len()` and `[i]`; padding follows the end of the stream."""

    def __init__(self, stream, starts, max_tokens):
        self.stream, self.starts, self.max_tokens = stream, starts, max_tokens

    @classmethod
    def all(cls, stream, max_tokens, rows_per_batch, whole=False):
        """Every token but the first is a label of one window; `whole`: as in `WindowBatches`."""
        starts = np.arange(0, len(stream) - 1, max_tokens + whole)
        empty = np.full(-len(starts) % rows_per_batch, len(stream))
        return cls(stream, np.concatenate([starts, empty]).reshape(-1, rows_per_batch), max_tokens)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, index):
        places = self.starts[index][:, None] + np.arange(self.max_tokens + 1)  # (B, T + 1)
        last = len(self.stream) - 1
        ids = np.where(places <= last, self.stream[np.minimum(places, last)], np.int32(PAD_ID))
        labels = ids[:, 1:]
        return {"token_ids": np.where(labels == PAD_ID, PAD_ID, ids[:, :-1]).astype("int32"), "labels": labels}


PIXELS = "01"  # the characters of a dark and a bright pixel
BRIGHT = 128  # minimum grey level of a bright pixel


def read_images(paths, side=28):
    """Reads the grey levels of images.

    Args:
        paths: list of str or Path of IDX files, plain or compressed by gzip.
        side: int, the width and height that the images must have.

    Returns:
        uint8 array (N, `side`, `side`).

    Raises:
        UserError: if there is no file, or a file holds no such images.
    """
    if not paths:
        raise UserError("--data pixels needs an IDX file of images: --text train-images-idx3-ubyte.gz. Received: none")
    return np.concatenate([read_idx(path, 3, (side, side)) for path in paths])


def image_tokens(images, begin_id, pixel_ids):
    """Returns the token ids of all images, one after the other.

    Args:
        images: uint8 array (N, height, width).
        begin_id: int, the token before each image.
        pixel_ids: the two int that stand for a dark and a bright pixel.

    Returns:
        int32 (N (1 + height width),).
    """
    bright = (images >= BRIGHT).reshape(len(images), -1)
    tokens = np.asarray(pixel_ids, np.int32)[bright.astype(int)]
    return np.pad(tokens, ((0, 0), (1, 0)), constant_values=begin_id).ravel()


def image_texts(images):
    """Returns each image as a str of `PIXELS`, row after row."""
    return ["".join(PIXELS[int(bright)] for bright in (image >= BRIGHT).ravel()) for image in images]
