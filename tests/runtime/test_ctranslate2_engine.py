"""CTranslate2 as the engine of a translator gives our answers, for every setting that it carries."""

import sys

import keras
import numpy as np
import pytest
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts, tiny_translator

from keras_attention.models import Transformer
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.translator import Translator
from keras_attention.runtime import ctranslate2_engine
from keras_attention.runtime.ctranslate2_engine import Candidate, ended_in_time, is_certain, ranked
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID

pytestmark = pytest.mark.sampled(9)

TEXTS = [*ENGLISH, "", "Men climb.", "A girl runs in a red dress near stairs."]
# Each with other parts of the format: norms, positions, activations, embeddings of its own for each side.
VARIANTS = {
    "post-norm": {},
    "pre-norm": {"normalize_first": True, "positions": "learned", "max_length": 31, "activation": "gelu"},
}


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request):
    """The same translator twice, the second with the other engine.

    Its last norm has a constant first feature, by which unknown, padding and start tokens become impossible: their
    share is what log probabilities differ by.
    """
    _, source, target = tiny_parts()
    keras.utils.set_random_seed(3)
    sizes = {"hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 2}
    sizes |= {"tie_embeddings": "none", **VARIANTS[request.param]}
    model = Transformer(source.vocabulary_size, target.vocabulary_size, **sizes)
    model.build()
    for weight in model.weights:
        scale = 3.0 if weight.path.endswith(("kernel", "embeddings")) else 1.0
        weight.assign(weight * scale + 0.1 * keras.random.normal(weight.shape, seed=5))
    norm = model.decoder_norm or model.decoder_layers[-1].feed_forward_norm
    norm.gamma.assign(np.r_[0.0, np.ones(11)])
    norm.beta.assign(np.r_[1.0, np.zeros(11)])
    kernel = np.array(model.output_projection.kernel)
    kernel[0, :3], kernel[0, END_ID] = -50.0, 3.0
    model.output_projection.kernel.assign(kernel)
    translators = [Translator(model, source, target, DECODING) for _ in range(2)]
    translators[1].use_engine("ctranslate2")
    return translators


def check_equal(actual, expected):
    for answers, others in zip(actual, expected, strict=True):
        assert [one.tokens for one in answers] == [one.tokens for one in others]
        for name in ("score", "log_prob"):
            ours = [getattr(one, name) for one in others]
            np.testing.assert_allclose([getattr(one, name) for one in answers], ours, atol=1e-4)


@pytest.mark.parametrize("length_penalty", [0.0, 0.7, 3.0])
@pytest.mark.slow
def test_length_penalty_and_n_best(pair, length_penalty):
    ours, theirs = pair
    options = {"n_best": 3, "length_penalty": length_penalty}
    expected = ours.hypotheses(TEXTS, **options)
    assert len({one.token_ids for answers in expected for one in answers}) > 7
    check_equal(theirs.hypotheses(TEXTS, **options), expected)


@pytest.mark.slow
@pytest.mark.parametrize("patience", [None, 1.0, 0.5])
def test_patience(pair, patience, monkeypatch):
    for translator in pair:
        monkeypatch.setitem(translator.decoding, "patience", patience)
    ours, theirs = pair
    check_equal(theirs.hypotheses(TEXTS, length_penalty=1.0), ours.hypotheses(TEXTS, length_penalty=1.0))


@pytest.mark.parametrize(("beam_size", "max_length"), [(1, 5), (2, 19), (7, 5), (3, 1)])
@pytest.mark.slow
def test_beams_and_limits(pair, beam_size, max_length):
    ours, theirs = pair
    options = {"beam_size": beam_size, "max_length": max_length}
    check_equal(theirs.hypotheses(TEXTS, **options), ours.hypotheses(TEXTS, **options))


@pytest.mark.slow
def test_attention_is_ours(pair):
    ours, theirs = pair
    expected = ours.hypotheses(TEXTS, attention=True)
    for (answer,), (other,) in zip(theirs.hypotheses(TEXTS, attention=True), expected, strict=True):
        assert answer.tokens == other.tokens
        np.testing.assert_allclose(answer.heads, other.heads, atol=1e-5)


@pytest.mark.slow
def test_stream(pair):
    for text in TEXTS:
        ours, theirs = ("".join(translator.stream(text)) for translator in pair)
        assert theirs == ours


@pytest.mark.slow
def test_search_in_a_graph(pair):
    """What the server calls; the rows that fill up a batch are equal."""
    ours, theirs = pair
    options = {"beam_size": 3, "n_best": 2, "length_penalty": 1.0, "coverage_penalty": 0.0, "patience": 2.0}
    source_ids = np.array([[5, 7, END_ID, 0], [11, 5, 13, END_ID], [5, 7, END_ID, 0]], "int32")
    limits = np.array([7, 11, 7], "int32")
    actual, expected = (one.compiled.in_graph(13, **options, unknowns=False)(source_ids, limits) for one in pair)
    for field, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(field, other, atol=1e-4)


def test_unsupported_options_are_refused(pair, monkeypatch):
    _, theirs = pair
    monkeypatch.setitem(theirs.decoding, "length_offset", 4096)
    with pytest.raises(UserError, match="no coverage penalty"):
        theirs.translate(ENGLISH[0], coverage_penalty=0.3)
    with pytest.raises(UserError, match="other random numbers"):
        list(theirs.stream(ENGLISH[0], temperature=0.7))
    with pytest.raises(UserError, match=r"positions of this model. Received: max_length=2000"):
        theirs.translate(ENGLISH[0], max_length=2000)
    with pytest.raises(UserError, match="Received: compute_type=float9"):
        theirs.use_engine("ctranslate2", compute_type="float9")
    with pytest.raises(UserError, match="This model is an AttentionSeq2Seq, but CTranslate2 runs Transformers only"):
        tiny_translator().use_engine("ctranslate2")


def test_without_the_package(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"pip install -e '.*\[ctranslate2\]'"):
        pair[0].use_engine("ctranslate2")


def candidate(length, log_prob, ended=True):
    return Candidate([5] * (length - 1) + [END_ID if ended else 7], log_prob)


def test_candidates_are_uncertain_if_a_dropped_one_could_win():
    """Two are asked for. What was dropped has at most the last's log probability and at most the longest's length."""
    limits = {"limit": 11, "beam_size": 2, "length_penalty": 2.0}
    candidates = [candidate(3, -2.0), candidate(7, -2.1), candidate(3, -2.2)]
    assert is_certain(candidates, most=3, n_best=1, **limits)  # -2.1 / (12 / 6)^2 is more than -2.2 / (12 / 6)^2
    assert not is_certain(candidates, most=3, n_best=2, **limits)  # -2.0 / (8 / 6)^2 is less
    assert is_certain(candidates, most=5, n_best=2, **limits)  # none was dropped
    assert is_certain(candidates, most=3, n_best=2, **{**limits, "length_penalty": 0.0})
    assert not is_certain(candidates, most=5, n_best=1, **{**limits, "limit": 5})  # longer than this sentence may be
    assert not is_certain([*candidates, candidate(11, -9.0, ended=False)], most=5, n_best=1, **limits)
    alone = {"most": 1, "beam_size": 1, "n_best": 1, "length_penalty": 0.0}
    assert is_certain([candidate(11, -9.0, ended=False)], limit=11, **alone)
    assert not is_certain([candidate(11, -9.0)], limit=7, **alone)


def test_which_hypotheses_exist_when_our_search_stops():
    given = [candidate(3, -1.0), candidate(5, -2.0), candidate(5, -3.0), candidate(7, -0.5), candidate(11, -0.1, False)]
    assert ended_in_time(given, 2) == given[:3]  # two of them end at the fifth step
    assert ended_in_time(given, 4) == given[:4]
    assert ended_in_time(given, 5) == ended_in_time(given, None) == given
    assert ranked(given, 0.0)[0].length == 7
    assert not ranked(given, 0.0)[-1].ended


@pytest.mark.slow
def test_sentences_are_searched_again_where_it_is_not_certain(pair, monkeypatch):
    ours, theirs = pair
    monkeypatch.setattr(ctranslate2_engine, "is_certain", lambda *arguments: False)
    check_equal(theirs.hypotheses(TEXTS, n_best=2), ours.hypotheses(TEXTS, n_best=2))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["transformer_tiny_multi30k_en_de", "translator_small_en_de"])
def test_hundreds_of_sentences_of_trained_models(name):
    ours = load_pipeline(name, "translate")
    texts = [example["source"] for example in ours.entry.metrics["examples"]]
    halves = [(text[: len(text) // 2].rsplit(" ", 1)[0], text[len(text) // 2 :].split(" ", 1)[-1]) for text in texts]
    texts = [f"{first} {second}" for first, _ in halves for _, second in halves]
    theirs = load_pipeline(name, "translate")
    theirs.use_engine("ctranslate2")
    expected = ours.translate(texts)
    assert len(set(expected)) > 100
    assert theirs.translate(texts) == expected
