"""Masked words, or amino acids: BERTs with a masked language model."""

from keras_attention.catalog.common import NO_LANGUAGE, TEXT_TOKENIZER, WITHOUT_PATTERN, language_of
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


def _activity(config):
    if config["language"] == NO_LANGUAGE:
        what = "Fill in missing amino acids", "Put [MASK] in place of a residue, and the model guesses it."
        return Activity(*what, "Protein, such as MKV[MASK]LAA")
    return Activity(
        "Fill in missing words",
        "Put [MASK] in place of a word, and the model guesses it.",
        "Text with [MASK] in place of missing words",
    )


MASK_FILLING = Task(
    tasks=("fill-mask", "encode"),
    pipeline="keras_attention.pipelines.mask_filler:MaskFiller",
    method="fill_mask",
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=BERT_TOKENIZERS,
    keys={**TEXT_KEYS, **VECTOR_KEYS},
    defaults=VECTOR_DEFAULTS,
    title=lambda config: f"{config['language']}, masked {'residues' if config['language'] == NO_LANGUAGE else 'words'}",
    reads=language_of,
    check=check_length,
    activity=_activity,
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
