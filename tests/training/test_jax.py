import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from training.tiny_run import TinyBatches, TinyModel, run

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed"),
]


def test_jax_trains_as_tensorflow_does(tmp_path):
    """In a process of its own, because Keras has one backend in each."""
    model = TinyModel(dropout=0.0)
    model(TinyBatches().epoch(0)[0])
    np.savez(tmp_path / "initial.npz", *[v.numpy() for v in model.trainable_variables])
    result, model, _ = run(model=model, epochs=2, clip_norm=0.5, label_smoothing=0.1)

    # TensorFlow is kept out, as if it were not installed.
    program = "import sys; sys.modules['tensorflow'] = None; import jax_run; jax_run.main(*sys.argv[1:])"
    paths = [str(tmp_path / name) for name in ("initial.npz", "results.npz", "checkpoints")]
    here = Path(__file__).parent
    roots = os.pathsep.join(map(str, (here, *here.parents[:2])))
    environment = {**os.environ, "PYTHONPATH": roots, "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax"}
    done = subprocess.run(
        [sys.executable, "-c", program, *paths],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the data went away" in done.stdout
    assert "epoch 1, step 1: the loss is nan" in done.stdout
    assert "epoch 1, step 4: the gradient norm is" in done.stdout
    assert "all done" in done.stdout

    with np.load(paths[1]) as actual:
        np.testing.assert_allclose(actual["losses"], [entry["loss"] for entry in result.history], rtol=1e-5)
        for index, variable in enumerate(model.trainable_variables):
            np.testing.assert_allclose(actual[f"arr_{index}"], variable.numpy(), atol=1e-5)


@pytest.mark.parametrize("network", ["transformer", "gpt"])
def test_a_network_has_the_same_loss_curve_on_both(network, tmp_path):
    """With dropout, the Transformer with R-Drop: the masks are a hash that both backends compute alike."""
    script = Path(__file__).with_name(f"{network}_curve.py")
    curves = []
    for backend in ("tensorflow", "jax"):
        path = tmp_path / f"{backend}.npz"
        environment = {**os.environ, "PYTHONPATH": str(script.parents[2]), "JAX_PLATFORMS": "cpu"}
        environment["KERAS_BACKEND"] = backend
        done = subprocess.run([sys.executable, script, path], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        curves.append(np.load(path)["losses"])
    assert len(curves[0]) == 50
    assert curves[0][-5:].mean() < curves[0][:5].mean() - 0.2
    np.testing.assert_allclose(curves[1], curves[0], atol=1e-3)
