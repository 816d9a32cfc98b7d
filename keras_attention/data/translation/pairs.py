"""Sentence pairs of a named data set, of two files or of a table, with vocabularies and token ids."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_attention.data.dates import date_splits
from keras_attention.data.download import named_dataset
from keras_attention.data.files import read_lines
from keras_attention.data.translation.parallel_corpus import (
    ParallelCorpus,
    load_encoded,
    read_parallel,
    read_tsv,
    save_encoded,
)
from keras_attention.support.errors import UserError
from keras_attention.support.flags import setting
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer
from keras_attention.tokenizers.special_tokens import END_ID

MULTI30K_LANGUAGES = ("en", "de", "fr", "cs")
MULTI30K_SPLITS = ("train", "val", "test_2016_flickr")
MULTI30K_ORIGIN = {
    "name": "Multi30k (Elliott et al. 2016), train, task 1",
    "terms": "research and education, non-commercial, as stated for the images; no terms are stated for the text.",
    "link": "https://github.com/multi30k/dataset",
}
TATOEBA_ORIGIN = {
    "name": "sentence pairs of Tatoeba, as manythings.org/anki selected them",
    "terms": "CC BY 2.0",
    "link": "https://tatoeba.org",
}
DATES_ORIGIN = {
    "name": "dates made from Unicode CLDR locale data through Babel",
    "terms": "generated; CLDR under the Unicode License, Babel under BSD-3-Clause.",
    "link": "https://cldr.unicode.org",
}
DATES_LIMITS = [
    "Numeric dates are read day first; 12/25/1998 is read month first because no other reading is valid.",
    "Years 1900 to 2099; two-digit years mean 1950 to 2049. No times, ranges or relative dates.",
    "A text that is not a date still gets an answer; its low score marks it as unreliable.",
]
SENTENCE_LIMITS = [
    "Vocabulary and topics are those of the training data; other text is translated into the closest known sentence.",
    "Each sentence is translated alone, without context.",
]


class TranslationData(NamedTuple):
    """Sentence pairs; each split is a pair of equally long lists of str (sources, targets).

    `origin` describes the data for a model card: name, terms, link. `limits` is a list of str, limits of models trained
    on it. `several_references`: whether sources occur several times with different targets. `by_character`: whether
    each character is a token.
    """

    name: str
    source_language: str
    target_language: str
    train: tuple
    validation: tuple
    test: tuple
    origin: dict
    limits: list = SENTENCE_LIMITS
    several_references: bool = False
    by_character: bool = False

    def shortened(self, count):
        """The first `count` pairs of each split, for a trial run."""
        splits = {name: tuple(side[:count] for side in getattr(self, name)) for name in ("train", "validation", "test")}
        return self._replace(**splits)

    def with_more(self, path):
        """The same data with the pairs of a table (see `read_tsv`) appended to the training split."""
        train = tuple([*old, *new] for old, new in zip(self.train, read_tsv(path), strict=True))
        name = f"{self.origin['name']}, with {len(train[0]) - len(self.train[0]):,} pairs of {Path(path).name}"
        return self._replace(train=train, origin={**self.origin, "name": name})


def load_translation_data(
    data, *, data_dir="", source="en", target="de", validation_split=0.02, train_size=200_000, extra=(), seed=0
):
    """Loads the training data of a translation recipe.

    Args:
        data: "dates" (generated), "multi30k", "tatoeba", "files" (`source` and `target` name one file each), or the
            path of a table whose first two columns are separated by a TAB. Files may end with .gz or .xz.
        data_dir: str, folder of a named set; "" downloads multi30k once and stores it. The folder of tatoeba has
            train.tsv.gz, dev.tsv.gz and test.tsv.gz, whose first lines name the languages of their columns.
        source, target: language codes of a named set, or paths for "files".
        validation_split: float in (0, 0.5], share of the different pairs that is held out, half of it as test set; for
            files.
        train_size: int > 0, number of generated dates.
        extra: list of paths, tables of additional training pairs, such as translations of better models
            (sequence-level distillation, Kim & Rush 2016; data diversification, Nguyen et al. 2020).
        seed: int, for generated data and for the held-out share.

    Returns:
        TranslationData.

    Raises:
        UserError: if a file, a language or the name is wrong.
    """
    if extra:
        given = {"data_dir": data_dir, "validation_split": validation_split, "train_size": train_size, "seed": seed}
        return functools.reduce(
            TranslationData.with_more, extra, load_translation_data(data, source=source, target=target, **given)
        )
    if data == "dates":
        splits = date_splits(train_size, seed)
        return TranslationData("dates", "dates", "iso", *splits, DATES_ORIGIN, DATES_LIMITS, by_character=True)
    if data == "multi30k":
        return _multi30k(data_dir, source, target)
    if data == "tatoeba":
        return _tatoeba(data_dir, source, target)
    if data == "files":
        pairs, languages = (
            read_parallel(source, target),
            (file_name_piece(source, "source"), file_name_piece(target, "target")),
        )
        name = file_name_piece(source, "files", part=0)
    elif Path(data).suffix:
        pairs, languages, name = read_tsv(data), (source, target), Path(data).name.split(".")[0]
    else:
        raise UserError(
            f"There is no data set {data!r}. Expected: dates, multi30k, tatoeba, files, or the path of a TSV file."
        )
    splits = _hold_out(pairs, validation_split, seed)
    return TranslationData(name, *languages, *splits, {"name": name, "terms": "not stated.", "link": "file"})


def train_tokenizers(data, vocabulary_size, split_digits=False):
    """Learns the vocabularies of the training pairs: characters for each side of dates, otherwise a joint vocabulary.

    Args:
        data: TranslationData.
        vocabulary_size: int > 4, maximum size of the joint vocabulary.
        split_digits: bool. Whether each digit of a joint vocabulary is a piece of its own.

    Returns:
        The tokenizers of source and target; the same object twice if the vocabulary is joint.
    """
    sources, targets = data.train
    if data.by_character:
        return CharacterTokenizer.train(sources, lowercase=True), CharacterTokenizer.train(targets)
    joint = SentencePieceTokenizer.train([*sources, *targets], vocabulary_size, split_digits=split_digits)
    return joint, joint


def _multi30k(data_dir, source, target):
    for language in (source, target):
        if language not in MULTI30K_LANGUAGES:
            raise UserError(f"Multi30k has no {language!r}. Expected one of: {', '.join(MULTI30K_LANGUAGES)}.")
    files = [[f"{split}.{language}.gz" for language in (source, target)] for split in MULTI30K_SPLITS]
    folder = Path(data_dir) if data_dir else named_dataset("multi30k", files=sum(files, []))
    splits = (read_parallel(*(folder / name for name in names)) for names in files)
    return TranslationData("multi30k", source, target, *splits, MULTI30K_ORIGIN)


def _tatoeba(data_dir, source, target):
    if not data_dir:
        raise UserError("Tatoeba needs --data-dir, a folder with train.tsv.gz, dev.tsv.gz and test.tsv.gz.")
    splits = (_columns(Path(data_dir) / f"{split}.tsv.gz", source, target) for split in ("train", "dev", "test"))
    return TranslationData("tatoeba", source, target, *splits, TATOEBA_ORIGIN, several_references=True)


def _columns(path, source, target):
    """The pairs of a table whose first line names the languages of its columns."""
    languages = read_lines(path)[0].split("\t")
    for language in (source, target):
        if language not in languages:
            raise UserError(f"{path} has no column {language!r}. Expected one of: {', '.join(languages)}.")
    return read_tsv(path, languages.index(source), languages.index(target), header=True)


def _hold_out(pairs, share, seed):
    """Splits the pairs at random into train, validation and test.

    A pair that occurs several times counts once, and all of its occurrences are on one side.
    """
    if not 0 < share <= 0.5:
        raise UserError(f"The validation share must be above 0 and at most 0.5. Received: {share}")
    everything = list(zip(*pairs, strict=True))
    distinct = list(dict.fromkeys(everything))
    count = len(distinct)
    if count < 4:
        raise UserError(
            f"There are {count} different sentence pairs. Expected: at least 4, to train, validate and test on."
        )
    order = np.random.default_rng(seed).permutation(count)
    held_out = max(2, int(count * share))
    parts = (order[: held_out // 2], order[held_out // 2 : held_out])
    validation, test = ([distinct[i] for i in sorted(part)] for part in parts)
    reserved = {*validation, *test}
    train = [pair for pair in everything if pair not in reserved]
    return (tuple([pair[side] for pair in part] for side in (0, 1)) for part in (train, validation, test))


def file_name_piece(path, default, part=-1):
    """A part of a file name between dots: "train.en.gz" has the language "en" and the name "train"."""
    pieces = Path(path).name.removesuffix(".gz").removesuffix(".xz").split(".")
    return pieces[part] if len(pieces) > 1 else default


SMOKE_PAIRS = 8


@dataclass(frozen=True)
class TranslationSettings:
    """Base class for the `Config` of a recipe: data, search, and the settings shared by all networks."""

    data: str = setting("dates", "dates, multi30k, tatoeba, files, or the path of a table with two columns")
    data_dir: str = setting("", "folder of multi30k or tatoeba; empty: download multi30k once")
    source: str = setting("en", "language code of the source, or its file with --data files")
    target: str = setting("de", "language code of the target, or its file with --data files")
    validation_split: float = setting(
        0.02, "share of the pairs of own files for validation and test, half each", aliases=("validation_share",)
    )
    train_size: int = setting(200_000, "pairs of dates generated for training")
    extra: tuple[str, ...] = setting((), "tables of additional training pairs, such as translations of better models")
    max_tokens: int = setting(64, "maximum number of tokens of a training sentence; longer ones are truncated")
    bpe_dropout: float = setting(0.0, "share of the subword merges to skip at random, in each epoch")
    vocabulary_size: int = setting(10_000, "size of the joint vocabulary (dates: all characters that occur)")
    split_digits: bool = setting(False, "make each digit a token, so that numbers can be copied")
    encode_to: str = setting("", "only write the encoded texts to this path, for a machine without TensorFlow")
    encoded: str = setting("", "train on texts encoded with --encode-to, and write only the weights")
    start_from: str = setting("", "start from this trained model, with its settings and vocabularies", name="from")
    r_drop: float = setting(0.0, "weight of the divergence between two passes under dropout; costs twice the time")
    clip_norm: float = setting(1.0, "maximum global norm of the gradients")
    ema_decay: float | None = setting(None, "exponential average of the weights, such as 0.999")
    patience: int | None = setting(None, "validations without a better score before training stops")
    beam_size: int = setting(5, "beam size")
    length_penalty: float = setting(1.0, "exponent of the length in the score (GNMT)")
    ask: bool = setting(False, "translate typed input at the end (on with --data dates)")

    def __post_init__(self):
        for name in ("r_drop", "guided_alignment"):  # the second in one recipe only
            if not 0 <= (weight := getattr(self, name, 0.0)) < float("inf"):  # NaN, too
                raise ValueError(f"`{name}` must be a number from 0. Received: {name}={weight}")

    @property
    def data_name(self):
        """A short name of the data, for a folder."""
        if self.encoded:
            return "encoded"
        if self.data == "files":
            return file_name_piece(self.source, "files", 0)
        return Path(self.data).name.split(".")[0]

    @property
    def search(self):
        """The settings of a Translator's beam search."""
        lengths = {"max_source_length": 2 * self.max_tokens}
        return {"beam_size": self.beam_size, "length_penalty": self.length_penalty, **lengths}


class TranslationPairs(NamedTuple):
    """Sentence pairs for a training.

    Attributes:
        corpora: list of ParallelCorpus, for `BucketedBatches`.
        sizes: pair of int, the sizes of the vocabularies.
        texts: TranslationData, or None if the pairs were loaded as token ids.
        tokenizers: pair of tokenizers, or None like `texts`.
    """

    corpora: list
    sizes: tuple
    texts: TranslationData | None = None
    tokenizers: tuple | None = None

    def token_ids(self, both_sides=False):
        """int32 array (N,), the tokens of all training sentences without END: of the sources, or of both sides."""
        corpus = self.corpora[0]
        token_ids = np.concatenate([side.values for side in (corpus.source, corpus.target)[: 1 + both_sides]])
        return token_ids[token_ids != END_ID]

    def check_positions(self, max_length):
        """Raises UserError if a sentence is longer than `max_length` learned positions (int)."""
        longest = max(max(corpus.source.lengths.max(), corpus.target.lengths.max()) for corpus in self.corpora)
        if longest > max_length:
            raise UserError(
                f"A sentence has {longest:,} tokens, but only {max_length:,} learned positions: raise --max-length or "
                "lower --max-tokens."
            )

    def save(self, path):
        """Writes the token ids, for a machine without TensorFlow; see `load_pairs`."""
        save_encoded(path, self.corpora, self.sizes)


def load_pairs(config, tokenizers=None):
    """Loads sentence pairs and encodes them once, or loads a file of `TranslationPairs.save`.

    Args:
        config: TranslationSettings and RunSettings; with `smoke`, only a few pairs are used.
        tokenizers: pair of tokenizers, or None to learn them from the texts.

    Returns:
        TranslationPairs.

    Raises:
        UserError: see `load_translation_data` and `load_encoded`.
    """
    if config.encoded:
        return TranslationPairs(*load_encoded(config.encoded))
    names = ("data_dir", "source", "target", "validation_split", "train_size", "extra", "seed")
    texts = load_translation_data(config.data, **{name: getattr(config, name) for name in names})
    texts = texts.shortened(SMOKE_PAIRS) if config.smoke else texts
    tokenizers = tokenizers or train_tokenizers(texts, config.vocabulary_size, config.split_digits)
    cutting = config.max_tokens, config.bpe_dropout, config.seed, config.epochs
    corpora = ParallelCorpus.encode_epochs(*texts.train, *tokenizers, *cutting)
    return TranslationPairs(corpora, tuple(one.vocabulary_size for one in tokenizers), texts, tokenizers)
