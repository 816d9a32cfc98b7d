"""Thousands of odd texts, each different, through one pipeline: nothing is kept of them."""

import gc
from pathlib import Path

import pytest
from varied_texts import varied_texts
from zoo.tiny_bert import tiny_classifier, tiny_encoder, tiny_mask_filler, tokenizer
from zoo.tiny_entry import tiny_translator
from zoo.tiny_gpt import tiny_generator

from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.runtime.stored_programs import return_memory

pytestmark = pytest.mark.slow
TEXTS, TOGETHER, MEGABYTE = 1009, 13, 1 << 20


def resident():
    """MB."""
    gc.collect()
    return_memory()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / MEGABYTE


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (tiny_translator, lambda translator, texts: translator.translate(texts)),
        (tiny_classifier, lambda classifier, texts: classifier.classify(texts)),
        (lambda: TextEncoder(tiny_encoder(), tokenizer(), 23), lambda encoder, texts: encoder.encode(texts)),
        (tiny_mask_filler, lambda filler, texts: filler.fill_mask([f"{text[:5]} [MASK]" for text in texts])),
        (tiny_generator, lambda generator, texts: generator.generate(texts, max_tokens=3)),
    ],
    ids=["translator", "classifier", "encoder", "mask filler", "generator"],
)
def test_odd_texts_leave_nothing_in_memory(make, answer):
    if not Path("/proc/self/statm").exists():
        pytest.skip("the memory of the process is not known")
    pipeline = make()

    def read(seed):
        texts = varied_texts(TEXTS, seed)
        for start in range(0, TEXTS, TOGETHER):
            answer(pipeline, texts[start : start + TOGETHER])

    read(seed=2)  # compiles all shapes
    before = resident()
    for seed in (3, 5):
        read(seed)
    assert resident() - before < 30
