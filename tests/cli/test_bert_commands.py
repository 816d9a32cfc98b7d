"""convert, fill-mask and classify from the shell; finetune is in tests/finetuning."""

import json

import numpy as np
import pytest
from convert.tiny_checkpoints import TINY_BERT, inputs, write_checkpoint
from keras import ops
from zoo.tiny_bert import TEXTS, tiny_classifier, tiny_mask_filler, write_tiny

import keras_attention
from keras_attention.convert import load_checkpoint

pytestmark = pytest.mark.slow


def test_convert_writes_an_entry(run, tmp_path):
    code, out, _ = run("convert", TINY_BERT, "--out", tmp_path / "mine", "--json")
    assert code == 0
    report = json.loads(out)
    assert report["architecture"] == "BertMaskedLM"
    assert report["left_out"]
    filler = keras_attention.load(tmp_path / "mine")
    expected = load_checkpoint(TINY_BERT).model(inputs())
    np.testing.assert_allclose(*map(ops.convert_to_numpy, (filler.model(inputs()), expected)), atol=1e-6)
    assert run("zoo", "verify", tmp_path / "mine")[0] == 0
    assert "841 parameters" in (tmp_path / "mine" / "CARD.md").read_text()


def test_convert_names_what_it_does_not_support(complains, tmp_path):
    write_checkpoint(tmp_path / "other", model_type="roberta")
    assert "model_type" in complains("convert", tmp_path / "other", "--out", tmp_path / "mine")
    assert "not a folder" in complains("convert", tmp_path / "nowhere", "--out", tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


@pytest.fixture
def filler(tmp_path):
    write_tiny(tmp_path / "filler", tiny_mask_filler().model)
    return tmp_path / "filler"


def test_fill_mask(run, complains, filler):
    code, out, _ = run("fill-mask", "--model", filler, "a [MASK] runs", "men [MASK]", "--top", "2")
    lines = out.splitlines()
    expected = tiny_mask_filler().fill_mask(["a [MASK] runs", "men [MASK]"], top_k=2)
    assert (code, len(lines)) == (0, 4)
    assert [line.split("\t")[1] for line in lines] == [filling.text for one in expected for filling in one]
    code, out, _ = run("fill-mask", "--model", filler, "--json", stdin=b"a [MASK]\n")
    assert json.loads(out)["fillings"][0]["words"]
    assert run("fill-mask", "--model", filler, "", "a [MASK]", "--top", "2")[1].splitlines()[0] == ""
    code, out, _ = run("fill-mask", "--model", filler, "--json", stdin=b"\n")
    assert (code, json.loads(out)) == (0, {"text": "", "fillings": []})
    assert "1 to 32 masks" in complains("fill-mask", "--model", filler, "no mask")
    assert "it can fill-mask" in complains("classify", "--model", filler, "a")


def test_classify(run, complains, tmp_path):
    classifier = tiny_classifier("multiclass")
    write_tiny(tmp_path / "judge", classifier.model, task=classifier.task)
    code, out, _ = run("classify", "--model", tmp_path / "judge", *TEXTS)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == classifier.classify(TEXTS)
    _, out, _ = run("classify", "--model", tmp_path / "judge", "--top", "3", stdin=TEXTS[0].encode())
    assert len(out.split("\t")) == 3
    _, out, _ = run("classify", "--model", tmp_path / "judge", "--threshold", "1", TEXTS[0])
    assert out == "-\n"
    assert "threshold=2.0" in complains("classify", "--model", tmp_path / "judge", "--threshold", "2", "a")
    assert "--top must be" in complains("classify", "--model", tmp_path / "judge", "--top", "0", "a")


def test_classify_pairs(run, complains, tmp_path):
    classifier = tiny_classifier(pair=True)
    write_tiny(tmp_path / "judge", classifier.model, task=classifier.task)
    code, out, _ = run("classify", "--model", tmp_path / "judge", f"{TEXTS[0]}\t{TEXTS[1]}")
    assert (code, out.split()[0]) == (0, classifier.classify(TEXTS[0], TEXTS[1]))
    assert "Text 2 has 0 tabs" in complains("classify", "--model", tmp_path / "judge", "a\tb", "c")


def test_attention_of_a_bert(run, complains, filler, tmp_path):
    page = tmp_path / "view.html"
    code, out, _ = run("attention", "--model", filler, "a [MASK] runs", "--out", page)
    assert (code, out) == (0, f"{page}: {page.stat().st_size / 1e3:.0f} kB\n")
    assert "[MASK]" in page.read_text(encoding="utf-8")
    given = ("attention", "--model", filler, "a", "--target", "b", "--out", page)
    assert "--target does not work" in complains(*given)
    assert "end with .html" in complains("attention", "--model", filler, "a", "--out", tmp_path / "view.png")


def test_the_zoo_lists_them(run, filler, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(filler.parent))
    assert "filler " in run("zoo", "list")[1]
    assert "en, masked words" in run("zoo", "list")[1]
