"""Sentence pairs: reads them from files, encodes them once as integer arrays, and saves the arrays to one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from keras_attention.data.files import read_lines
from keras_attention.support.atomic_files import whole_file
from keras_attention.support.errors import UNREADABLE, UserError
from keras_attention.tokenizers.special_tokens import END_ID


def read_parallel(
    source_path: str | Path, target_path: str | Path, encoding: str | None = None
) -> tuple[list[str], list[str]]:
    """Reads two files; line n of the target file is the translation of line n of the source file.

    Args:
        source_path, target_path: str or Path, text files; names ending with .gz or .xz are decompressed.
        encoding: str, such as "windows-1252", or None for UTF-8.

    Returns:
        (list of str, list of str), of equal length. Empty lines are kept.

    Raises:
        UserError: see `read_lines`, and if the numbers of lines differ.
    """
    sources, targets = read_lines(source_path, encoding), read_lines(target_path, encoding)
    if len(sources) != len(targets):
        raise UserError(
            f"{source_path} has {len(sources):,} lines and {target_path} has {len(targets):,}. "
            "Expected: equal numbers, line n of one file being the translation of line n of the other."
        )
    return sources, targets


def read_tsv(
    path: str | Path, source_column: int = 0, target_column: int = 1, header: bool = False
) -> tuple[list[str], list[str]]:
    """Reads sentence pairs from two columns of a file; columns are separated by one TAB, without quotes or escapes.

    Args:
        path: str or Path, UTF-8 text; names ending with .gz or .xz are decompressed.
        source_column, target_column: int >= 0, counted from 0.
        header: bool. Skip the first line.

    Returns:
        (list of str, list of str), of equal length. Empty cells are kept.

    Raises:
        UserError: see `read_lines`, and if a line has too few columns or the file has only a header.
    """
    if source_column < 0 or target_column < 0:
        raise ValueError(
            f"Columns are counted from 0. Received: source_column={source_column}, target_column={target_column}"
        )
    needed = max(source_column, target_column) + 1
    sources, targets = [], []
    for number, line in enumerate(read_lines(path), start=1):
        if header and number == 1:
            continue
        cells = line.split("\t")
        if len(cells) < needed:
            raise UserError(
                f"{path}, line {number}: found {len(cells)} column(s), expected at least {needed}, separated by TABs."
            )
        sources.append(cells[source_column])
        targets.append(cells[target_column])
    if not sources:
        raise UserError(f"{path}: there is nothing below the header line. Expected: one sentence pair on each line.")
    return sources, targets


@dataclass(frozen=True)
class TokenSequences:
    """Many sequences in two arrays; sequence n is `values[offsets[n]:offsets[n + 1]]`.

    Attributes:
        values: int32 (total number of tokens, ...).
        offsets: int64 (number of sequences + 1,).
    """

    values: np.ndarray
    offsets: np.ndarray

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, index):
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self):
        """int64 (number of sequences,)."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class ParallelCorpus:
    """Encoded sentence pairs; both sides end with END.

    Attributes:
        source, target: TokenSequences of equal length. The labels of a batch are `target`; the decoder's input is
            `target` shifted to the right, after START.
        num_cut: int, pairs with a truncated side.
        num_dropped: int, pairs dropped because a side had no token.
        links: TokenSequences whose tokens are the links of a pair, see `word_alignment.AlignmentModel.links`; or None.
    """

    source: TokenSequences
    target: TokenSequences
    num_cut: int = 0
    num_dropped: int = 0
    links: TokenSequences | None = None

    def __len__(self):
        return len(self.source)

    def __str__(self):
        return f"{len(self):,} pairs ({self.num_cut:,} cut, {self.num_dropped:,} with an empty side left out)"

    @classmethod
    def encode(
        cls,
        source_texts: list[str],
        target_texts: list[str],
        source_tokenizer: Any,
        target_tokenizer: Any,
        max_tokens: int,
        bpe_dropout: float = 0.0,
        seed: int = 0,
    ) -> Self:
        """Encodes sentence pairs for training.

        Args:
            source_texts, target_texts: lists of str of equal length.
            source_tokenizer, target_tokenizer: objects with `encode(list of str) -> list of integer arrays`.
            max_tokens: int > 1, maximum number of tokens per side, with END. Longer sides are truncated and counted.
            bpe_dropout: float in [0, 1). Share of the merges to skip; see `SentencePieceTokenizer.encode`.
            seed: int >= 0, selects the merges to skip.

        Returns:
            ParallelCorpus, without pairs with an empty side.

        Raises:
            ValueError: if the numbers of texts differ or `max_tokens` is too small.
            UserError: if no pair is left.
        """
        if len(source_texts) != len(target_texts):
            raise ValueError(
                f"There must be as many source as target texts. Received: {len(source_texts)} and {len(target_texts)}"
            )
        if max_tokens < 2:
            raise ValueError(f"`max_tokens` must be greater than 1. Received: max_tokens={max_tokens}")
        sides = (source_tokenizer, source_texts), (target_tokenizer, target_texts)
        if bpe_dropout:
            encoded = [tokenizer.encode(texts, bpe_dropout, 2 * seed + i) for i, (tokenizer, texts) in enumerate(sides)]
        else:
            encoded = [tokenizer.encode(texts) for tokenizer, texts in sides]
        pairs = zip(*encoded, strict=True)
        kept = [(source, target) for source, target in pairs if len(source) and len(target)]
        if not kept:
            raise UserError(f"None of the {len(source_texts):,} sentence pairs has text on both sides.")
        return cls(
            source=_end_and_join([source for source, _ in kept], max_tokens),
            target=_end_and_join([target for _, target in kept], max_tokens),
            num_cut=sum(max(len(source), len(target)) >= max_tokens for source, target in kept),
            num_dropped=len(source_texts) - len(kept),
        )

    @classmethod
    def encode_epochs(
        cls,
        source_texts: list[str],
        target_texts: list[str],
        source_tokenizer: Any,
        target_tokenizer: Any,
        max_tokens: int,
        bpe_dropout: float,
        seed: int,
        epochs: int,
    ) -> list[Self]:
        """Encodes once, or with BPE-dropout once per epoch; arguments and errors as in `encode`.

        Returns:
            List of ParallelCorpus, for `BucketedBatches`.

        Source: Provilkov, Emelianenko & Voita (2020), with BPE-dropout on both sides.
        """
        kinds = [tokenizer.kind for tokenizer in (source_tokenizer, target_tokenizer)]
        if bpe_dropout and kinds != ["sentencepiece"] * 2:
            raise UserError(f"BPE-dropout needs SentencePiece vocabularies. Found: {kinds[0]} and {kinds[1]}.")
        seeds = [seed * 100_003 + epoch for epoch in range(epochs if bpe_dropout else 1)]
        sides = source_texts, target_texts, source_tokenizer, target_tokenizer
        return [cls.encode(*sides, max_tokens, bpe_dropout, seed) for seed in seeds]


def _end_and_join(sequences, max_tokens):
    """Truncates each sequence, appends END and concatenates all of them."""
    end = np.array([END_ID], dtype=np.int32)
    lengths = [min(len(sequence), max_tokens - 1) + 1 for sequence in sequences]
    parts = [part for sequence in sequences for part in (sequence[: max_tokens - 1], end)]
    values = np.concatenate(parts).astype(np.int32)
    return TokenSequences(values, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))


def save_encoded(path, corpora, vocabulary_sizes):
    """Writes corpora to a file, whole or not at all.

    Args:
        path: str or Path, ends with .npz.
        corpora: list of ParallelCorpus.
        vocabulary_sizes: pair of int, of the source and the target.
    """
    path = Path(path)
    arrays: dict[str, Any] = {"vocabulary_sizes": np.array(vocabulary_sizes, "int64")}
    for number, corpus in enumerate(corpora):
        arrays[f"{number}.counts"] = np.array([corpus.num_cut, corpus.num_dropped], "int64")
        for side in ("source", "target"):
            sequences = getattr(corpus, side)
            # Ids of a small vocabulary need half the space.
            small = max(vocabulary_sizes) <= np.iinfo("uint16").max
            arrays[f"{number}.{side}.values"] = sequences.values.astype("uint16" if small else "int32")
            arrays[f"{number}.{side}.offsets"] = sequences.offsets
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, "wb") as file:
        np.savez_compressed(file, **arrays)


def load_encoded(path):
    """Reads a file that `save_encoded` wrote.

    Returns:
        The list of ParallelCorpus and the pair of vocabulary sizes.

    Raises:
        UserError: if the file is missing or has other content.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        count = sum(name.endswith(".counts") for name in arrays)
        corpora = [_corpus(arrays, number) for number in range(count)]
        source_size, target_size = map(int, arrays["vocabulary_sizes"])
        if not corpora:
            raise KeyError("0.counts")
    except UNREADABLE as error:
        raise UserError(f"{path}: no encoded pairs ({error}). Expected: a file written with --encode-to.") from error
    return corpora, (source_size, target_size)


def _corpus(arrays, number):
    num_cut, num_dropped = map(int, arrays[f"{number}.counts"])
    sides = {}
    for side in ("source", "target"):
        values, offsets = (arrays[f"{number}.{side}.{part}"] for part in ("values", "offsets"))
        sides[side] = TokenSequences(values.astype("int32"), offsets)
    return ParallelCorpus(**sides, num_cut=num_cut, num_dropped=num_dropped)
