"""What is prepared for a GPU without network, trained there, and brought back."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from keras_attention.models import BertEncoder
from keras_attention.tokenizers import WordPieceTokenizer

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / "recipes" / "tools" / "gpu"
VOCABULARY = ROOT / "saved_models" / "minilm_small_en" / "tokenizer" / "vocab.txt"
TREE = "(1 (-1 The) (0 (-1 worst) (1 (-1 -LRB-) (1 film))))"
TEXTS = ["A café, quickly reopened.", "xylophones", "", "Both (of 1,998) were Schleswig's", "word " * 23]


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module(name)


@pytest.fixture(autouse=True)
def forget_tools():
    yield
    for name in ("pack", "texts", "encoders", "batches"):
        sys.modules.pop(name, None)


def test_packed_tensors(monkeypatch):
    pack = load("pack", monkeypatch)
    rng = np.random.default_rng(2)
    tensors = {"matrix": rng.normal(size=(7, 311)) * rng.uniform(0.01, 5, (7, 1)), "vector": rng.normal(size=13)}
    tensors["zeros"], tensors["ids"] = np.zeros((3, 5)), np.arange(11)
    actual = pack.unpack_tensors(pack.pack_tensors(tensors, steps=10))
    assert set(actual) == {"matrix", "vector", "zeros"}  # integers, such as position ids, are left out
    rms = np.sqrt((tensors["matrix"] ** 2).mean(axis=1, keepdims=True))
    assert np.all(np.abs(actual["matrix"] - tensors["matrix"]) <= 0.5 * rms / 10 * 1.001)
    np.testing.assert_array_equal(actual["vector"], tensors["vector"].astype(np.float32))
    np.testing.assert_array_equal(actual["zeros"], 0)


def test_phrases_of_a_tree(monkeypatch):
    actual = load("pack", monkeypatch).phrases(TREE)
    expected = [("-1", "the"), ("-1", "worst"), ("-1", "-lrb-"), ("1", "film"), ("1", "-lrb- film")]
    assert actual == [*expected, ("0", "worst -lrb- film"), ("1", "the worst -lrb- film")]


@pytest.mark.parametrize("most", [256, 11])
def test_ids_of_teacher_and_student(monkeypatch, most):
    """The student's ids are those of its own vocabulary, and each knows the teacher's token in its place."""
    texts = load("texts", monkeypatch)
    pieces = VOCABULARY.read_text(encoding="utf-8").split("\n")[:-1]
    fewer = [piece for i, piece in enumerate(pieces) if i % 3 or len(piece.removeprefix("##")) == 1 or "[" in piece]
    actual = texts.texts_to_ids(texts.Tokenizer(fewer, pieces), TEXTS, most, most)
    sides = ((pieces, actual.teacher, actual.teacher_lengths), (fewer, actual.student, actual.student_lengths))
    for vocabulary, ids, lengths in sides:
        tokenizer = WordPieceTokenizer(vocabulary)
        rows = np.split(ids, np.cumsum(lengths)[:-1])
        for row, expected in zip(rows, tokenizer.encode(TEXTS), strict=True):
            expected = expected[texts.without_middle(len(expected), most - 2)]
            np.testing.assert_array_equal(row, [tokenizer.start_id, *expected, tokenizer.end_id])
    assert not np.array_equal(actual.teacher_lengths, actual.student_lengths) or most < 256
    places = np.split(actual.source, np.cumsum(actual.student_lengths)[:-1])
    for row, length in zip(places, actual.teacher_lengths, strict=True):
        assert (row[0], row[-1]) == (0, length - 1)
        assert np.all(np.diff(row) >= 0)


def test_without_middle(monkeypatch):
    without_middle = load("texts", monkeypatch).without_middle
    assert without_middle(5, 7).tolist() == [0, 1, 2, 3, 4]
    assert without_middle(11, 5).tolist() == [0, 1, 8, 9, 10]


def test_the_encoder_is_ours(monkeypatch):
    """The same weights give the same vectors in PyTorch and in this package."""
    torch = pytest.importorskip("torch")
    encoders = load("encoders", monkeypatch)
    ours = BertEncoder(53, 36, 144, num_heads=12, num_layers=2, max_length=17, dropout=0.0)
    ours.build()
    theirs = encoders.Encoder(53, 36, 2, 17, 1e-12).eval()
    monkeypatch.syspath_prepend(str(TOOLS))
    from keras_attention.convert.published_weights import hugging_face_name

    weights = {hugging_face_name("encoder/" + w.path.removeprefix(f"{ours.name}/"), "bert"): w for w in ours.weights}
    state = {}
    for name in theirs.state_dict():
        value = np.asarray(weights["bert." + encoders.published_name(name)])
        shape = theirs.state_dict()[name].shape
        matrix = name.startswith("layers") and value.ndim > 1 and name.endswith("weight")
        state[name] = torch.tensor(value.reshape(tuple(shape)[::-1]).T.copy() if matrix else value.reshape(shape))
    theirs.load_state_dict(state)
    ids = np.random.default_rng(5).integers(1, 53, (3, 13))
    ids[1, 7:] = 0
    with torch.no_grad():
        actual = theirs(torch.tensor(ids), torch.tensor(ids > 0)).numpy()
    expected = np.asarray(ours({"token_ids": ids}))
    np.testing.assert_allclose(actual[ids > 0], expected[ids > 0], atol=2e-5)


def test_batches(monkeypatch):
    """Every text once, of one padded length, within the limit; padding is masked."""
    pytest.importorskip("torch")
    batches = load("batches", monkeypatch)
    rng = np.random.default_rng(7)
    lengths = rng.integers(2, 41, 101)
    corpus = batches.Corpus(np.arange(1, lengths.sum() + 1), lengths)
    chosen = rng.permutation(101)[:67]
    batches_made = corpus.batches(131, rng, chosen)
    assert sorted(np.concatenate(batches_made)) == sorted(chosen)
    for batch in batches_made:
        ids, mask, segments = corpus.batch(batch, sep=-1)
        assert segments is None
        assert len(batch) == 1 or ids.numel() <= 131
        assert ids.shape[1] % 8 == 0
        for row, is_token, text in zip(ids.numpy(), mask.numpy(), batch, strict=True):
            begin = lengths[:text].sum()
            np.testing.assert_array_equal(row[is_token], np.arange(begin + 1, begin + lengths[text] + 1))
            assert not row[~is_token].any()
