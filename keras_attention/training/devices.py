"""The devices of a training, on one or several machines; number format and compiler."""

import contextlib
import dataclasses
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from keras_attention.support.errors import UserError, WorkerLostError, parse_json
from keras_attention.support.moved import renamed_arguments
from keras_attention.training.run import STRATEGIES

GPU, AMX, CPU = "a GPU", "a CPU with AMX", "a CPU"
# TensorFlow's auto-clustering: XLA compiles element-wise operations, and oneDNN computes the matrix products with AMX.
CLUSTERS = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit --tf_xla_ops_to_cluster=FUSIBLE"


class Workers(NamedTuple):
    """The processes of a distributed training. Each has its own devices; worker 0 is the chief and writes all files."""

    index: int
    count: int


@renamed_arguments(say="notify")
def use_strategy(name="auto", notify=print):
    """Chooses the devices for all models that are created afterwards. Call it before TensorFlow computes anything.

    - `none`: one device.
    - `mirrored`: splits each batch over all GPUs of the machine, or over all CPU devices if there is no GPU. On JAX,
      `keras.distribution.DataParallel` over all devices.
    - `multiworker`: splits each batch over the processes in the variable TF_CONFIG, or in the SLURM job if TF_CONFIG is
      not set, and over the GPUs of each process. Only the chief prints. Not available on JAX.
    - `auto`: `multiworker` if TF_CONFIG has several processes, `mirrored` if there are several GPUs (on JAX: devices),
      else `none`.

    Args:
        name: one of `STRATEGIES`.
        notify: callable(str) that prints the choice; not called for a single device.

    Raises:
        UserError: if the name is unknown, or the devices are not available.
    """
    if name not in STRATEGIES:
        raise UserError(f"The strategy must be one of {', '.join(STRATEGIES)}. Received: {name}")
    if keras.backend.backend() == "jax":
        _use_jax(name, notify)
        return
    import tensorflow as tf

    if name == "auto":
        several_gpus = len(tf.config.list_physical_devices("GPU")) > 1
        name = "multiworker" if _tasks_of_tf_config() > 1 else "mirrored" if several_gpus else "none"
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        strategy = tf.distribute.MirroredStrategy([device.name for device in devices])
        notify(f"Strategy: mirrored, on {_counted(devices)}.")
    elif name == "multiworker":
        strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver())
    else:
        return
    tf.distribute.experimental_set_strategy(strategy)
    if name == "multiworker":
        index, count = workers()
        each = strategy.num_replicas_in_sync // count
        notify(f"Strategy: multiworker, worker {index} of {count}, {each} devices in each.")
        if index:
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (for the rest of the process)


def chief_goes_on():
    """Ends the strategy; only the chief continues.

    Returns:
        bool. True in the chief or in a single process, False in all other workers.
    """
    if keras.backend.backend() != "tensorflow":
        return True
    import tensorflow as tf

    index, count = workers()
    if count > 1:
        add_up([1.0])  # a barrier: no worker exits while another one still needs it
    if tf.distribute.has_strategy():
        tf.distribute.experimental_set_strategy(None)
    return index == 0


def workers():
    """The `Workers` of this training; a single one unless the strategy is `multiworker`."""
    resolver = None
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        resolver = getattr(tf.distribute.get_strategy(), "cluster_resolver", None)
    tasks = resolver.cluster_spec().as_dict() if resolver else {}
    if sum(map(len, tasks.values())) < 2:
        return Workers(0, 1)
    before = len(tasks.get("chief", ())) if resolver.task_type == "worker" else 0
    return Workers(before + resolver.task_id, len(tasks.get("chief", ())) + len(tasks.get("worker", ())))


def add_up(values):
    """Sums a list of floats element by element over all workers. Every worker must call it."""
    if workers().count == 1:
        return list(values)
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    first = strategy.num_replicas_in_sync // workers().count * workers().index

    def of_replica(context):  # only the first replica of a worker contributes
        return tf.constant(values, "float64") * float(context.replica_id_in_sync_group == first)

    with named_loss_of_a_worker():
        each = strategy.experimental_distribute_values_from_function(of_replica)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None).numpy().tolist()


def from_chief(values):
    """Sends the chief's list of floats to every worker. Every worker must call it."""
    return add_up(values if workers().index == 0 else [0.0] * len(values))


def any_worker(flag):
    """Whether `flag` is true in any worker. Every worker must call it."""
    return bool(flag) if workers().count == 1 else add_up([float(bool(flag))])[0] > 0.0


def check_alike(settings, step):
    """Raises a UserError in each worker whose settings (JSON types), data or step differ from the chief's."""
    digest = hashlib.sha256(json.dumps([settings, step], sort_keys=True).encode()).digest()
    number = float(int.from_bytes(digest[:6]))  # 48 bits, which a float64 represents exactly
    if from_chief([number]) != [number]:
        raise UserError(
            f"Worker {workers().index}, at step {step}, has other settings or data than the chief. "
            "Start all workers with the same command and the same files on a shared file system."
        )


@contextlib.contextmanager
def named_loss_of_a_worker():
    """Context manager: turns TensorFlow's errors about a worker that does not respond into a `WorkerLostError`."""
    import tensorflow as tf

    try:
        yield
    except (
        tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError,
        tf.errors.DeadlineExceededError, tf.errors.InternalError,
    ) as error:  # fmt: skip
        if workers().count == 1:
            raise
        raise WorkerLostError(
            f"Worker {workers().index}: another worker has stopped, and the training cannot continue without it. "
            "Start all workers again with --resume."
        ) from error


def split_batch(batch, count):
    """Splits a batch into parts whose numbers of examples differ by at most one.

    Args:
        batch: dict of arrays with the examples on the first axis.
        count: int > 0, number of parts.

    Returns:
        List of `count` such dicts.

    Raises:
        UserError: if there are fewer examples than parts.
    """
    size = len(next(iter(batch.values())))
    if size < count:
        raise UserError(
            f"A batch of {size} examples cannot be split into {count} parts (devices times --accumulate). "
            "Use larger batches, fewer devices or a smaller --accumulate."
        )
    bounds = np.linspace(0, size, count + 1).astype(int)
    return [{name: value[a:b] for name, value in batch.items()} for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _use_jax(name, notify):
    devices = keras.distribution.list_devices()
    if name == "multiworker":
        raise UserError("On JAX the strategy must be auto, none or mirrored. Received: multiworker")
    if name == "mirrored" or name == "auto" and len(devices) > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False))
        notify(f"Strategy: mirrored, on {len(devices)} devices of JAX.")


def _tasks_of_tf_config():
    """The number of processes in TF_CONFIG; 0 if the variable is not set."""
    try:
        cluster = parse_json((os.environ.get("TF_CONFIG") or "{}").encode()).get("cluster", {})
        return len(cluster.get("chief", ())) + len(cluster.get("worker", ()))
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(f"TF_CONFIG must be JSON with a cluster and a task. Received: {error}") from error


def cluster_resolver():
    """TensorFlow's cluster resolver for TF_CONFIG or, if that is not set, for SLURM.

    Raises:
        UserError: if neither is available.
    """
    import tensorflow as tf

    if _tasks_of_tf_config():
        return tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if "SLURM_PROCID" in os.environ:
        port = 20_000 + int(os.environ.get("SLURM_JOB_ID", 0)) % 10_000  # two jobs may share a machine
        # TensorFlow's own assignment of GPUs fails without GPUs; SLURM has already assigned each task its GPUs.
        gpus = {"gpus_per_node": 2**10, "gpus_per_task": 1, "auto_set_gpu": False}
        slurm = tf.distribute.cluster_resolver.SlurmClusterResolver(port_base=port, **gpus)
        cluster, (kind, index) = slurm.cluster_spec(), slurm.get_task_info()
        visible = {"GPU": len(tf.config.list_physical_devices("GPU"))}
        return tf.distribute.cluster_resolver.SimpleClusterResolver(
            cluster, task_type=kind, task_id=index, num_accelerators=visible, rpc_layer="grpc"
        )
    raise UserError(
        "The strategy multiworker needs the variable TF_CONFIG or a SLURM job. "
        "On one machine, `keras-attention launch --workers 2 -- ...` sets TF_CONFIG."
    )


def _counted(devices):
    kind = devices[0].device_type
    return f"{len(devices)} {kind}{'s' * (len(devices) > 1)}"


def accelerate(settings, large_products=False):
    """Calls `choose_acceleration` and sets Keras's dtype policy for all models that are created afterwards."""
    settings = choose_acceleration(settings, large_products)
    keras.config.set_dtype_policy(dtype_policy(settings))
    return settings


def choose_acceleration(settings, large_products=False):
    """Chooses number format and compiler for the device, unless the settings determine them.

    The default is XLA with float32. On a GPU, models with large matrix products use bfloat16. A CPU with AMX units
    multiplies in bfloat16 about six times as fast as in float32, but only with oneDNN's kernels. There, large matrix
    products go to oneDNN, and XLA compiles only the element-wise operations. Call this before TensorFlow runs its first
    function, because that is when TensorFlow reads its flags.

    Args:
        settings: dataclass with the fields of AccelerationSettings.
        large_products: bool. Whether matrix products dominate the time of a step; true from a width of about 256 on.

    Returns:
        `settings` with both fields set; `jit_compile` is whether to compile whole steps.
    """
    device, mixed_precision, jit_compile = find_device(), settings.mixed_precision, settings.jit_compile
    by_parts = device == AMX and large_products and not jit_compile and mixed_precision is not False
    if by_parts and CLUSTERS not in os.environ.get("TF_XLA_FLAGS", ""):
        os.environ["TF_XLA_FLAGS"] = f"{os.environ.get('TF_XLA_FLAGS', '')} {CLUSTERS}".strip()
        os.environ.setdefault("TF_SET_ONEDNN_FPMATH_MODE", "BF16")  # also for float32 products, such as the scores
    mixed_precision = (by_parts or (device == GPU and large_products)) if mixed_precision is None else mixed_precision
    jit_compile = not by_parts if jit_compile is None else jit_compile
    return dataclasses.replace(settings, mixed_precision=mixed_precision, jit_compile=jit_compile)


def dtype_policy(settings):
    """The name of Keras's dtype policy for these settings."""
    return "mixed_bfloat16" if settings.mixed_precision else "float32"


def description(settings):
    """A sentence that describes the choice of number format and compiler."""
    number = "bfloat16" if settings.mixed_precision else "float32"
    by_parts = CLUSTERS in os.environ.get("TF_XLA_FLAGS", "") and not settings.jit_compile
    what = "compiled with XLA" if settings.jit_compile else "all but the products compiled with XLA" if by_parts else ""
    return f"Computing in {number} on {find_device()}{', ' * bool(what)}{what}."


def find_device():
    """GPU, AMX or CPU, the kind of device that trains. AMX is detected on Linux only, and only TensorFlow uses it."""
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
    """The same model with the same weights in float32, as if it had been saved and loaded.

    Args:
        model: keras.Model of this package, built.

    Returns:
        Another model, or `model` itself if it computes in float32 already.
    """
    if model.compute_dtype == "float32":
        return model
    again = type(model).from_config({**model.get_config(), "dtype": "float32"})
    again.build()
    again.set_weights(model.get_weights())
    return again
