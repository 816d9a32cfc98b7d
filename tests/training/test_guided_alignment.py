"""Guided alignment of the Transformer recipe: a head learns the alignments, and a training resumes exactly."""

import functools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from recipe_modules import load_recipe
from training.tiny_run import arrays_of, run

from keras_attention.data.batches import BucketedBatches, EpochBatches
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, TokenSequences
from keras_attention.data.translation.word_alignment import with_links
from keras_attention.models.transformer import Transformer
from keras_attention.tokenizers.special_tokens import END_ID
from keras_attention.zoo.warm_start import head_to_guide

WORDS, LAYER, HEAD = 17, 0, 1


def copies(count, seed):
    """Sentences and the copies of their words in the opposite order, as a corpus with links."""
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.arange(5, 5 + WORDS))[: rng.integers(3, 8)] for _ in range(count)]
    offsets = np.cumsum([0, *(len(row) + 1 for row in rows)])
    sides = ([*row, END_ID] for row in rows), ([*row[::-1], END_ID] for row in rows)
    return with_links(ParallelCorpus(*(TokenSequences(np.concatenate([*s]).astype("int32"), offsets) for s in sides)))


def trained(weight, corpus, **arguments):
    """(result, model, optimizer) of a training with this weight of the guided head."""
    keras.utils.set_random_seed(3)
    sizes = {"hidden_dim": 22, "intermediate_dim": 29, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2}
    model = Transformer(5 + WORDS, 5 + WORDS, **sizes, dropout=0.1)
    model.build()
    guided = (weight, LAYER, HEAD) if weight else None
    loss = functools.partial(load_recipe("transformer").loss, label_smoothing=0.0, r_drop=0.0, guided=guided)
    batches = BucketedBatches(corpus, 230, num_buckets=1, seed=1)
    return run(model, keras.optimizers.Adam(0.01), batches, loss=loss, **arguments)


def error_rate(model, corpus):
    """The alignment error rate of the guided head, at the step that reads a token."""
    (batch,) = BucketedBatches(corpus, 10_000, num_buckets=1, shuffle=False).epoch(0)
    weights = np.asarray(model.cross_attention({name: batch[name] for name in ("source_ids", "target_ids")}))
    read = (batch["target_ids"] > END_ID)[..., None]
    reversed_places = batch["source_ids"][:, None, :] == batch["target_ids"][:, :, None]
    found = weights[:, LAYER, HEAD].argmax(axis=-1)[..., None]
    return 1 - np.take_along_axis(reversed_places & read, found, axis=-1).sum() / read.sum()


def test_the_guided_head_is_one_that_aligns_in_the_start():
    """Unless the decoder has other layers or heads."""
    heads = [[0, 5], [3, 7]]
    for layers, num_heads, known, expected in ((4, 8, heads, [3, 7]), (6, 8, heads, [1, 0]), (4, 16, heads, [1, 0])):
        settings = {"num_decoder_layers": layers, "num_heads": num_heads}
        entry = SimpleNamespace(config={"model": settings, "alignment_heads": known})
        assert head_to_guide(4, 8, SimpleNamespace(entry=entry)) == expected
    entry.config = {"model": {"num_decoder_layers": 4, "num_heads": 8}, "alignment_heads": None}
    assert head_to_guide(4, 8, SimpleNamespace(entry=entry)) == [1, 0]
    entry.config = {"model": {"hidden_dim": 7}}  # a recurrent model, which `take_weights` refuses
    assert head_to_guide(4, 8, SimpleNamespace(entry=entry)) == [1, 0]
    assert head_to_guide(5, 3) == [2, 0]


@pytest.mark.parametrize("name", ["guided_alignment", "r_drop"])
@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_a_weight_that_is_no_number_from_0_is_refused(name, weight):
    with pytest.raises(ValueError, match=f"`{name}` must be a number from 0. Received: {name}={weight}"):
        load_recipe("transformer").Config(**{name: weight})


@pytest.mark.slow
def test_a_guided_head_has_a_lower_alignment_error_rate():
    corpus, tested = copies(701, seed=5), copies(101, seed=7)
    plain, guided = (error_rate(trained(weight, corpus, epochs=5)[1], tested) for weight in (0, 0.3))
    assert plain > 0.3
    assert guided < 0.1


@pytest.mark.slow
def test_resume_is_exact(tmp_path, monkeypatch):
    corpus, arguments = copies(101, seed=5), {"epochs": 1, "clip_norm": 0.5}
    _, *expected = trained(0.3, corpus, **arguments)
    real = EpochBatches.__getitem__

    def broken(some, index):
        if index == 3:
            raise OSError("the data went away")
        return real(some, index)

    with monkeypatch.context() as patch:
        patch.setattr(EpochBatches, "__getitem__", broken)
        with pytest.raises(OSError, match="the data went away"):
            trained(0.3, corpus, checkpoint_dir=tmp_path, checkpoint_every=1, **arguments)
    again = copies(101, seed=5)  # a new process aligns anew
    _, *actual = trained(0.3, again, checkpoint_dir=tmp_path, resume=True, **arguments)
    for before, after in zip(arrays_of(*expected), arrays_of(*actual), strict=True):
        np.testing.assert_array_equal(before, after)
