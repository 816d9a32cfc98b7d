"""What the recipes of translation train on: their shared settings, texts, vocabularies and token ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from keras_attention.data.translation.parallel_corpus import ParallelCorpus, load_encoded, save_encoded
from keras_attention.data.translation.translation_sets import (
    TranslationData,
    file_name_piece,
    load_translation_data,
    train_tokenizers,
)
from keras_attention.flags import setting

SMOKE_PAIRS = 8


@dataclass(frozen=True)
class TranslationSettings:
    """A base for the `Config` of a recipe: data, search, and what all networks are trained with alike."""

    data: str = setting("dates", "dates, multi30k, tatoeba, files, or the path of a table with two columns")
    data_dir: str = setting("", "folder of multi30k or tatoeba; empty: download multi30k once")
    source: str = setting("en", "language code of the source, or its file with --data files")
    target: str = setting("de", "language code of the target, or its file with --data files")
    validation_share: float = setting(0.02, "share of the pairs held out, half to validate and half to test; own files")
    train_size: int = setting(200_000, "pairs of dates generated for training")
    extra: tuple[str, ...] = setting((), "tables of additional training pairs, such as translations of better models")
    max_tokens: int = setting(64, "maximum number of tokens of a training sentence; longer ones are truncated")
    bpe_dropout: float = setting(0.0, "share of the merges of the vocabulary to skip, drawn anew in each epoch")
    vocabulary_size: int = setting(10_000, "pieces of the joint vocabulary (dates: characters, as many as occur)")
    encode_to: str = setting("", "only write the encoded texts to this place, for a machine without TensorFlow")
    encoded: str = setting("", "train on texts encoded with --encode-to, and write only the weights")
    start_from: str = setting("", "start from this trained model, with its settings and vocabularies")
    r_drop: float = setting(0.0, "weight of the divergence between two passes under dropout; costs twice the time")
    clip_norm: float = setting(1.0, "largest global norm of the gradients")
    ema_decay: float | None = setting(None, "exponential average of the weights, such as 0.999")
    patience: int | None = setting(None, "validations without a better score before training stops")
    beam_size: int = setting(5, "beam size")
    length_penalty: float = setting(1.0, "exponent of the length in the score (GNMT)")
    ask: bool = setting(False, "translate typed input at the end (on with --data dates)")

    def __post_init__(self):
        if self.r_drop < 0:
            raise ValueError(f"`r_drop` must not be negative. Received: r_drop={self.r_drop}")

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
        texts: TranslationData, or None where the pairs were encoded elsewhere.
        tokenizers: pair of tokenizers, or None like `texts`.
    """

    corpora: list
    sizes: tuple
    texts: TranslationData | None = None
    tokenizers: tuple | None = None

    def save(self, path):
        """Writes the token ids, for a machine without TensorFlow; see `load_pairs`."""
        save_encoded(path, self.corpora, self.sizes)


def load_pairs(config, tokenizers=None):
    """Loads sentence pairs and encodes them once, or takes what `TranslationPairs.save` wrote.

    Args:
        config: TranslationSettings and RunSettings; with `smoke` a few pairs are taken.
        tokenizers: pair of tokenizers, or None to learn them from the texts.

    Returns:
        TranslationPairs.

    Raises:
        UserError: see `load_translation_data` and `load_encoded`.
    """
    if config.encoded:
        return TranslationPairs(*load_encoded(config.encoded))
    names = ("data_dir", "source", "target", "validation_share", "train_size", "extra", "seed")
    texts = load_translation_data(config.data, **{name: getattr(config, name) for name in names})
    texts = texts.shortened(SMOKE_PAIRS) if config.smoke else texts
    tokenizers = tokenizers or train_tokenizers(texts, config.vocabulary_size)
    cutting = config.max_tokens, config.bpe_dropout, config.seed, config.epochs
    corpora = ParallelCorpus.encode_epochs(*texts.train, *tokenizers, *cutting)
    return TranslationPairs(corpora, tuple(one.vocabulary_size for one in tokenizers), texts, tokenizers)
