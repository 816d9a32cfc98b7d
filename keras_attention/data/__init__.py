"""Files -> batches: reading text, encoding it once, and batches in a few shapes."""

from keras_attention.data.batches import BucketedBatches
from keras_attention.data.files import read_lines
from keras_attention.data.prose.documents import PackedSequences
from keras_attention.data.prose.masked_lm import MaskedLMBatches
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, read_parallel, read_tsv

__all__ = [
    "BucketedBatches",
    "MaskedLMBatches",
    "PackedSequences",
    "ParallelCorpus",
    "read_lines",
    "read_parallel",
    "read_tsv",
]
