"""How far it is from the command to the logits and the softmax: what a reader of the code has to walk."""

import inspect
import subprocess
import sys
import traceback
from pathlib import Path

import keras
import numpy as np
import pytest
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts

import keras_attention
from keras_attention import load
from keras_attention.cli import main as cli
from keras_attention.layers import attention
from keras_attention.models import Transformer
from keras_attention.pipelines.translator import Translator
from keras_attention.support.compile_cache import EAGER, VARIABLE

PACKAGE = str(Path(keras_attention.__file__).parent)
MOST_FRAMES, MOST_FILES = 11, 6  # from the command to the logits
# From there to softmax(Q K^T) V: decoder layer, attention layer, equation. The equation is a file below the attention
# layer and the layouts of `layers/fast` that call it; two files would need two of these ideas in one.
MORE_FRAMES, MORE_FILES = 3, 3


def tiny_transformer():
    """A translator with an untrained Transformer that speaks dates."""
    _, source, target = tiny_parts()
    keras.utils.set_random_seed(7)
    sizes = {"hidden_dim": 10, "intermediate_dim": 13, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 3}
    model = Transformer(source.vocabulary_size, target.vocabulary_size, **sizes, tie_embeddings="target")
    model.build()
    return Translator(model, source, target, DECODING)


def tiny_recurrent():
    return Translator(*tiny_parts(seed=7), DECODING)


def frames_of_the_package():
    return [frame for frame in traceback.extract_stack()[:-2] if frame.filename.startswith(PACKAGE)]


def noting(monkeypatch, owner, name):
    """Replaces a function by one that also notes the frames of this package that lead to it: list of lists."""
    function, walked = getattr(owner, name), []

    def noted(*arguments, **options):
        walked.append(frames_of_the_package())
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, noted)
    return walked


def translated(folder, capsys):
    assert cli.main(["translate", "--model", str(folder), ENGLISH[0]]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("make", [tiny_recurrent, tiny_transformer])
def test_few_steps_from_the_command_to_logits_and_softmax(make, tmp_path, monkeypatch, capsys):
    """Counted in eager mode, as a learner with a debugger sees it: the frames of this package, without Keras's.

    The logits are what the model's `step` returns. The console script calls `main` itself.
    """
    translator = make()
    translator.save(tmp_path / "tiny", source_language="en", target_language="ISO 8601")
    monkeypatch.setenv(EAGER, "1")
    steps = noting(monkeypatch, type(translator.model), "step")
    softmax = noting(monkeypatch, attention, "masked_softmax")
    answer = translated(tmp_path / "tiny", capsys)
    steps_of_the_answer = len(load(tmp_path / "tiny").translate(ENGLISH, return_attention=True)[0].tokens)
    assert len(steps) >= steps_of_the_answer, "a breakpoint in `step` is reached for each token"
    walked = "\n".join(f"{frame.filename.removeprefix(PACKAGE)}: {frame.name}" for frame in steps[0])
    files = {frame.filename for frame in steps[0]} | {inspect.getfile(type(translator.model))}
    assert steps[0][0].name == "main", walked
    assert len(steps[0]) + 1 <= MOST_FRAMES, walked
    assert len({frame.filename for frame in steps[0]}) + 1 <= MOST_FILES, walked
    if make is tiny_transformer:
        in_steps = [frames for frames in softmax if {"main", "step"} <= {frame.name for frame in frames}]
        deeper = min(in_steps, key=len)
        assert len(deeper) <= MOST_FRAMES + MORE_FRAMES, deeper
        assert len({frame.filename for frame in deeper} - files) <= MORE_FILES, deeper
    assert answer.strip()


@pytest.mark.slow
@pytest.mark.parametrize("make", [tiny_recurrent, tiny_transformer])
def test_eager_mode_gives_the_same_answers_and_stores_nothing(make, tmp_path, monkeypatch):
    make().save(tmp_path / "tiny", source_language="en", target_language="ISO 8601")
    compiled = load(tmp_path / "tiny").translate(ENGLISH, return_attention=True)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv(EAGER, "1")
    eager = load(tmp_path / "tiny").translate(ENGLISH, return_attention=True)
    for one, other in zip(compiled, eager, strict=True):
        assert one.text == other.text
        np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)
    assert not (tmp_path / "cache").exists()


@pytest.mark.slow
def test_a_breakpoint_is_reached_at_every_step_of_every_run(tmp_path):
    """In a process of its own: with the folder of compiled programs, a second run would call no Python code."""
    tiny_recurrent().save(tmp_path / "tiny", source_language="en", target_language="ISO 8601")
    program = f"""
import keras_attention as ka
from keras_attention.models import AttentionSeq2Seq
steps, step = [], AttentionSeq2Seq.step
AttentionSeq2Seq.step = lambda *arguments, **options: steps.append(1) or step(*arguments, **options)
for _ in range(2):
    ka.load({str(tmp_path / "tiny")!r}).translate({ENGLISH[0]!r})
    print(len(steps))
"""
    environment = {"KERAS_ATTENTION_EAGER": "1", "KERAS_ATTENTION_CACHE": str(tmp_path / "cache"), "PATH": ""}
    command = [sys.executable, "-c", program]
    result = subprocess.run(
        command, env=environment, cwd=Path(PACKAGE).parent, capture_output=True, text=True, check=True
    )
    first, both = map(int, result.stdout.split())
    assert both == 2 * first > 2


def test_the_console_script_is_main():
    from keras_attention import __main__ as script

    assert script.run is cli.main
