"""Masked words: BERTs with a masked language model."""

from keras_attention.catalog.common import TEXT_TOKENIZER, WITHOUT_PATTERN, language_of
from keras_attention.catalog.encoding import (
    BERT_TOKENIZERS,
    ENCODER,
    TEXT_KEYS,
    VECTOR_DEFAULTS,
    VECTOR_KEYS,
    bert_parameters,
    check_length,
)
from keras_attention.zoo.schema import Activity, Architecture, Task, register

MASK_FILLING = Task(
    tasks=("fill-mask", "encode"),
    pipeline="keras_attention.pipelines.mask_filler:MaskFiller",
    method="fill_mask",
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=BERT_TOKENIZERS,
    keys={**TEXT_KEYS, **VECTOR_KEYS},
    defaults=VECTOR_DEFAULTS,
    title=lambda config: f"{config['language']}, masked words",
    reads=language_of,
    check=check_length,
    activity=lambda config: Activity(
        "Fill in missing words",
        "Put [MASK] in place of a word, and the model guesses it.",
        "Text with [MASK] in place of missing words",
    ),
)
register(
    Architecture(
        name="BertMaskedLM",
        model="keras_attention.models.bert_heads:BertMaskedLM",
        settings=ENCODER,
        parameters=bert_parameters,
        task=MASK_FILLING,
        defaults=WITHOUT_PATTERN,
        classifier="BertClassifier",
    )
)
