"""A Transformer in the zoo and in a translator: what the recurrent model can, it can too."""

import numpy as np
import pytest
from pipelines.test_attention_view import check_projections, data_of, weights_of
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts, write_tiny_entry

from keras_attention.models import Transformer
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.translator import Translator
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, START_ID

pytestmark = pytest.mark.slow

L, H = 2, 3


def make_parts(**settings):
    _, source, target = tiny_parts()
    sizes = {"hidden_dim": 12, "intermediate_dim": 19, "num_heads": H, "num_decoder_layers": L}
    model = Transformer(source.vocabulary_size, target.vocabulary_size, **sizes, tie_embeddings="none", **settings)
    model.build()
    model.output_projection.kernel.assign(model.output_projection.kernel * 3.0)  # answers differ from each other
    return model, source, target


@pytest.fixture(scope="module")
def parts():
    return make_parts()


@pytest.fixture(scope="module")
def translator(parts):
    return Translator(*parts, DECODING)


def test_the_page_of_its_attention(translator):
    expected = translator.translate(ENGLISH[0], n_best=2, return_attention=True)
    for answer, one in zip(data_of(translator.attention_view(ENGLISH[0], n_best=2))["answers"], expected, strict=True):
        cross, reading, writing = answer["maps"]
        np.testing.assert_allclose(weights_of(cross), one.heads, atol=0.01)
        assert (reading["layers"], reading["heads"], reading["rows"]) == (4, H, one.source_tokens)
        assert writing["rows"] == ["<s>", *one.tokens[:-1]]
        assert np.triu(weights_of(writing)[0, 0], 1).max(initial=0) == 0  # nothing looks ahead
        for stored in answer["maps"]:
            check_projections(stored)
        np.testing.assert_allclose(weights_of(writing).sum(axis=-1), 1, atol=0.05)


def test_a_stored_transformer_answers_the_same(parts, translator, tmp_path):
    write_tiny_entry(tmp_path / "tiny", parts)
    loaded = load_pipeline(tmp_path / "tiny", "translate")
    expected = translator.hypotheses(ENGLISH, n_best=2)
    for answers, others in zip(loaded.hypotheses(ENGLISH, n_best=2), expected, strict=True):
        assert [answer.tokens for answer in answers] == [answer.tokens for answer in others]
        assert [answer.score for answer in answers] == [answer.score for answer in others]


def test_attention_of_every_layer_and_head(parts, translator):
    model, source, target = parts
    answer = translator.translate(ENGLISH[1], return_attention=True)
    shape = (len(answer.tokens), len(answer.source_tokens))
    assert answer.attention.shape == shape
    assert answer.heads.shape == (L, H, *shape)
    np.testing.assert_allclose(answer.heads.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(answer.attention, answer.heads.mean(axis=(0, 1)), atol=1e-6)
    source_ids = np.append(source.encode([ENGLISH[1]])[0], END_ID)[None].astype("int32")
    ids = [END_ID if piece == "</s>" else int(target.encode([piece])[0][0]) for piece in answer.tokens]
    inputs = {"source_ids": source_ids, "target_ids": np.array([[START_ID, *ids[:-1]]], "int32")}
    np.testing.assert_allclose(answer.heads, np.asarray(model.cross_attention(inputs))[0], atol=1e-5)


@pytest.mark.thorough
def test_coverage_penalty_counts_the_mean_attention(translator):
    plain = translator.translate(ENGLISH[1], return_attention=True, length_penalty=0.0)
    punished = translator.hypotheses(ENGLISH[1], n_best=3, attention=True, length_penalty=0.0, coverage_penalty=0.5)[0]
    for answer in punished:
        covered = np.log(np.minimum(answer.attention.sum(axis=0), 1.0)).sum()
        np.testing.assert_allclose(answer.score, answer.log_prob + 0.5 * covered, atol=1e-3)
    assert plain.score == pytest.approx(plain.log_prob, abs=1e-4)


@pytest.mark.thorough
def test_other_rows_of_a_batch_change_nothing(translator):
    together = translator.hypotheses(ENGLISH)
    assert len({answer.text for (answer,) in together}) > 1
    for text, (answer,) in zip(ENGLISH, together, strict=True):
        ((alone,),) = translator.hypotheses([text])
        assert alone.tokens == answer.tokens
        assert alone.score == pytest.approx(answer.score, abs=1e-5)


def test_an_ssru_decoder_in_an_entry(tmp_path):
    """Search, stream, attention view and a stored entry; CTranslate2 cannot run it, and says so."""
    parts = make_parts(decoder="ssru")
    translator = Translator(*parts, DECODING)
    write_tiny_entry(tmp_path / "tiny", parts)
    loaded = load_pipeline(tmp_path / "tiny", "translate")
    assert loaded.model.decoder == "ssru"
    answer = translator.translate(ENGLISH[1], return_attention=True)
    assert answer.heads.shape == (L, H, len(answer.tokens), len(answer.source_tokens))
    assert loaded.translate(ENGLISH[1]) == answer.text
    assert "".join(loaded.stream(ENGLISH[1])) == loaded.translate(ENGLISH[1], beam_size=1)
    (shown,) = data_of(translator.attention_view(ENGLISH[1]))["answers"]
    assert [len(weights["rows"]) for weights in shown["maps"]] == [len(answer.tokens), len(answer.source_tokens)]
    with pytest.raises(UserError, match=r"decoder ssru, but CTranslate2 runs decoders with self-attention only"):
        loaded.use_engine("ctranslate2")
