"""A captioner as a pipeline, as an entry, on the command line and at the server."""

import base64
import io
import itertools
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from inputs.pictures import hostile
from PIL import Image
from pipelines.tiny_captioner import tiny_captioner, tiny_scenes, tokenizer

import keras_attention as ka
from keras_attention.cli import main as cli
from keras_attention.data.images.caption_data import CaptionedPicture
from keras_attention.pipelines.base import failing_examples
from keras_attention.pipelines.media.captioner import Caption
from keras_attention.publishing.caption_entries import caption_scores
from keras_attention.runtime.work_budget import MemoryBudget, Unwanted, cache_bytes, working
from keras_attention.support.errors import EntryError, UserError


@pytest.fixture(scope="module", params=["soft", "hard"])
def attention(request):
    return request.param


@pytest.fixture(scope="module")
def saved(attention, tmp_path_factory):
    """The folder of a zoo with the entry `tiny_captions`; tests do not change it."""
    zoo = tmp_path_factory.mktemp("zoo")
    tiny_captioner(attention).save(zoo / "tiny_captions")
    return zoo


@pytest.fixture(scope="module")
def captioner(saved):
    return ka.load(saved / "tiny_captions")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number, scene in enumerate(tiny_scenes()):
        Image.fromarray(scene.pixels[..., 0]).save(folder / f"{number}.png")
    return [str(folder / f"{number}.png") for number in range(len(tiny_scenes()))]


@pytest.mark.slow
def test_a_caption_has_the_probability_and_the_attention_of_the_network(captioner, pictures):
    answers = captioner.caption(pictures[:3], n_best=2)
    pixels = np.stack([scene.pixels for scene in tiny_scenes()])
    values = (pixels.astype("float32") / 255 - 0.5) / 0.5
    for picture, captions in zip(values, answers, strict=False):
        assert captions[0].score >= captions[1].score
        for one in captions:
            ids = np.array(one.token_ids)
            inputs = {"values": picture[None], "target_ids": np.append(2, ids[:-1])[None]}
            logits, weights = (np.asarray(x)[0] for x in captioner.model(inputs, return_attention_scores=True))
            log_probs = logits - np.log(np.exp(logits.astype("float64")).sum(axis=-1, keepdims=True))
            assert one.log_prob == pytest.approx(log_probs[np.arange(len(ids)), ids].sum(), abs=1e-3)
            pieces = tokenizer().tokens(ids[ids != 3])
            starts = [i for i, piece in enumerate(pieces) if piece.startswith("▁") or i == 0]
            expected = [weights[a:b].mean(axis=0) for a, b in itertools.pairwise([*starts, len(pieces)])]
            np.testing.assert_allclose(one.attention.reshape(len(one.words), -1), expected, atol=1e-4)
            assert str(one) == " ".join(one.words)


@pytest.mark.slow
def test_forms_of_pictures_and_the_numbers_of_answers(captioner, pictures):
    alone = captioner.caption(pictures[0])
    assert isinstance(alone, Caption)
    arrays = [scene.pixels for scene in tiny_scenes()]
    assert captioner.caption(arrays) == captioner.caption(pictures)
    assert captioner.caption(arrays[0]) == alone
    assert captioner.caption(Image.open(pictures[0])) == alone
    assert captioner.caption([]) == []
    assert all(0 < x < 1 and 0 < y < 1 for x, y in alone.points)
    assert pickle.loads(pickle.dumps(alone)).points == alone.points
    done = []
    captioner.caption(pictures * 9, progress=lambda *both: done.append(both))
    assert done == [(32, 45), (45, 45)]


def test_a_search_takes_its_memory_from_the_budget_of_the_server(monkeypatch):
    captioner, budget, in_use = tiny_captioner(), MemoryBudget(10**9), []

    def search(*arguments, **options):
        in_use.append(budget.in_use)
        raise Unwanted

    monkeypatch.setattr(captioner.compiled, "search", search)
    with working(lambda: True, budget), pytest.raises(Unwanted):
        captioner.caption([tiny_scenes()[0].pixels], beam_size=5)
    assert (in_use, budget.in_use) == ([cache_bytes(captioner.model, 5, 12 + 1)], 0)


@pytest.mark.slow
def test_answers_below_the_threshold_are_doubted(run, captioner, pictures, tmp_path):
    means = sorted(one.mean_log_prob for one in captioner.caption(pictures))
    threshold = (means[1] + means[2]) / 2
    entry = captioner.save(tmp_path / "doubting", low_score_threshold=threshold)
    doubting = ka.load(entry.folder)
    answers = doubting.caption(pictures)
    low = [one.mean_log_prob < threshold for one in answers]
    assert sum(low) == 2
    assert [one.low_score for one in answers] == low
    assert [one.low_score for one in pickle.loads(pickle.dumps(answers))] == low
    assert not any(one.low_score for one in captioner.caption(pictures))
    images = [base64.b64encode(Path(path).read_bytes()).decode() for path in pictures]
    assert [one["captions"][0]["low_score"] for one in doubting.reply(images=images)] == low
    code, out, err = run("caption", "--model", entry.folder, *pictures)
    assert (code, out, err.count("\n")) == (0, "".join(f"{one}\n" for one in answers), 2)
    for path, is_low in zip(pictures, low, strict=True):
        assert (f"{path}: low score, the model is not sure" in err) == is_low
    code, out, err = run("caption", "--model", entry.folder, "--json", *pictures * 6)
    assert [json.loads(line)["captions"][0]["low_score"] for line in out.splitlines()] == low * 6
    assert err.count("low score, the model") == 10
    assert "12 of 30 pictures have a low score" in err


def test_points_are_the_middles_of_the_cells_with_the_largest_weights():
    attention = np.zeros((2, 3, 4), "float32")
    attention[0, 2, 1] = attention[1, 0, 3] = 1
    assert Caption("a b", words=["a", "b"], attention=attention).points == [(0.375, 2.5 / 3), (0.875, 0.5 / 3)]
    assert Caption().points == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_best": 3}, "`n_best` must lie between 1 and the beam size 2. Received: 3"),
        ({"beam_size": 0}, "`beam_size` must be an integer from 1 to 64. Received: beam_size=0"),
        ({"max_length": "a"}, "`max_length` must be"),
        ({"length_penalty": -1}, "`length_penalty` must be"),
    ],
)
def test_a_wrong_option_is_named(captioner, options, message):
    with pytest.raises(UserError, match=message):
        captioner.caption(tiny_scenes()[0].pixels, **options)


@pytest.mark.slow
def test_its_entry_reproduces_its_examples(saved, captioner, tmp_path):
    assert failing_examples(saved / "tiny_captions") == (2, [])
    again = captioner.save(tmp_path / "again")
    assert failing_examples(again) == (2, [])
    assert (saved / "tiny_captions" / "example_1.png").read_bytes() == (again.folder / "example_1.png").read_bytes()
    copy = pickle.loads(pickle.dumps(captioner))
    assert copy.caption(tiny_scenes()[3].pixels) == captioner.caption(tiny_scenes()[3].pixels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": {"fit": "melt", "mean": [0.5], "std": [0.5]}}, "fit must be one of crop, stretch"),
        ({"image": {"fit": "crop", "mean": [0.5, 0.5], "std": [0.5]}}, "`mean` must have 1 or 1 numbers"),
        ({"decoding": {"beam_size": 1000}}, "beam_size must be an integer from 1 to 64"),
        ({"decoding": {"coverage_penalty": 1.0}}, "unknown key 'coverage_penalty'"),
        ({"language": "a\nb"}, "language must be"),
        ({"low_score_threshold": 0.5}, "low_score_threshold must be"),
    ],
)
def test_its_config_is_as_strict_as_any(tmp_path, changes, message):
    with pytest.raises(EntryError, match=message):
        tiny_captioner().save(tmp_path / "other", **changes)


def test_scores_of_captions_that_are_right_and_wrong(monkeypatch):
    captioner = tiny_captioner()
    scenes = tiny_scenes()[:3]
    maps = []
    for scene in scenes:
        grid = np.full((len(scene.caption.split()), 48, 48), 1e-9, "float32")
        for word, box in scene.boxes.items():
            grid[word, box.top : box.bottom, box.left : box.right] = 1 / (box.right - box.left) ** 2
        maps.append(grid)
    answers = [Caption(s.caption, words=s.caption.split(), attention=m) for s, m in zip(scenes, maps, strict=True)]
    answers[1] = Caption("one above", words=["one", "above"], attention=maps[1][:2])  # another number of words
    answers[2] = Caption("x" + scenes[2].caption, words=answers[2].words, attention=maps[2][::-1])
    monkeypatch.setattr(type(captioner), "caption", lambda self, images, **search: answers)
    held = [CaptionedPicture(scene.pixels, (scene.caption,), scene.boxes) for scene in scenes]
    scores = caption_scores(captioner, held)
    assert scores["exact captions"] == pytest.approx(100 / 3)
    assert scores["pointing"] == pytest.approx(100 / 3)
    assert scores["attention in the box"] == pytest.approx(100 / 3, abs=0.01)
    pictures = [CaptionedPicture(one.picture, (*one.captions, str(answers[1])), {}) for one in held[:2]]
    answers.pop()
    assert caption_scores(captioner, pictures) == {"exact captions": 100, "BLEU": pytest.approx(50, abs=50)}
    pictures[1] = pictures[1]._replace(captions=("none of it",))
    assert caption_scores(captioner, pictures)["exact captions"] == 50


@pytest.fixture
def run(saved, monkeypatch, capsys):
    """Runs a command in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(saved))

    def run_command(*words, stdin=None):
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = cli.main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run_command


@pytest.mark.slow
def test_the_command_line_describes_pictures(run, captioner, pictures, tmp_path):
    expected = captioner.caption(pictures)
    lines = "".join(f"{one}\n" for one in expected)
    assert run("caption", "--model", "tiny_captions", *pictures) == (0, lines, "")
    code, out, _ = run("caption", "--model", "tiny_captions", "--json", pictures[2])
    (answer,) = map(json.loads, out.splitlines())
    assert (code, answer["file"]) == (0, pictures[2])
    assert answer["captions"][0]["text"] == expected[2]
    assert answer["captions"][0]["points"] == [list(point) for point in expected[2].points]
    names = "".join(f"{path}\n" for path in pictures)
    assert run("caption", "--model", "tiny_captions", stdin=names.encode()) == (0, lines, "")
    (tmp_path / "names.txt").write_text(names)
    written = ["--input", tmp_path / "names.txt", "--output", tmp_path / "captions.txt"]
    assert run("caption", "--model", "tiny_captions", *written)[:2] == (0, "")
    assert (tmp_path / "captions.txt").read_text() == lines
    code, out, _ = run("caption", "--model", "tiny_captions", "--n-best", 2, "--beam", 3, pictures[0])
    assert (code, out.count("\t")) == (0, 1)
    drawn = tmp_path / "look.png"
    code, out, err = run("caption", "--model", "tiny_captions", "--attention", drawn, *pictures[:2])
    assert (code, out) == (0, "".join(f"{one}\n" for one in expected[:2]))
    assert err.count("where each word looks") == 2
    for number in (1, 2):
        assert Image.open(tmp_path / f"look-{number}.png").size[0] > 300


@pytest.mark.slow
@pytest.mark.parametrize("name", hostile())
def test_hostile_pictures_are_one_line(run, pictures, tmp_path, name):
    content, message = hostile()[name]
    (tmp_path / "hostile.jpg").write_bytes(content)
    code, out, err = run("caption", "--model", "tiny_captions", pictures[0], tmp_path / "hostile.jpg")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a dog runs"], "a dog runs does not exist. Expected: the name of a picture."),
        (["--attention", "look.gif", "PICTURE"], "look.gif"),
        (["--n-best", "9", "PICTURE"], "`n_best` must lie between 1 and the beam size 2"),
        (["--beam", "0", "PICTURE"], "`beam_size` must be"),
        (["--resume", "PICTURE"], "--resume continues an interrupted run from --input to --output"),
    ],
)
def test_wrong_options_are_one_line(run, pictures, words, message):
    words = [pictures[0] if word == "PICTURE" else word for word in words]
    code, out, err = run("caption", "--model", "tiny_captions", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.slow
def test_other_commands_refuse_it_in_one_line(run, pictures, tmp_path):
    for words in (["classify", pictures[0]], ["translate", "a"]):
        code, out, err = run(words[0], "--model", "tiny_captions", *words[1:])
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "it can caption" in err
    code, _, err = run("export", "tiny_captions", tmp_path / "exported")
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot be exported" in err
    code, _, err = run("caption", pictures[0])
    assert (code, err.count("\n")) == (0, 2)
    assert "captioner_digits_soft answers" in err
    assert f"{pictures[0]}: low score" in err  # blocks are no digits
    assert "caption" in run("zoo", "show", "tiny_captions")[1]


@pytest.mark.slow
def test_a_request_is_answered(captioner, pictures):
    image = base64.b64encode(Path(pictures[1]).read_bytes()).decode()
    (answer,) = captioner.reply(images=[image], n_best=2, attention=True)
    best, second = answer["captions"]
    assert best["text"] == captioner.caption(pictures[1])
    assert best["log_prob"] >= second["log_prob"]
    assert np.shape(best["attention"]) == (len(best["words"]), 6, 6)
    assert captioner.reply(images=[image])[0]["captions"][0]["attention"] is None
    json.dumps(answer)
    with pytest.raises(UserError, match="A picture must be base64"):
        captioner.reply(images=["no base64!"])
