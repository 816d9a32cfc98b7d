"""Trains on the JAX backend; imported by a process that test_jax_step.py starts."""

import keras
import numpy as np
from tiny_run import Steep, TinyBatches, TinyModel, arrays_of, make_optimizer, run, untimed

from keras_attention.support.errors import TrainingDivergedError
from keras_attention.training.optim import assign_weights


def main(initial, results, folder):
    """Reads initial weights, writes trained ones, and leaves checkpoints in `folder`; all are paths."""
    arguments = {"clip_norm": 0.5, "label_smoothing": 0.1}

    # The same weights without dropout: the same training as on TensorFlow.
    model = TinyModel(dropout=0.0)
    model(TinyBatches().epoch(0)[0])
    with np.load(initial) as file:
        assign_weights(model, [file[name] for name in file.files])
    result, model, _ = run(model=model, epochs=2, **arguments)
    losses = [entry["loss"] for entry in result.history]
    np.savez(results, *[v.value for v in model.trainable_variables], losses=losses)

    # Resumed in the middle of an epoch, with dropout: the same bits as undisturbed.
    arguments |= {"average_last": 2, "epochs": 3}
    undisturbed, *expected = run(**arguments)
    try:
        run(batches=TinyBatches(fail_at=(1, 4)), checkpoint_dir=folder, checkpoint_every=3, **arguments)
    except OSError as error:
        print(error)
    resumed, *actual = run(checkpoint_dir=folder, resume=True, **arguments)
    assert untimed(resumed.history) == untimed(undisturbed.history)
    for before, after in zip(arrays_of(*expected), arrays_of(*actual), strict=True):
        np.testing.assert_array_equal(before, after)

    # A loss that is not finite: the update is not applied, and the run stops.
    model, optimizer = TinyModel(), make_optimizer()
    model(TinyBatches().epoch(0)[0])
    model.projection.bias.assign(np.full(29, np.nan, "float32"))
    kernel = np.asarray(model.projection.kernel.value)
    try:
        run(model=model, optimizer=optimizer, epochs=1)
    except TrainingDivergedError as error:
        print(error)
    np.testing.assert_array_equal(kernel, model.projection.kernel.value)

    # float16: scaled gradients overflow at first, and the training recovers.
    inner = keras.optimizers.Adam(0.03)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=2.0**40)
    model = TinyModel(dtype=keras.DTypePolicy("mixed_float16"))
    result, _, _ = run(model=model, optimizer=optimizer, epochs=9)
    assert 0 < int(inner.iterations) < result.steps
    assert result.history[-1]["loss"] < 0.6 * result.history[0]["loss"]

    # float16 where no scale is small enough: 8, 4, 2, 1, and then it stops.
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.03), initial_scale=2.0**3)
    try:
        run(model=Steep(), optimizer=optimizer, epochs=1)
    except TrainingDivergedError as error:
        print(error)

    result, _, _ = run(epochs=3, ema_decay=0.7)
    assert result.steps == 21
    print("all done")
