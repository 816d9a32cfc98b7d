"""Files -> batches: reading text, encoding it once, and batches in a few shapes."""

from keras_attention.data.batches import BucketedBatches
from keras_attention.data.prose.masked_lm import MaskedLMBatches
from keras_attention.data.prose.packed_text import PackedSequences
from keras_attention.data.translation.parallel_corpus import ParallelCorpus
from keras_attention.data.translation.parallel_text import read_lines, read_parallel, read_tsv

__all__ = [
    "BucketedBatches",
    "MaskedLMBatches",
    "PackedSequences",
    "ParallelCorpus",
    "read_lines",
    "read_parallel",
    "read_tsv",
]
