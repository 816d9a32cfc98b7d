"""A classifier that judges together with a bag of words, and files of words that are not what they should be."""

import shutil
import zlib

import h5py
import numpy as np
import pytest
from zoo.tiny_bert import TEXTS, task, tiny_classifier, tokenizer
from zoo.tiny_entry import METRICS

import keras_attention
from keras_attention.evaluation.bag_of_words import Blend, fit_bag_of_words
from keras_attention.support.errors import EntryError
from keras_attention.zoo.entry import write_manifest
from keras_attention.zoo.entry_io import write_entry
from keras_attention.zoo.weights_file import save_words

WEIGHT = 0.35


@pytest.fixture(scope="module")
def blended():
    classifier = tiny_classifier("multiclass")
    words = fit_bag_of_words(TEXTS * 3, None, np.arange(12) % 3, "multiclass", 3).stored()
    classifier.blend = Blend(words, WEIGHT)
    return classifier


def write(folder, classifier, **changes):
    words = classifier.blend.words
    arrays = {"idf": words.idf, "kernel": words.kernel, "bias": words.bias}
    about = {"language": "en", "max_tokens": 23, "task": task("multiclass")}
    about |= {"words": {"num_terms": len(words.terms), "weight": WEIGHT, **changes}}
    metrics = {**METRICS, "examples": [], "parameters": classifier.model.count_params(), "pictures": []}
    files = [lambda place: save_words(place, words.terms, arrays)]
    return write_entry(folder, classifier.model, {"text": tokenizer()}, about=about, metrics=metrics, extra_files=files)


@pytest.mark.slow
def test_both_judge(blended, tmp_path):
    alone = tiny_classifier("multiclass")
    logits = np.array([alone.logits(alone.sequences([text]))[0] for text in TEXTS])
    mean = (1 - WEIGHT) * logits + WEIGHT * blended.blend.words.logits(TEXTS)
    expected = np.exp(mean - np.logaddexp.reduce(mean, axis=1, keepdims=True))
    loaded = keras_attention.load(write(tmp_path / "both", blended).folder)
    for classifier in (blended, loaded):
        for answer, row in zip(classifier.classify(TEXTS, return_scores=True), expected, strict=True):
            assert answer.probabilities == pytest.approx(dict(zip("abc", row, strict=True)), abs=1e-4)


@pytest.mark.slow
def test_letters_are_counted_after_loading_too(tmp_path):
    classifier = tiny_classifier("multiclass")
    letters = fit_bag_of_words(TEXTS * 3, None, np.arange(12) % 3, "multiclass", 3, units="letters").stored()
    classifier.blend = Blend(letters, WEIGHT)
    assert classifier.config_keys()["words"] == {"num_terms": len(letters.terms), "weight": WEIGHT, "units": "letters"}
    loaded = keras_attention.load(write(tmp_path / "both", classifier, units="letters").folder)
    assert loaded.blend.words.units == "letters"
    expected, answers = (one.classify(TEXTS, return_scores=True) for one in (classifier, loaded))
    for one, other in zip(expected, answers, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


def test_the_attention_page_tells_the_share_of_the_words(blended):
    note = blended.attention_view(TEXTS[0]).data["note"]
    assert note.endswith("35% of the answer is from a bag of words, which has no attention")


def test_too_improbable_is_unsure(blended, monkeypatch):
    monkeypatch.setitem(blended.task, "min_probability", 0.999)
    assert blended.classify(TEXTS[0]) is None
    assert blended.classify(TEXTS[0], threshold=0.0) is not None


def change(name, function):
    def damage(folder):
        with h5py.File(folder / "words.h5", "r+") as file:
            values = function(file[name][()])
            del file[name]
            file[name] = values

    return damage


def change_content(name, function):
    """Changes the bytes that are compressed in an array."""

    def changed(packed):
        return np.frombuffer(zlib.compress(function(zlib.decompress(packed.tobytes()))), "uint8")

    return change(name, changed)


DAMAGES = {
    "lacks 'words.h5'": lambda folder: (folder / "words.h5").unlink(),
    "'kernel' holds NaN or infinity": change("kernel", lambda x: x * np.float16(np.nan)),
    "'idf' must be numbers from 0.001 to 1000": change_content("idf", lambda x: x[:-4] + np.float32(np.inf).tobytes()),
    "'idf' must be numbers from": change_content("idf", lambda x: b"\0" * len(x)),
    "'kernel' has the weight 3e.38. Expected: at most": change("kernel", lambda x: np.full(x.shape, 3e38, "float32")),
    "'bias' has the weight 1e.21. Expected: at most": change("bias", lambda x: np.full(x.shape, -1e21, "float32")),
    "'idf' does not hold exactly [0-9]+ numbers": change_content("idf", lambda x: x[:-4]),
    "'kernel' has shape and dtype": change("kernel", lambda x: x.astype("float64")),
    "'terms' cannot be inflated": change("terms", lambda x: x[5:]),
    "different terms. Expected": change_content("terms", lambda text: text + b"\nmore"),
    "[0-9] different terms. Expected": change_content("terms", lambda x: x.replace(b"a\n", b"dog\n", 1)),
    "is not a term of at most 64 characters": change_content("terms", lambda x: x.replace(b"dog", b"d\x07g", 1)),
    "is not UTF-8": change_content("terms", lambda x: x.replace(b"dog", b"d\xffg", 1)),
    "'terms' does not hold exactly [0-9]+ terms": change_content("terms", lambda x: x + b" " * 90_000),
    "has 9[0-9]* bytes. Allowed": change("terms", lambda x: np.zeros(90_000, "uint8")),
}


@pytest.fixture(scope="module")
def written(blended, tmp_path_factory):
    """The folder of an entry with words."""
    return write(tmp_path_factory.mktemp("zoo") / "both", blended).folder


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_words_are_refused(written, tmp_path, message):
    folder = shutil.copytree(written, tmp_path / "both")
    DAMAGES[message](folder)
    (folder / "manifest.json").unlink()
    write_manifest(folder)
    message = "has .* bytes. Allowed" if "Allowed" in message else message
    with pytest.raises(EntryError, match=message):
        keras_attention.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"weight": 1.5}, "weight=1.5"), ({"num_terms": 10**9}, "num_terms"), ({"units": "x"}, "units=.x")],
)
def test_settings_out_of_range(blended, tmp_path, changes, message):
    with pytest.raises(EntryError, match=message):
        write(tmp_path / "both", blended, **changes)
