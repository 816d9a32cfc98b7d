"""Texts for a masked language model: settings, sequences encoded and stored once, and batches with masked tokens."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.batches import check_tokens_at_once
from keras_attention.data.prose.documents import PackedSequences, docstrings, encode_documents, hold_out, read_documents
from keras_attention.data.proteins.protein_files import read_proteins, rule_proteins
from keras_attention.data.proteins.similarity_split import split_by_similarity
from keras_attention.support.atomic_files import check_holds_only, whole_folder
from keras_attention.support.errors import UNREADABLE, UserError, counted
from keras_attention.support.flags import setting
from keras_attention.tokenizers import AminoAcidTokenizer, WordPieceTokenizer, load_tokenizer

MaskedTokenizer = AminoAcidTokenizer | WordPieceTokenizer
PROTEIN = "protein"
ROWS = "rows.npz"
SETS, OPTIONAL_SET = ("train", "validation", "test"), "test"
PAIRS = ("segment_ids", "is_next")  # arrays of sequences with two texts
SMOKE_FILES, SMOKE_DOCUMENTS = 20, 100
RULE_PROTEINS = 900
LEAST_RESIDUES = 200  # of a part of the proteins; with fewer, scores say nothing, and some amino acids are never hidden


@dataclass(frozen=True)
class ProseSettings:
    """Base class for the `Config` of a recipe: texts, masks, and storage of the model."""

    alphabet: str = setting("text", "text: words; protein: amino acids, from FASTA files in --text", ("text", PROTEIN))
    text: tuple[str, ...] = setting((), "text files; default: the docstrings of the Python standard library")
    validation: tuple[str, ...] = setting((), "text files for validation; default: a share of the documents")
    validation_split: float = setting(
        0.02, "share of the documents for validation, without --validation", aliases=("validation_share",)
    )
    language: str = setting("en", "code of the language, for the card")
    vocabulary_size: int = setting(8000, "vocabulary size, including special tokens")
    lowercase: bool = setting(True, "convert to lower case and remove accents")
    max_tokens: int = setting(128, "tokens per sequence; short texts are packed into one sequence")
    mask_rate: float = setting(0.15, "share of the tokens to predict")
    whole_words: bool = setting(False, "mask all tokens of a word together")
    next_sentence: bool = setting(False, "also predict whether the second text of a sequence follows the first")
    rows_per_batch: int = setting(64, "sequences per update")
    parts: int = setting(1, "number of parts of a pass over the texts, with a validation after each")
    half_precision: bool = setting(True, "store the weights in float16")
    encode_to: str = setting("", "only write the encoded texts to this folder, for a machine without TensorFlow")
    encoded: str = setting("", "train on texts encoded with --encode-to, and write only the weights")
    start_from: str = setting("", "start from this trained model, with its settings and vocabulary", name="from")

    @property
    def file_names(self):
        """The names of the files without their folders, a dict."""
        return {name: [Path(path).name for path in getattr(self, name)] for name in ("text", "validation")}


class Prose(NamedTuple):
    """A tokenizer, and PackedSequences to train and to validate with; of proteins, also those of the test."""

    tokenizer: MaskedTokenizer
    sequences: PackedSequences
    validation_sequences: PackedSequences
    test_sequences: PackedSequences | None = None

    def __str__(self):
        return f"{len(self.sequences):,} sequences"

    def batches(self, config):
        """The MaskedLMBatches to train on, by ProseSettings."""
        check_tokens_at_once(config.rows_per_batch, config.max_tokens, config.accumulate)
        return self._batches(self.sequences, config, seed=config.seed, parts=config.parts)

    def validation_batches(self, config):
        """The batches to validate with: the same masks each time."""
        return self._batches(self.validation_sequences, config, seed=0).epoch(0)

    def _batches(self, sequences, config, **options):
        masking = {name: getattr(config, name) for name in ("rows_per_batch", "mask_rate", "whole_words")}
        return MaskedLMBatches(sequences, self.tokenizer, **masking, **options)

    def save(self, folder):
        """See `save_encoded_prose`."""
        save_encoded_prose(folder, *self)


def load_prose(config, tokenizer=None):
    """Reads and encodes texts, or loads the files that `Prose.save` wrote.

    Args:
        config: ProseSettings and RunSettings; with `smoke`, only a few texts are used.
        tokenizer: WordPieceTokenizer, or None to train one on the texts. Proteins have one of their own.

    Returns:
        Prose.

    Raises:
        UserError: if a file is missing or holds something else.
    """
    encoded = Prose(*load_encoded_prose(config.encoded)) if config.encoded else None
    for flag, given in (("--encoded", encoded and encoded.tokenizer), ("--from", tokenizer)):
        if given and (given.kind == AminoAcidTokenizer.kind) != (config.alphabet == PROTEIN):
            raise UserError(f"{flag} has another --alphabet than {config.alphabet}: its tokenizer is {given.kind}.")
    if encoded:
        return encoded
    if config.alphabet == PROTEIN:
        return _load_proteins(config)
    few, most = (SMOKE_FILES, SMOKE_DOCUMENTS) if config.smoke else (None, None)
    documents = (read_documents(config.text) if config.text else docstrings(most_files=few))[:most]
    given = (documents, read_documents(config.validation)) if config.validation else None
    documents, held_out = given or hold_out(documents, config.validation_split)
    tokenizer = tokenizer or WordPieceTokenizer.train(documents, config.vocabulary_size, config.lowercase)
    options = tokenizer, config.max_tokens, config.next_sentence, config.seed
    return Prose(tokenizer, *(encode_documents(texts, *options) for texts in (documents, held_out)))


def _load_proteins(config):
    if config.validation or config.next_sentence:
        raise UserError("--alphabet protein splits --text by similarity: leave out --validation and --next-sentence.")
    if not 0 < config.validation_split < 0.5:
        raise UserError(
            f"--validation-split must be between 0 and 0.5, as the test is as large. Found: {config.validation_split}"
        )
    proteins = read_proteins(config.text) if config.text else rule_proteins(RULE_PROTEINS)
    residues = [protein.residues for protein in proteins]
    parts = split_by_similarity(residues, [config.validation_split] * 2)  # the test is as large as the validation
    tokenizer = AminoAcidTokenizer()
    for name, part in zip(SETS, parts, strict=True):
        known = sum(int(np.isin(ids, tokenizer.amino_acid_ids).sum()) for ids in tokenizer.encode(part))
        if known < LEAST_RESIDUES:
            raise UserError(
                f"The {name} part has {counted(known, 'known amino acid')} of {counted(len(part), 'protein')}. "
                f"Expected: {LEAST_RESIDUES:,} or more; give more proteins with --text, or another --validation-split."
            )
    return Prose(tokenizer, *(encode_documents(part, tokenizer, config.max_tokens) for part in parts))


def save_encoded_prose(folder, tokenizer, sequences, validation_sequences, test_sequences=None):
    """Writes the vocabulary and all sets of sequences, in about two bytes per token before compression.

    Args:
        folder: str or Path; an earlier one is replaced.
        tokenizer: WordPieceTokenizer or AminoAcidTokenizer.
        sequences, validation_sequences, test_sequences: PackedSequences, the last one perhaps None.

    Raises:
        UserError: if the folder holds anything else.
    """
    small = tokenizer.vocabulary_size <= np.iinfo("uint16").max
    arrays = {}
    for name, packed in zip(SETS, (sequences, validation_sequences, test_sequences), strict=True):
        if packed is None:
            continue
        arrays[f"{name}.token_ids"] = packed.token_ids.astype("uint16" if small else "int32")
        arrays[f"{name}.block_ids"] = packed.block_ids.astype("uint16")
        pairs = {part: getattr(packed, part) for part in PAIRS}
        arrays |= {f"{name}.{part}": values.astype("uint8") for part, values in pairs.items() if values is not None}
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(folder, partial(check_holds_only, names=(ROWS, *tokenizer.files))) as new:
        tokenizer.save(new)
        np.savez_compressed(new / ROWS, **arrays)


def load_encoded_prose(folder):
    """Reads a folder written by `save_encoded_prose`; does not need TensorFlow.

    Returns:
        Tokenizer and PackedSequences to train, to validate and, if there are some, to test with.

    Raises:
        UserError: if a file is missing or holds something else.
    """
    path = Path(folder) / ROWS
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = [
                {
                    part: file[f"{name}.{part}"].astype("int32")
                    for part in ("token_ids", "block_ids", *PAIRS)
                    if part not in PAIRS or f"{name}.{part}" in file
                }
                for name in SETS
                if name != OPTIONAL_SET or f"{name}.token_ids" in file
            ]
    except UNREADABLE as error:
        raise UserError(f"{path}: no encoded prose ({error}). Expected: a folder written with --encode-to.") from error
    tokenizer = load_tokenizer(folder)
    if not isinstance(tokenizer, MaskedTokenizer):
        raise UserError(
            f"{folder}: a {tokenizer.kind} tokenizer has no masks. Expected: a folder written with --encode-to."
        )
    return tokenizer, *(PackedSequences(**given, position_ids=_positions(given["block_ids"])) for given in parts)


def _positions(block_ids):
    """Positions int32 (N, T) that begin at 0 in each block of a sequence, and are 0 in padding."""
    columns = np.arange(block_ids.shape[1])
    begins = np.diff(block_ids, axis=1, prepend=0) != 0  # (N, T)
    first = np.maximum.accumulate(np.where(begins, columns, 0), axis=1)
    return np.where(block_ids, columns - first, 0).astype("int32")


FILLER = -1  # the number of a padding sequence
NO_CLASS = -1  # next-sentence label of a padding sequence
MASKED, RANDOM = 0.8, 0.1  # shares of the chosen positions; the rest stay as they are


class Masking:
    """Chooses the tokens to predict, and hides them.

    A share `mask_rate` of a sequence's tokens, without special tokens, is chosen. Of these, 80 % become [MASK], 10 %
    a random token that is not special, and 10 % stay unchanged.

    Args:
        tokenizer, mask_rate, whole_words, always: see `MaskedLMBatches`.

    Raises:
        ValueError: if `mask_rate` is out of range.
    """

    def __init__(self, tokenizer, mask_rate: float = 0.15, whole_words: bool = False, always: bool = False):
        if not 0.0 < mask_rate < 1.0:
            raise ValueError(f"`mask_rate` must be in (0, 1). Received: mask_rate={mask_rate}")
        self.mask_rate = mask_rate
        self.whole_words = whole_words
        self.always = always
        self.mask_id = tokenizer.mask_id
        self.is_continuation = tokenizer.is_continuation
        self.is_special = np.zeros(len(self.is_continuation), bool)
        names = ("pad_id", "unknown_id", "start_id", "end_id", "mask_id")
        self.is_special[[getattr(tokenizer, name) for name in names]] = True

    def most(self, length: int) -> int:
        """The maximum number of chosen tokens in a sequence of this length, which has a START and an END."""
        return math.ceil(self.mask_rate * (length - 2))

    def choose(self, token_ids, generator, allowed=True):
        """Returns bool (B, T), the positions to predict; `allowed` is a bool array of the same shape, or True."""
        candidates = ~self.is_special[token_ids] & allowed  # (B, T)
        wanted = self.mask_rate * candidates.sum(axis=1) + _uniform(generator, len(token_ids))
        counts = np.minimum(wanted.astype(np.int64), self.most(token_ids.shape[1]))  # (B,)
        keys = generator.random_raw(token_ids.size).reshape(token_ids.shape)
        if not self.whole_words:
            return _smallest(keys, candidates, counts)
        inside = candidates & self.is_continuation[token_ids]
        inside[:, 0] = False
        inside[:, 1:] &= candidates[:, :-1]
        return _whole_words(keys, candidates, candidates & ~inside, counts)

    def hide(self, token_ids, chosen, generator):
        """Replaces the chosen tokens (B, T), most of them by [MASK]."""
        hidden = token_ids.copy()
        pieces = token_ids[chosen]  # (chosen,)
        others = np.flatnonzero(~self.is_special).astype(np.int32)
        share = _uniform(generator, len(pieces)) * (not self.always)
        drawn = others[(_uniform(generator, len(pieces)) * len(others)).astype(np.int64)]
        replaced = np.where(share < MASKED + RANDOM, drawn, pieces)
        hidden[chosen] = np.where(share < MASKED, np.int32(self.mask_id), replaced)
        return hidden

    def listed(self, chosen, token_ids):
        """Returns the chosen positions and their tokens, both int32 (B, P), padded with 0."""
        rows, columns = np.nonzero(chosen)
        counts = chosen.sum(axis=1)
        places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions, labels = np.zeros((2, len(chosen), self.most(chosen.shape[1])), np.int32)
        positions[rows, places] = columns
        labels[rows, places] = token_ids[rows, columns]
        return positions, labels


class MaskedLMBatches:
    """Batches of packed sequences with masked tokens as labels.

    Tokens are chosen and hidden as in `Masking`. Masks differ between epochs, but an epoch always has the same ones, so
    validation uses epoch 0.

    Shapes: B sequences, T positions, P masked positions, the maximum per sequence.

    Args:
        sequences: PackedSequences.
        tokenizer: WordPieceTokenizer, AminoAcidTokenizer, or an object with `pad_id, unknown_id, start_id, end_id,
            mask_id` and `is_continuation`.
        rows_per_batch: int > 0 (B).
        mask_rate: float in (0, 1). The number per sequence is rounded up or down at random, so that the mean is exact.
        whole_words: bool. Choose whole words. Words are drawn one after the other, and skipped if they have more
            tokens than may still be chosen.
        seed: int >= 0.
        parts: int > 0. An epoch is one of `parts` equal parts of a pass over the data, so that a long pass is validated
            several times.
        always: bool. Replace all chosen tokens by [MASK], to measure what the model predicts of hidden tokens.

    Attributes:
        num_masked: int, P.

    Raises:
        ValueError: if an argument is out of range, there are no sequences, or a token id is outside the vocabulary.

    Source: Devlin et al. (2019), section 3.1 and appendix A.1; whole words are an option of the code published with
    it. Differences: [UNK] is never chosen, and the rounding.
    """

    def __init__(
        self,
        sequences: PackedSequences,
        tokenizer: MaskedTokenizer,
        rows_per_batch: int,
        mask_rate: float = 0.15,
        whole_words: bool = False,
        seed: int = 0,
        parts: int = 1,
        always: bool = False,
    ):
        if rows_per_batch < 1:
            raise ValueError(f"`rows_per_batch` must be positive. Received: rows_per_batch={rows_per_batch}")
        self.masking = Masking(tokenizer, mask_rate, whole_words, always)
        if seed < 0:
            raise ValueError(f"`seed` must not be negative. Received: seed={seed}")
        if not len(sequences):
            raise ValueError("`sequences` must have one sequence at least.")
        if not 0 < parts <= -(-len(sequences) // rows_per_batch):
            raise ValueError(f"`parts` must be positive, and at most the number of batches. Received: parts={parts}")
        size = len(tokenizer.is_continuation)
        if sequences.token_ids.min() < 0 or sequences.token_ids.max() >= size:
            raise ValueError(
                f"Token ids must be in [0, {size}), the tokenizer's. "
                f"Received: {sequences.token_ids.min()} to {sequences.token_ids.max()}"
            )
        self.sequences = sequences
        self.rows_per_batch = rows_per_batch
        self.seed = seed
        self.parts = parts
        self.pad_id = tokenizer.pad_id
        self.num_masked = self.masking.most(sequences.token_ids.shape[1])

    def epoch(self, epoch: int) -> "MaskedLMEpoch":
        """Returns the MaskedLMEpoch of epoch number `epoch` (int >= 0)."""
        number, part = divmod(epoch, self.parts)
        order = np.argsort(np.random.PCG64([self.seed, number]).random_raw(len(self.sequences)), kind="stable")
        filled = np.full(-(-len(order) // self.rows_per_batch) * self.rows_per_batch, FILLER)
        filled[: len(order)] = order
        return MaskedLMEpoch(self, epoch, np.array_split(filled.reshape(-1, self.rows_per_batch), self.parts)[part])


class MaskedLMEpoch:
    """The batches of one epoch, in order: `len()` and `[i]`, a dict of int32 arrays.

    `token_ids` (with masks), `block_ids` and `position_ids` (B, T) are the sequences; padding completes the last batch.
    `masked_positions` (B, P) are ascending and `labels` (B, P) are the original tokens; both are 0 if a sequence has
    fewer than P. Sequences of two texts also have `segment_ids` (B, T), and `labels` has one more column: 1 if the
    second text follows the first, 0 if not, and -1 in a padding sequence.

    Args:
        batches: MaskedLMBatches.
        epoch: int.
        numbers: int (batches, B), indices of sequences, FILLER for a padding sequence.
    """

    def __init__(self, batches, epoch, numbers):
        self.batches = batches
        self.epoch = epoch
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        batches, numbers = self.batches, self.numbers[index]
        empty = (numbers == FILLER)[:, None]  # (B, 1)
        sequences = batches.sequences
        token_ids = np.where(empty, np.int32(batches.pad_id), sequences.token_ids[numbers])  # (B, T)
        # The third number is positive, because (seed, epoch), alone or with a 0, seeds the order of the sequences.
        generator = np.random.PCG64([batches.seed, self.epoch, index % len(self) + 1])
        chosen = batches.masking.choose(token_ids, generator)  # (B, T)
        positions, labels = batches.masking.listed(chosen, token_ids)
        if sequences.is_next is not None:
            labels = np.append(labels, np.where(empty, np.int32(NO_CLASS), sequences.is_next[numbers, None]), axis=1)
        names = ("block_ids", "position_ids", "segment_ids")
        given = {name: values for name in names if (values := getattr(sequences, name)) is not None}
        return {
            "token_ids": batches.masking.hide(token_ids, chosen, generator),
            **{name: np.where(empty, np.int32(0), values[numbers]) for name, values in given.items()},
            "masked_positions": positions,
            "labels": labels,
        }


def _smallest(keys, candidates, counts):
    """Returns bool (B, T): in each sequence the `counts` candidates with the smallest keys."""
    keys = np.where(candidates, keys, np.iinfo(np.uint64).max)
    bounds = np.take_along_axis(np.sort(keys, axis=1), counts[:, None], axis=1)  # (B, 1), the first that is too large
    return keys < bounds


def _whole_words(keys, candidates, heads, counts):
    """Returns bool (B, T): words in the order of the keys of their first tokens, as long as they fit into `counts`."""
    columns = np.arange(keys.shape[1])
    head_of = np.maximum.accumulate(np.where(heads, columns, 0), axis=1)  # (B, T)
    rows = np.arange(len(keys))[:, None]
    sizes = np.zeros(keys.shape, np.int64)
    np.add.at(sizes, (np.broadcast_to(rows, keys.shape)[candidates], head_of[candidates]), 1)
    order = np.argsort(np.where(heads, keys, np.iinfo(np.uint64).max), axis=1, kind="stable")  # (B, T)
    taken = np.zeros(keys.shape, bool)
    left = counts.copy()
    for column in columns:
        size = sizes[rows[:, 0], order[:, column]]  # (B,)
        fits = (size > 0) & (size <= left)
        taken[rows[:, 0], order[:, column]] = fits
        left -= size * fits
        if not left.any() or not size.any():
            break
    return candidates & np.take_along_axis(taken, head_of, axis=1)


def _uniform(generator, size):
    """Returns float64 (size,) in [0, 1) from raw bits, whose stream NumPy guarantees."""
    return (generator.random_raw(size) >> np.uint64(11)) * 2.0**-53
