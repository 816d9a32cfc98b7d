"""Gaps in texts: the best words together, against the search of everything."""

import numpy as np
import pytest
from keras import ops
from zoo.tiny_bert import TEXTS, tiny_encoder, tiny_mask_filler, tokenizer, write_tiny

import keras_attention
from keras_attention.pipelines.base import failing_examples
from keras_attention.pipelines.mask_filler import MaskFiller
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.support.errors import UserError


def log_probs_at(model, ids, place):
    """The log probabilities of every piece at a place of a row, by hand."""
    logits = ops.convert_to_numpy(model({"token_ids": np.array([ids], "int32")}))[0, place].astype("float64")
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def words():
    """The pieces that may begin a word: every one but the special ones and those with ##."""
    return [i for i, piece in enumerate(tokenizer().vocabulary) if i > 4 and not piece.startswith("##")]


def row_of(text):
    (ids,) = tokenizer().encode([text], masks=True)
    return [tokenizer().start_id, *ids.tolist(), tokenizer().end_id]


def test_one_gap():
    filler = tiny_mask_filler()
    ids = row_of("a [MASK] runs")
    place = ids.index(tokenizer().mask_id)
    log_probs = log_probs_at(filler.model, ids, place)
    best = sorted(words(), key=lambda piece: -log_probs[piece])[:3]
    fillings = filler.fill_mask("a [MASK] runs", top_k=3)
    assert [filling.words for filling in fillings] == [[tokenizer().vocabulary[piece]] for piece in best]
    assert [filling.score for filling in fillings] == pytest.approx(np.exp(log_probs[best]).tolist(), rel=1e-4)
    assert fillings[0].text == f"a {fillings[0].words[0]} runs"


@pytest.mark.slow
def test_two_gaps_are_filled_together():
    filler = tiny_mask_filler(seed=5)
    ids = row_of("[MASK] men [MASK] .")
    first, second = (place for place, piece in enumerate(ids) if piece == tokenizer().mask_id)
    log_first = log_probs_at(filler.model, ids, first)
    joint = {}
    for piece in words():
        filled = [*ids]
        filled[first] = piece
        log_second = log_probs_at(filler.model, filled, second)
        joint |= {(piece, other): log_first[piece] + log_second[other] for other in words()}
    best = sorted(joint, key=lambda pair: -joint[pair])[:2]
    fillings = filler.fill_mask(["[MASK] men [MASK] ."], top_k=len(words()))[0]
    names = tokenizer().vocabulary
    assert [filling.words for filling in fillings[:2]] == [[names[a], names[b]] for a, b in best]
    assert fillings[0].score == pytest.approx(np.exp(joint[best[0]]), rel=1e-4)
    assert fillings[0].score == pytest.approx(np.prod(fillings[0].probabilities))


def test_fewer_answers_are_the_first_of_many():
    filler = tiny_mask_filler(seed=3)
    many = filler.fill_mask("[MASK] men [MASK] .", top_k=17)
    scores = [filling.score for filling in many]
    assert scores == sorted(scores, reverse=True)
    for number in (1, 2, 5):
        assert filler.fill_mask("[MASK] men [MASK] .", top_k=number) == many[:number]


@pytest.mark.slow
def test_words_of_two_pieces():
    filler = tiny_mask_filler(seed=7)
    ids = row_of("a [MASK]")
    place = ids.index(tokenizer().mask_id)
    longer = [*ids[: place + 1], tokenizer().mask_id, *ids[place + 1 :]]
    continuing = [i for i, piece in enumerate(tokenizer().vocabulary) if piece.startswith("##")]
    log_first, joint = log_probs_at(filler.model, longer, place), {}
    for piece in words():
        filled = [*longer]
        filled[place] = piece
        log_second = log_probs_at(filler.model, filled, place + 1)
        joint |= {(piece, other): (log_first[piece] + log_second[other]) / 2 for other in continuing}
    (a, b), value = max(joint.items(), key=lambda item: item[1])
    word = tokenizer().vocabulary[a] + tokenizer().vocabulary[b].removeprefix("##")
    fillings = filler.fill_mask("a [MASK]", top_k=200, max_pieces=2)
    scores = {filling.words[0]: filling.score for filling in reversed(fillings)}
    assert scores[word] == pytest.approx(np.exp(value), rel=1e-4)


def test_many_texts_at_once():
    filler = tiny_mask_filler()
    texts = ["a [MASK] runs", "[MASK] men sit [MASK]", "no [MASK]"]
    assert filler.fill_mask(texts, top_k=2) == [filler.fill_mask(text, top_k=2) for text in texts]
    assert filler.fill_mask([]) == []


def test_masks_may_be_written_in_lower_case():
    filler = tiny_mask_filler()
    expected = filler.fill_mask("a [MASK] runs [MASK]")
    assert filler.fill_mask("a [mask] runs [Mask]") == expected
    assert filler.attention_view("a [mask] runs [Mask]") == filler.attention_view("a [MASK] runs [MASK]")


def test_an_empty_text_has_no_filling_and_keeps_its_place():
    filler = tiny_mask_filler()
    first, nothing, blank, last = filler.fill_mask(["a [MASK]", "", " \u200b", "runs [MASK]"], top_k=2)
    assert (nothing, blank, filler.fill_mask("")) == ([], [], [])
    assert [first, last] == filler.fill_mask(["a [MASK]", "runs [MASK]"], top_k=2)
    assert filler.answers(["", "a [MASK]"]) == ["", first[0].text]
    assert filler.reply([""]) == [{"fillings": [], "truncated": False}]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("no gap", {}, "Found 0 in 'no gap'"),
        ("[MASK] " * 33, {}, "Found 33"),
        ("[MASK] " + "a " * 40 + "[MASK]", {}, "Mask 2 lies beyond the 23 tokens"),
        ("a [MASK]", {"top_k": 0}, "top_k=0"),
        ("a [MASK]", {"max_pieces": 9}, "max_pieces=9"),
    ],
)
def test_bad_input(text, options, message):
    with pytest.raises(UserError, match=message):
        tiny_mask_filler().fill_mask(text, **options)


@pytest.mark.filterwarnings("ignore:1 of 1 texts")
def test_text_beyond_the_limit_is_kept_without_influence():
    filler = tiny_mask_filler()
    long, longer = (filler.fill_mask("men [MASK] " + "a " * count, top_k=2) for count in (40, 60))
    assert [one.words for one in long] == [one.words for one in longer]
    assert all(one.truncated and one.text.endswith("a " * 40) for one in long)
    assert not filler.fill_mask("men [MASK]", top_k=1)[0].truncated


@pytest.mark.slow
def test_an_entry_answers_the_same(tmp_path):
    filler = tiny_mask_filler()
    sources = ["a [MASK] runs", "men [MASK]"]
    examples = [{"source": s, "output": o} for s, o in zip(sources, filler.answers(sources), strict=True)]
    entry = write_tiny(tmp_path / "tiny", filler.model, examples)
    assert ".fill_mask([" in entry.card
    assert failing_examples(entry.folder) == (2, [])
    assert isinstance(keras_attention.load(entry.folder), MaskFiller)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors(tmp_path, pooling):
    model = tiny_encoder()
    write_tiny(tmp_path / "tiny", model)
    loaded = keras_attention.load(tmp_path / "tiny")
    assert isinstance(loaded, TextEncoder)
    encoded = loaded.encode(TEXTS, pooling=pooling)
    for text, pooled, tokens, vectors in zip(TEXTS, encoded.pooled, encoded.tokens, encoded.vectors, strict=True):
        ids = row_of(text)
        expected = ops.convert_to_numpy(model({"token_ids": np.array([ids], "int32")}))[0]
        np.testing.assert_allclose(vectors, expected, atol=1e-4)
        np.testing.assert_allclose(pooled, expected.mean(0) if pooling == "mean" else expected[0], atol=1e-4)
        assert tokens == tokenizer().tokens(ids)
    assert loaded.encode([]).pooled.shape == (0, 14)
    with pytest.raises(UserError, match="pooling='max'"):
        loaded.encode("a", pooling="max")


@pytest.mark.slow
def test_an_entry_says_how_its_vectors_are_made(tmp_path):
    model = tiny_encoder()
    write_tiny(tmp_path / "tiny", model, pooling="cls", normalize=True)
    card = write_tiny(tmp_path / "plain", model).card
    assert "keras_attention.load('plain').encode(['How old are you?', 'What is your age?']).pooled" in card
    assert "# an array (2, 14)" in card
    of_cls = keras_attention.load(tmp_path / "plain").encode(TEXTS, pooling="cls").pooled
    vectors = keras_attention.load(tmp_path / "tiny").encode(TEXTS).pooled
    np.testing.assert_allclose(vectors, of_cls / np.linalg.norm(of_cls, axis=-1, keepdims=True), atol=1e-5)
    mean = keras_attention.load(tmp_path / "tiny").encode(TEXTS, pooling="mean").pooled
    np.testing.assert_allclose(np.linalg.norm(mean, axis=-1), 1.0, atol=1e-5)


def test_a_model_of_another_task_is_refused(tmp_path):
    from keras_attention.pipelines.base import load_pipeline

    write_tiny(tmp_path / "tiny", tiny_encoder())
    with pytest.raises(UserError, match="is a BertEncoder: it can encode. Expected: a model that can translate"):
        load_pipeline(tmp_path / "tiny", "translate")
