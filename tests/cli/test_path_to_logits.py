"""How far it is from the command to the logits: what a reader of the code has to walk."""

import traceback
from pathlib import Path

import pytest
from zoo.tiny_entry import ENGLISH, tiny_parts, write_tiny_entry

import keras_attention
from keras_attention import compile_cache
from keras_attention.cli import main as cli
from keras_attention.models import AttentionSeq2Seq

PACKAGE = str(Path(keras_attention.__file__).parent)
MOST_FRAMES, MOST_FILES = 11, 6


@pytest.mark.slow
def test_translate_reaches_the_logits_in_few_steps(tmp_path, monkeypatch, capsys):
    """Counted: the frames of this package, from `cli.main.main` to the model's own function that gives the logits.

    That is `step`, the decoder's, on the first run, when TensorFlow traces it: in between lie frames of TensorFlow and
    Keras, which do not count, and no other thread. The console script calls `main` itself.
    """
    write_tiny_entry(tmp_path / "tiny", tiny_parts(seed=7))
    seen, step = [], AttentionSeq2Seq.step

    def noted(model, *arguments):
        seen.append(traceback.extract_stack()[:-1])
        return step(model, *arguments)

    monkeypatch.setattr(AttentionSeq2Seq, "step", noted)
    monkeypatch.setattr(compile_cache, "_in_use", [])  # of the other tests, which may have traced it before
    assert cli.main(["translate", "--model", str(tmp_path / "tiny"), ENGLISH[0]]) == 0
    ours = [frame for frame in seen[0] if frame.filename.startswith(PACKAGE)]
    files = [frame.filename for frame in ours] + [step.__code__.co_filename]
    walked = "\n".join(f"{frame.filename.removeprefix(PACKAGE)}: {frame.name}" for frame in ours)
    assert (ours[0].name, ours[-1].name) == ("main", "body"), walked
    assert len(files) <= MOST_FRAMES, walked
    assert len(set(files)) <= MOST_FILES, walked


def test_the_console_script_is_main():
    from keras_attention import __main__ as script

    assert script.run is cli.main
