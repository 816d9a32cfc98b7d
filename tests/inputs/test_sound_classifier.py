"""A classifier of sounds: saved, loaded, from the command line, over HTTP, exported with waveforms in."""

import base64
import json

import keras
import numpy as np
import pytest
from inputs.sounds import RATE, encoded, forms, hostile, tone
from server.tiny_zoo import server_in_this_process

from keras_attention import load
from keras_attention.cli.main import main
from keras_attention.evaluation.bag_of_words import Blend
from keras_attention.inputs.sound import SoundInput
from keras_attention.models import PatchClassifier
from keras_attention.pipelines.input_classifier import InputClassifier

TASK = {
    "kind": "multiclass",
    "label_names": ["low", "high", "noise"],
    "separator": None,
    "threshold": 0.5,
    "pair": False,
}
SIZES = {"hidden_dim": 14, "intermediate_dim": 11, "num_heads": 2, "num_layers": 1}


def clips():
    return [tone(hertz=220), tone(hertz=1300), np.random.default_rng(5).normal(size=5003)]


def classifier(size=(24, 16, 1), patch_size=(4, 8), blended=True):
    keras.utils.set_random_seed(5)
    model = PatchClassifier(3, size, patch_size, **SIZES)
    model.build()
    model.output_dense.kernel.assign(np.random.default_rng(7).normal(size=(14, 3)))
    made = InputClassifier(model, SoundInput(size, rate=RATE, window=257, hop=199), TASK, samples=clips())
    if blended:
        random = np.random.default_rng(11)
        count = made.feature_vectors(made.single_sequences(clips())).shape[1]
        kernel = random.normal(size=(count, 3)).astype("float32")
        made.blend = Blend(made.feature_model(kernel, np.array([0.1, -0.3, 0.2], "float32")).stored(), 0.3)
    return made


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    zoo = tmp_path_factory.mktemp("zoo")
    classifier().save(zoo / "tones")
    for name, samples in zip("abc", clips(), strict=True):
        (zoo.parent / f"{name}.wav").write_bytes(encoded(samples / 4))
    return zoo


def test_saved_and_loaded(zoo):
    loaded, made = load(zoo / "tones"), classifier()
    assert loaded.input.config_keys() == {"rate": RATE, "window": 257, "hop": 199}
    assert loaded.blend.weight == 0.3
    for one, other in zip(*(each.classify(clips(), return_scores=True) for each in (loaded, made)), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    assert main(["zoo", "verify", str(zoo / "tones")]) == 0


def test_the_blend_is_the_weighted_mean_of_both_logits():
    both, network = classifier(), classifier(blended=False)
    features = both.feature_vectors(both.single_sequences(clips()))
    words, weight = both.blend
    logits = (1 - weight) * network.logits(network.sequences(clips())) + weight * (features @ words.kernel + words.bias)
    for answer, row in zip(both.classify(clips(), return_scores=True), logits, strict=True):
        expected = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
        actual = [answer.probabilities[name] for name in TASK["label_names"]]
        np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_frames_over_all_bands_are_patches_too():
    made = classifier((24, 16), (4,), blended=False)
    assert made.classify(clips()[0]) in TASK["label_names"]


def test_one_line_a_file(zoo, capsys):
    files = [str(zoo.parent / f"{name}.wav") for name in "abc"]
    assert main(["classify", "--model", str(zoo / "tones"), *files, "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["file"] for answer in answers] == files
    assert [answer["label"] for answer in answers] == [answer["labels"][0] for answer in answers]
    assert [answer["truncated"] for answer in answers] == [True, True, True]
    (zoo.parent / "text.wav").write_text("hello")
    assert main(["classify", "--model", str(zoo / "tones"), files[0], str(zoo.parent / "text.wav")]) == 2
    err = capsys.readouterr().err
    assert "text.wav is not a sound that can be read" in err
    assert len(err.splitlines()) == 1


def test_the_server_answers_for_sounds(zoo):
    import urllib.error
    import urllib.request

    def ask(url, **body):
        request = urllib.request.Request(f"{url}/v1/classify", json.dumps(body).encode())
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    contents = [forms()[name] for name in ("16 bits", "OGG", "stereo")]
    expected = load(zoo / "tones").classify(contents, return_scores=True)
    with server_in_this_process(zoo) as (url, _):
        status, reply = ask(url, sounds=[base64.b64encode(content).decode() for content in contents])
        assert status == 200
        for answer, one in zip(reply["answers"], expected, strict=True):
            assert (answer["label"], answer["truncated"]) == (one.label, one.truncated)
        for name in ("text", "NaN", "two hours", "empty", "rate 0"):
            content, message = hostile()[name]
            status, reply = ask(url, sounds=[base64.b64encode(content).decode()])
            assert status == 422
            assert message in str(reply["error"])


def test_the_server_reads_no_file_that_a_request_names(zoo):
    import urllib.error
    import urllib.parse
    import urllib.request

    named = urllib.parse.urlencode({"model": "tones", "text": str(zoo.parent / "a.wav")})
    with server_in_this_process(zoo) as (url, _):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/attention?{named}")
        assert refused.value.code == 422
        assert "Attention is shown for texts" in refused.value.read().decode()
        (about,) = json.load(urllib.request.urlopen(f"{url}/v1/models"))["models"]
        assert about["attention"] is False


def test_attention_over_the_spectrogram(zoo, tmp_path, capsys):
    files = [str(zoo.parent / f"{name}.wav") for name in "ab"]
    command = ["classify", "--model", str(zoo / "tones"), *files, "--attention"]
    assert main([*command, str(tmp_path / "map.png")]) == 0
    assert (tmp_path / "map-1.png").stat().st_size > 1000 < (tmp_path / "map-2.png").stat().st_size
    assert main([*command[:4], "--attention", str(tmp_path / "map.html")]) == 0
    page = (tmp_path / "map.html").read_text()
    assert page.count("<rect ") == (1 + 1 * 2) * 6 * 2  # rollout and heads, patches
    assert "30% of the answer is from a logistic regression on MFCC" in page
    capsys.readouterr()
    assert main([*command, str(tmp_path / "map.txt")]) == 2
    assert capsys.readouterr().err.count("\n") == 1

    model = classifier(blended=False)
    view = model.attention_view(clips()[0])
    arrays = {name: array[None] for name, array in model.single_sequences(clips()[:1])[0].items()}
    _, weights = model.model(arrays, return_attention_scores=True)  # (1, L, H, N, N)
    expected = np.asarray(weights)[0, 0, 1, 0, 1:].reshape(6, 2)  # of [CLS], in the second head
    np.testing.assert_allclose(view.weights[0, 1], expected, atol=1e-6)
    assert view.title.startswith(model.classify(clips()[0]))


def test_similarity_of_positions(zoo, tmp_path, capsys):
    assert main(["zoo", "show", str(zoo / "tones"), "--positions", str(tmp_path / "positions.png")]) == 0
    assert (tmp_path / "positions.png").stat().st_size > 1000
    assert main(["zoo", "show", str(zoo / "tones"), "--positions", str(tmp_path / "positions.html")]) == 2
    assert main(["zoo", "show", "rnn_attention_dates", "--positions", str(tmp_path / "other.png")]) == 2
    assert "does not read patches" in capsys.readouterr().err
    assert not (tmp_path / "other.png").exists()


@pytest.mark.slow
def test_exported_with_waveforms_in(zoo, tmp_path):
    import tensorflow as tf

    assert main(["export", str(zoo / "tones"), str(tmp_path / "exported")]) == 0
    answer = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"]
    loaded = load(zoo / "tones")
    recordings = [loaded.input.read(clip) for clip in clips()]
    waveforms = np.stack([0.01 * recording.samples.astype("float32") for recording in recordings])
    actual = answer(waveforms=tf.constant(waveforms))
    expected = loaded.classify(recordings, return_scores=True)
    assert [label.decode() for label in actual["label"].numpy()] == [one.label for one in expected]
    probabilities = [list(one.probabilities.values()) for one in expected]
    np.testing.assert_allclose(actual["probabilities"], probabilities, atol=1e-4)


def test_other_formats_are_refused(zoo, tmp_path, capsys):
    assert main(["export", str(zoo / "tones"), str(tmp_path / "exported"), "--format", "onnx"]) == 2
    assert "cannot be exported as onnx. Formats for this kind of model: saved_model" in capsys.readouterr().err
