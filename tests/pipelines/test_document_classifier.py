"""DocumentClassifier: rows of tokens, what is cut, and the page of the weights."""

import json

import keras
import numpy as np
import pytest
from zoo.tiny_bert import scaled, task, tokenizer, write_tiny

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.evaluation.bag_of_words import Blend, fit_bag_of_words
from keras_attention.models import HierarchicalAttentionClassifier
from keras_attention.pipelines.document_classifier import DocumentClassifier
from keras_attention.support.errors import UserError

W, ROWS = 7, 5
TEXT = "A dog runs over green grass near many red bushes. Two men sit!<br />A girl in a red dress sings."


def network(**settings):
    keras.utils.set_random_seed(5)
    sizes = {"embedding_dim": 11, "hidden_dim": 3, "num_labels": 2, "sentence_length": W}
    return scaled(HierarchicalAttentionClassifier(tokenizer().vocabulary_size, **sizes | settings), 3.0)


def classifier(long_texts="start", max_tokens=W * ROWS, **settings):
    return DocumentClassifier(network(**settings), tokenizer(), max_tokens, {**task(), "long_texts": long_texts})


def rows_of(text):
    ids = [tokenizer().encode([sentence])[0].tolist() for sentence in text.replace("<br />", " ").split("|")]
    return [row[start : start + W] for row in ids for start in range(0, len(row), W)]


def test_each_sentence_starts_a_row_and_long_ones_continue():
    (sequence,) = classifier(max_tokens=500).single_sequences([TEXT])
    marked = TEXT.replace(". ", ".|").replace("<br />", "|")
    expected = [row + [0] * (W - len(row)) for row in rows_of(marked)]
    assert sequence.token_ids.reshape(-1, W).tolist() == expected
    assert not sequence.truncated


@pytest.mark.parametrize(("long_texts", "kept"), [("start", [0, 1, 2, 3, 4]), ("ends", [0, 1, 2, 7, 8])])
def test_long_documents_lose_rows(long_texts, kept):
    text = " ".join(f"{word}." for word in ("Near", "dog", "men", "runs", "red", "girl", "Two", "sit", "grass"))
    (whole,) = classifier(max_tokens=500).single_sequences([text])
    with pytest.warns(UserWarning, match="more than the 35 tokens that this model reads"):
        (cut,) = classifier(long_texts).single_sequences([text], warn=True)
    assert cut.truncated
    assert cut.token_ids.tolist() == whole.token_ids.reshape(-1, W)[kept].ravel().tolist()


def test_a_document_read_whole_has_several_sequences():
    text = " ".join(["A dog runs."] * 12)
    (actual,) = classifier("whole").sequences([text])
    assert [len(sequence.token_ids) for sequence in actual] == [W * ROWS] * 3
    logits = classifier("whole").logits([actual])
    alone = classifier("whole").logits([[one] for one in actual])
    np.testing.assert_allclose(logits[0], alone.mean(axis=0), atol=1e-6)


def test_answers_do_not_depend_on_the_other_documents():
    model, texts = classifier(), [TEXT, "Men sit.", "", " ".join(["Two men."] * 30), "A girl sings. A dog runs."]
    with pytest.warns(UserWarning, match="1 of 5 texts"):
        together = model.classify(texts, return_scores=True)
    assert together[2].label is None
    for text, answer in zip(texts[:2], together, strict=False):
        alone = model.classify(text, return_scores=True)
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-5)


def test_the_page_shades_the_document_by_the_weights():
    model = classifier(max_tokens=500)
    (document,) = model.attention_view(TEXT).documents
    sentences = document["sentences"]
    assert [TEXT[one["start"] : one["end"]] for one in sentences] == [
        "A dog runs over green grass near many red bushes.", "Two men sit!", "A girl in a red dress sings."
    ]  # fmt: skip
    (sequence,) = model.single_sequences([TEXT])
    _, weights = model.model(sequence.token_ids[None], return_attention_scores=True)
    of_rows = np.asarray(weights["sentences"])[0]
    assert sum(one["weight"] for one in sentences) == pytest.approx(1, abs=1e-5)
    rows = len(rows_of("A girl in a red dress sings."))
    assert sentences[-1]["weight"] == pytest.approx(of_rows[-rows:].sum(), abs=1e-5)
    for sentence in sentences:
        assert sum(weight for *_, weight in sentence["words"]) == pytest.approx(sentence["weight"], abs=1e-5)
        start, end, _ = sentence["words"][-1]
        assert TEXT[start:end].strip() == TEXT[start:end]
        assert end == sentence["end"]
    page = model.attention_view(TEXT + " <script>alert(1)</script>").html
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.replace("</span>", "")


@pytest.mark.parametrize(
    ("weight", "note"),
    [
        (0.0, None),
        (0.65, "65% of the answer is from a bag of words, which has no attention"),
        (1.0, "The answer is from a bag of words alone: these weights of the network have no part in it"),
    ],
)
def test_the_page_tells_the_share_of_the_bag_of_words(weight, note):
    model = classifier(max_tokens=500)
    model.blend = Blend(fit_bag_of_words([TEXT, "Men sit."], None, np.array([0, 1]), "binary", 2), weight)
    page = model.attention_view(TEXT).html
    assert ("bag of words" in page) == (note is not None)
    assert note is None or note in page


def test_other_poolings_have_no_page():
    model = classifier(pooling="max")
    assert not model.has_attention
    with pytest.raises(UserError, match="no attention"):
        model.attention_view(TEXT)


def test_second_texts_are_refused():
    with pytest.raises(UserError, match="single texts: leave out the second"):
        classifier().classify(["a"], ["b"])


def test_an_entry_answers_as_before(tmp_path, capsys):
    entry = write_tiny(tmp_path / "mine", network(), task=task())
    loaded = load(entry.folder)
    assert loaded.input.name == "document"
    page = tmp_path / "page.html"
    assert main(["classify", "--model", str(entry.folder), TEXT, "", "--attention", str(page), "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers[0]["label"] == loaded.classify(TEXT)
    assert answers[1]["label"] is None
    assert "girl" in (tmp_path / "page-1.html").read_text(encoding="utf-8")
    assert (tmp_path / "page-2.html").exists()
    assert not page.exists()


def test_attention_of_documents_is_written_as_html_only(tmp_path, capsys):
    entry = write_tiny(tmp_path / "mine", network(), task=task())
    assert main(["classify", "--model", str(entry.folder), TEXT, "--attention", str(tmp_path / "page.png")]) == 2
    assert "must end with .html" in capsys.readouterr().err
