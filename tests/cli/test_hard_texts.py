"""Odd texts through the commands: an answer on one line each, or one line that says why not."""

import pytest
from cli.running import translator
from pipelines.hard_texts import WRITTEN
from zoo.tiny_bert import tiny_classifier, tiny_mask_filler, write_tiny

from keras_attention.cli import classify, encode, translate
from keras_attention.support.blank_texts import is_blank

pytestmark = pytest.mark.slow

SHORT = {name: text for name, text in WRITTEN.items() if "\n" not in text}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Dict from command to (folder, pipeline)."""
    folder, judge, filler = tmp_path_factory.mktemp("models"), tiny_classifier(), tiny_mask_filler()
    write_tiny(folder / "classify", judge.model, task=judge.task)
    write_tiny(folder / "fill-mask", filler.model)
    return {
        "translate": ("tiny", translator()),
        "classify": (folder / "classify", judge),
        "fill-mask": (folder / "fill-mask", filler),
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["translate", "classify", "fill-mask"])
def test_every_written_text(run, models, monkeypatch, command):
    folder, pipeline = models[command]
    for module in (translate, classify, encode):
        monkeypatch.setattr(module, "load", lambda entry, task: pipeline)
    for name, text in SHORT.items():
        lines = 5 if command == "fill-mask" and not is_blank(text) else 1
        given = text.encode("utf-8", errors="surrogateescape" if "bytes" in name else "surrogatepass")
        for code, out, err in (
            run(command, "--model", folder, "--", text),
            run(command, "--model", folder, stdin=given + b"\n"),
        ):
            assert code in (0, 2), name
            assert out.count("\n") == (lines if code == 0 else 0), name
            doubts = err.count("keras-attention: sentence 1: low score")
            assert err.count("\n") == doubts + (code == 2 or "beginning" in err or "left out" in err), name
            assert "Traceback" not in err
            if command != "fill-mask":
                assert (code == 2) == ("surrogate" in name or "bytes" in name), name
