"""Distillation: a smaller vocabulary for the student, and texts encoded for both teacher and student."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.batches import random_order
from keras_attention.data.prose.documents import hold_out
from keras_attention.data.prose.masked_lm import Masking
from keras_attention.support.errors import UserError
from keras_attention.support.flags import setting
from keras_attention.tokenizers.bert_characters import part_words
from keras_attention.tokenizers.special_tokens import PAD_ID
from keras_attention.tokenizers.unigram_tokenizer import WORD_BEGINS, UnigramTokenizer
from keras_attention.tokenizers.wordpiece_tokenizer import CONTINUATION, SPECIALS, WordPieceTokenizer


def piece_counts(tokenizer, encoded):
    """How often each id of `tokenizer` occurs in a list of int arrays: int64 (vocabulary size,)."""
    return sum((np.bincount(ids, minlength=tokenizer.vocabulary_size) for ids in encoded), np.int64(0))


def prune(tokenizer, counts, vocabulary_size):
    """Keeps the most frequent pieces and all characters, so that no further word becomes [UNK].

    Multilingual vocabularies have the characters of all scripts: of those of a UnigramTokenizer, the characters of the
    counted pieces stay.
    A word whose pieces are all kept is split as before; other words are split into more, shorter pieces. The order of
    the pieces stays the same.

    Args:
        tokenizer: WordPieceTokenizer or UnigramTokenizer.
        counts: int array (vocabulary size,), see `piece_counts`.
        vocabulary_size: int > 0, pieces to keep.

    Returns:
        The pair of a tokenizer of the same kind and int64 (pieces kept,), their ids in `tokenizer`.

    Raises:
        ValueError: if `vocabulary_size` is too small for the special pieces and the characters.
    """
    is_unigram = isinstance(tokenizer, UnigramTokenizer)
    if is_unigram:
        specials = list(tokenizer.special_ids)
        counted = np.setdiff1d(np.flatnonzero(counts), specials)
        characters = {WORD_BEGINS}.union(*(tokenizer.vocabulary[i] for i in counted))
        needed = np.array([piece in characters for piece in tokenizer.vocabulary])
        needed[specials] = True
    else:
        needed = np.array([_is_needed(piece, tokenizer.lowercase) for piece in tokenizer.vocabulary])
    room = vocabulary_size - needed.sum()
    if room < 0:
        raise ValueError(
            f"`vocabulary_size` must be at least {needed.sum()}, the special pieces and the characters. "
            f"Received: vocabulary_size={vocabulary_size}"
        )
    others = np.flatnonzero(~needed)
    frequent = others[np.argsort(-np.asarray(counts)[others], kind="stable")][:room]
    kept = np.sort(np.concatenate([np.flatnonzero(needed), frequent]))
    if is_unigram:
        return tokenizer.with_pieces(kept), kept
    return WordPieceTokenizer([tokenizer.vocabulary[i] for i in kept], tokenizer.lowercase), kept


def align_pieces(tokenizer, pruned, kept, encoded, encoded_pruned):
    """Finds the pieces of words that both tokenizers split in the same way.

    Args:
        tokenizer, pruned, kept: see `prune`.
        encoded, encoded_pruned: lists of int arrays, the same texts encoded by both tokenizers.

    Returns:
        List of int32 arrays: for each piece of a text in `encoded_pruned`, its position in the same text in `encoded`,
        or -1 if the word is split differently.
    """
    ids, few_ids = (np.concatenate([np.zeros(0, np.int32), *texts]) for texts in (encoded, encoded_pruned))
    new_id = np.full(tokenizer.vocabulary_size, -1)
    new_id[kept] = np.arange(len(kept))
    starts = np.flatnonzero(~tokenizer.is_continuation[ids])  # of the words in all texts
    few_starts = np.flatnonzero(~pruned.is_continuation[few_ids])
    lengths, few_lengths = np.diff([*starts, len(ids)]), np.diff([*few_starts, len(few_ids)])
    word = np.repeat(np.arange(len(few_starts)), few_lengths)
    place = starts[word] + np.arange(len(few_ids)) - few_starts[word]
    different = new_id[ids[np.minimum(place, len(ids) - 1)]] != few_ids
    alike = (lengths == few_lengths) & (np.bincount(word[different], minlength=len(few_starts)) == 0)
    before = np.cumsum([0, *map(len, encoded)])
    text = np.repeat(np.arange(len(encoded_pruned)), [len(text) for text in encoded_pruned])
    places = np.where(alike[word], place - before[text], -1).astype("int32")
    ends = np.cumsum([0, *map(len, encoded_pruned)])
    return [places[start:end] for start, end in itertools.pairwise(ends)]


def _is_needed(piece, lowercase):
    """Whether a piece is special, or a single character that can occur in its position (word start or inside)."""
    letters = piece.removeprefix(CONTINUATION)
    inside = piece != letters and letters != ""
    if piece in SPECIALS or len(letters) != 1:
        return piece in SPECIALS
    return not inside or part_words([f"a{letters}"], lowercase) == [f"a{letters}"]


LENGTHS = (20, 32, 56, 128, 256, 512)  # few, because each is compiled
UNALIGNED = -1
CHUNK_TEXTS = 20_000


@dataclass(frozen=True)
class TextSettings:
    """Base class for the `Config` of a recipe: the texts, and how student and teacher read them."""

    text: tuple[str, ...] = setting((), "files with one text per line; default: docstrings of the standard library")
    pairs: tuple[str, ...] = setting((), "files with a text and its translation per line, separated by a tab")
    validation_split: float = setting(0.01, "share of the texts for validation", aliases=("validation_share",))
    language: str = setting("en", "code of the language, for the card")
    vocabulary_size: int = setting(16800, "size of the student's vocabulary, a part of the teacher's")
    max_tokens: int = setting(128, "maximum number of tokens with [CLS] and [SEP]; longer texts are left out")
    mask_rate: float = setting(0.15, "share of the tokens to predict, with --prediction-weight")
    tokens_per_batch: int = setting(1024, "tokens per update")

    @property
    def file_names(self):
        """The names of the files without their folders, a dict."""
        return {name: [Path(path).name for path in getattr(self, name)] for name in ("text", "pairs")}


class AlignedSequences(NamedTuple):
    """Sequences with [CLS] and [SEP], concatenated.

    Attributes:
        token_ids: int32 (tokens,), of the student.
        aligned: int16 (tokens,), the position in the teacher's sequence of the same token, or -1.
        teacher_ids: int32 (tokens of the teacher,).
        starts, teacher_starts: int64 (sequences + 1,), where each sequence begins.
    """

    token_ids: np.ndarray
    aligned: np.ndarray
    teacher_ids: np.ndarray
    starts: np.ndarray
    teacher_starts: np.ndarray

    def __len__(self):
        return len(self.starts) - 1


def align_texts(texts, sources, tokenizer, pruned, kept, max_tokens):
    """Encodes texts twice; those of more than `max_tokens` tokens are left out.

    Args:
        texts: list of str, what the student reads.
        sources: list of str, what the teacher reads: the same text, or the one that it translates. Of a translation,
            only [CLS] and [SEP] are aligned.
        tokenizer, pruned, kept: of the teacher and the student, see `prune`.
        max_tokens: int > 2, limit of a sequence.

    Raises:
        UserError: if no text is left.
    """
    columns = [], [], []
    for start in range(0, len(texts), CHUNK_TEXTS):
        some, some_sources = (column[start : start + CHUNK_TEXTS] for column in (texts, sources))
        encoded, few = tokenizer.encode(some_sources), pruned.encode(some)
        same = [i for i, (text, source) in enumerate(zip(some, some_sources, strict=True)) if text == source]
        places = [np.full(len(few_ids), UNALIGNED) for few_ids in few]
        aligned = align_pieces(tokenizer, pruned, kept, [encoded[i] for i in same], [few[i] for i in same])
        for i, place in zip(same, aligned, strict=True):
            places[i] = place
        for ids, few_ids, place in zip(encoded, few, places, strict=True):
            if max(len(ids), len(few_ids)) + 2 <= max_tokens and len(ids) and len(few_ids):
                columns[0].append(np.concatenate([[pruned.start_id], few_ids, [pruned.end_id]]).astype("int32"))
                inner = np.where(place < 0, UNALIGNED, place + 1)
                columns[1].append(np.concatenate([[0], inner, [len(ids) + 1]]).astype("int16"))
                columns[2].append(np.concatenate([[tokenizer.start_id], ids, [tokenizer.end_id]]).astype("int32"))
    if not columns[0]:
        raise UserError(f"None of the {len(texts):,} texts has at most {max_tokens} tokens. Expected: sentences.")
    starts, teacher_starts = (np.cumsum([0, *map(len, columns[i])]) for i in (0, 2))
    return AlignedSequences(*map(np.concatenate, columns), starts, teacher_starts)


def distillation_batches(texts, pairs, tokenizer, config, with_masks=False):
    """Holds out texts, makes the student's vocabulary of the others, and encodes both.

    Args:
        texts: list of str, which both read.
        pairs: list of pairs of str: a text, which the teacher reads, and its translation, which the student reads.
        tokenizer: the teacher's WordPieceTokenizer or UnigramTokenizer.
        config: TextSettings and RunSettings.
        with_masks: bool. Whether to hide tokens, see `DistillationBatches`.

    Returns:
        The student's tokenizer and its ids in `tokenizer`, see `prune`; the DistillationBatches to train on,
        and the batches of held-out texts.
    """
    pairs = [(text, text) for text in texts] + pairs
    (sources, texts), held_out = (list(zip(*some, strict=True)) for some in hold_out(pairs, config.validation_split))
    pruned, kept = prune(tokenizer, piece_counts(tokenizer, tokenizer.encode(texts)), config.vocabulary_size)
    pieces = tokenizer, pruned, kept, config.max_tokens
    sequences = align_texts(texts, sources, *pieces)
    held_out = align_texts(held_out[1], held_out[0], *pieces)
    masking = Masking(pruned, config.mask_rate) if with_masks else None
    batches = DistillationBatches(sequences, config.tokens_per_batch, config.seed, masking, kept)
    return pruned, kept, batches, DistillationBatches(held_out, config.tokens_per_batch, 0, masking, kept).epoch(0)


class DistillationBatches:
    """Batches of sequences of similar length with about equal numbers of tokens; a pure function of (seed, epoch).

    Shapes: B sequences, T tokens.

    Args:
        sequences: AlignedSequences.
        tokens_per_batch: int, B T at most.
        seed: int >= 0.
        masking: Masking of the student's tokens, or None to hide none.
        kept: int array, the teacher's ids of the student's pieces; needed for `masking`.
    """

    def __init__(self, sequences, tokens_per_batch=2048, seed=0, masking=None, kept=None):
        self.sequences = sequences
        self.tokens_per_batch = tokens_per_batch
        self.seed = seed
        self.masking = masking
        self.kept = kept
        longer = np.maximum(np.diff(sequences.starts), np.diff(sequences.teacher_starts))
        self._length = np.minimum(np.array(LENGTHS)[np.searchsorted(LENGTHS, longer)], longer.max())

    def epoch(self, epoch):
        """Returns the batches of epoch number `epoch` (int >= 0): `len()` and `[i]`, a dict of int32 arrays (B, T).

        `token_ids`, `teacher_ids` and, as `labels`, the position of each of the student's tokens in the teacher's
        sequence, or -1. Sequences that do not fill a batch of their length join the next longer ones; at most one
        incomplete batch is left out.

        With `masking`, the same tokens are hidden from student and teacher, only such as both have. The batch then has
        three more arrays (B, P), padded with 0: `masked_positions`; `teacher_positions`, the same in the teacher's
        sequence; and `masked_ids`, the student's hidden tokens.
        """
        generator = np.random.PCG64([self.seed, epoch])
        order = random_order(generator, len(self.sequences))
        batches, waiting = [], order[:0]
        for length in np.unique(self._length):
            numbers = np.concatenate([waiting, order[self._length[order] == length]])
            size = max(1, self.tokens_per_batch // length)
            whole = len(numbers) // size * size
            waiting = numbers[whole:]
            batches += [(int(length), batch) for batch in numbers[:whole].reshape(-1, size)]
        batches = batches or [(int(length), waiting)]
        return EpochBatches(self, epoch, [batches[i] for i in random_order(generator, len(batches))])


class EpochBatches:
    """See `DistillationBatches.epoch`; `numbers` is a list of (T, sequence numbers (B,))."""

    def __init__(self, batches, epoch, numbers):
        self.batches = batches
        self.epoch = epoch
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        length, numbers = self.numbers[index]
        sequences, shape = self.batches.sequences, (len(numbers), length)
        batch = {
            "token_ids": _padded(sequences.token_ids, sequences.starts, numbers, shape, PAD_ID),
            "teacher_ids": _padded(sequences.teacher_ids, sequences.teacher_starts, numbers, shape, PAD_ID),
            "labels": _padded(sequences.aligned, sequences.starts, numbers, shape, UNALIGNED),
        }
        return batch if self.batches.masking is None else batch | self._masked(index % len(self), **batch)

    def _masked(self, index, token_ids, teacher_ids, labels):
        """Hides tokens from both."""
        masking = self.batches.masking
        # The third number is positive, because (seed, epoch), alone or with a 0, seeds the order of the sequences.
        generator = np.random.PCG64([self.batches.seed, self.epoch, index + 1])
        chosen = masking.choose(token_ids, generator, labels >= 0)  # (B, T)
        positions, masked_ids = masking.listed(chosen, token_ids)
        token_ids, teacher_ids = masking.hide(token_ids, chosen, generator), teacher_ids.copy()
        rows, columns = np.nonzero(chosen)
        teacher_ids[rows, labels[rows, columns]] = self.batches.kept[token_ids[rows, columns]]
        teacher_positions = np.take_along_axis(labels, positions, axis=1)
        return {
            "token_ids": token_ids,
            "teacher_ids": teacher_ids,
            "masked_positions": positions,
            "teacher_positions": teacher_positions,  # 0 as padding, because [CLS] is first in both
            "masked_ids": masked_ids,
        }


class MaskedTexts:
    """The student's part of batches with masks, as `MaskedLMScores` reads them.

    Args:
        batches: the result of `DistillationBatches.epoch`, with `masking`.
    """

    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        batch = self.batches[index]
        return {name: batch[name] for name in ("token_ids", "masked_positions")} | {"labels": batch["masked_ids"]}


def _padded(values, starts, numbers, shape, filler):
    padded = np.full(shape, filler, "int32")
    for i, number in enumerate(numbers):
        sequence = values[starts[number] : starts[number + 1]]
        padded[i, : len(sequence)] = sequence
    return padded
