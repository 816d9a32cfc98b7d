"""Number format and compiler, as the device wants them, and said aloud."""

import dataclasses
import os
from pathlib import Path

import keras

GPU, AMX, CPU = "a GPU", "a CPU with AMX", "a CPU"
# TensorFlow's own clusters: XLA gets all that is element-wise, oneDNN keeps the products, whose kernels use AMX.
CLUSTERS = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_ops_to_cluster=FUSIBLE"


def accelerate(settings, large_products=False):
    """Does what `choose_acceleration` does, and sets Keras's dtype policy for what is built from now on."""
    settings = choose_acceleration(settings, large_products)
    keras.config.set_dtype_policy(dtype_policy(settings))
    return settings


def choose_acceleration(settings, large_products=False):
    """Chooses how to compute.

    What the settings leave open is chosen for the device: XLA, and on a GPU bfloat16 for large products. A CPU with AMX
    units multiplies in bfloat16 about six times as fast as in float32, but only oneDNN's kernels do, XLA's own
    do not. There large products are left to oneDNN, and only what is element-wise is compiled. To be called before
    TensorFlow runs its first function, for it reads its flags then.

    Args:
        settings: dataclass with the fields of AccelerationSettings.
        large_products: bool. Whether products outweigh the rest of a step, as from a width of about 256 on.

    Returns:
        `settings` with both fields decided; `jit_compile` says whether to compile whole steps.
    """
    device, mixed_precision, jit_compile = find_device(), settings.mixed_precision, settings.jit_compile
    by_parts = device == AMX and large_products and not jit_compile and mixed_precision is not False
    if by_parts and CLUSTERS not in os.environ.get("TF_XLA_FLAGS", ""):
        os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {CLUSTERS}".strip()
        os.environ.setdefault("TF_SET_ONEDNN_FPMATH_MODE", "BF16")  # for products of float32, such as those of scores
    mixed_precision = (by_parts or (device == GPU and large_products)) if mixed_precision is None else mixed_precision
    jit_compile = not by_parts if jit_compile is None else jit_compile
    return dataclasses.replace(settings, mixed_precision=mixed_precision, jit_compile=jit_compile)


def dtype_policy(settings):
    """The name of Keras's policy for these settings."""
    return "mixed_bfloat16" if settings.mixed_precision else "float32"


def description(settings):
    """What was chosen, as a sentence."""
    number = "bfloat16" if settings.mixed_precision else "float32"
    by_parts = CLUSTERS in os.environ.get("TF_XLA_FLAGS", "") and not settings.jit_compile
    what = "compiled with XLA" if settings.jit_compile else "all but the products compiled with XLA" if by_parts else ""
    return f"Computing in {number} on {find_device()}{', ' * bool(what)}{what}."


def find_device():
    """GPU, AMX or CPU: what trains here. AMX is found on Linux, and used by TensorFlow alone."""
    if keras.backend.backend() == "jax":
        import jax

        return GPU if jax.default_backend() == "gpu" else CPU
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        return GPU
    try:
        return AMX if "amx_bf16" in Path("/proc/cpuinfo").read_text(encoding="utf-8").split() else CPU
    except OSError:
        return CPU


def in_float32(model):
    """The same model with the same weights, computing in float32 as one does that was stored and loaded.

    Args:
        model: keras.Model of this package, built.

    Returns:
        `model` itself where it computes in float32.
    """
    if model.compute_dtype == "float32":
        return model
    again = type(model).from_config({**model.get_config(), "dtype": "float32"})
    again.build()
    again.set_weights(model.get_weights())
    return again
