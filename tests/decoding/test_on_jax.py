"""The searches run under jax.jit and give the answers that they give on TensorFlow.

Run as a program, `test_on_jax.py FILE` is the part on JAX.
"""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
from decoding.random_model import SPECIAL, UNKNOWN, RandomModel

from keras_attention.decoding import beam_search, greedy_search, sample

ROWS = 5


def answers(compiled):
    """The fields of the Hypotheses of each search by name, computed on the backend that is set."""
    model = RandomModel(ROWS, 1031, source_length=3, seed=1, ends=4.0)
    limits = {"max_length": np.array([7, 2, 7, 5, 0], "int32"), "max_steps": 7, "min_length": 2, "unknown_id": UNKNOWN}
    penalties = {"length_penalty": 0.6, "coverage_penalty": 0.2, "source_mask": model.source_mask}
    searches = {
        "greedy": (greedy_search, {}),
        "sample": (sample, {"seed": 3, "temperature": 0.8}),
        "sample_cut": (sample, {"seed": 3, "top_k": 53, "top_p": 0.7}),
        "beam": (beam_search, {"beam_size": 3, "n_best": 2, **penalties}),
        "wide_beam": (beam_search, {"beam_size": 19, "n_best": 19}),
    }
    results = {}
    for name, (search, options) in searches.items():
        run = compiled(
            lambda state, search=search, options=options: search(
                model.step, state, ROWS, **SPECIAL, **limits, **options
            )
        )
        results |= {f"{name}_{field}": np.asarray(value) for field, value in run(model.state())._asdict().items()}
    return results


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_answers_equal_those_of_tensorflow(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, __file__, str(tmp_path / "answers.npz")]
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    expected = answers(compiled=lambda function: function)
    with np.load(tmp_path / "answers.npz") as on_jax:
        assert set(on_jax) == set(expected)
        for name, value in expected.items():
            if value.dtype == "int32":
                np.testing.assert_array_equal(on_jax[name], value, err_msg=name)
            else:
                np.testing.assert_allclose(on_jax[name], value, rtol=1e-5, err_msg=name)


if __name__ == "__main__":
    import jax

    np.savez(sys.argv[1], **answers(compiled=jax.jit))
    assert "tensorflow" not in sys.modules
