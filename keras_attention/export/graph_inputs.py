"""A classifier of any kind of input as one TensorFlow graph and SavedModel: arrays in, labels out."""

import numpy as np
import tensorflow as tf

from keras_attention.export.graph_texts import write_graph
from keras_attention.export.signatures import classes

README = """{name} as a TensorFlow SavedModel: arrays in, labels out. It needs tensorflow alone.

    import tensorflow as tf

    model = tf.saved_model.load("{name}")
    answers = model.signatures["serving_default"]({inputs})
    print({shown})

{sizes}

{listing}

Written by keras_attention {version}, TensorFlow {tensorflow}.
"""


def label_tensors(logits, task):
    """Labels as tensors, in a graph; see `pipelines.labels.label_answer`.

    Args:
        logits: float tensor (B, K).
        task: dict, see `catalog.classification.TASK`.

    Returns:
        Dict of tensors, see `export.signatures.classes`, without `truncated`.
    """
    logits, kind = tf.cast(logits, tf.float64), task["kind"]
    if kind == "regression":
        return {"value": tf.cast(logits[:, 0], tf.float32)}
    values = tf.sigmoid(logits) if kind == "multilabel" else tf.nn.softmax(logits)
    order = tf.argsort(-values, stable=True)
    names = tf.gather(tf.constant(task["label_names"]), order)  # (B, K), the most probable first
    probabilities = tf.gather(values, order, batch_dims=1)
    if kind == "multilabel":
        given = values >= tf.constant(np.broadcast_to(task["threshold"], len(task["label_names"])), tf.float64)
        chosen = tf.ragged.boolean_mask(names, tf.gather(given, order, batch_dims=1))
        label = tf.strings.reduce_join(chosen, axis=1, separator=task["separator"])
    else:
        needed = task.get("min_probability") or 0.0
        label = tf.where(probabilities[:, 0] >= needed, names[:, 0], "")
    return {"label": label, "labels": names, "probabilities": tf.cast(probabilities, tf.float32)}


class GraphInputClassifier(tf.Module):
    """The network of an `InputClassifier` with its labels, as a graph that runs without this package.

    Args:
        classifier: InputClassifier whose kind of input has no padded axis.

    Call arguments:
        The inputs of the kind's `signature`, each (B, ...), by name.

    Returns:
        Dict of tensors, see `export.signatures.classes`.
    """

    def __init__(self, classifier):
        super().__init__()
        self._task = classifier.task
        self._find_model = lambda: classifier.model  # not an attribute: TensorFlow would save all of Keras's objects
        self._weights = [variable.value for variable in classifier.model.variables]
        self._kind, self._blend = classifier.kind, classifier.blend
        arrays = classifier.kind.exported_arrays()
        self._names = list(arrays)
        signature = [
            tf.TensorSpec((None, *self._kind.exported_shapes.get(name, array.shape)), array.dtype, name=name)
            for name, array in arrays.items()
        ]
        self.answer = tf.function(self._answer, input_signature=signature, autograph=False)

    def _answer(self, *arrays):
        size = tf.shape(arrays[0])[0]  # B
        inputs = self._kind.from_exported(dict(zip(self._names, map(_one_at_least, arrays), strict=True)))
        logits = tf.cast(self._find_model()(inputs, training=False), tf.float32)
        if self._blend is not None:
            words, weight = self._blend
            features = tf.cast(self._kind.features(inputs["values"]), tf.float32)
            logits = (1 - weight) * logits + weight * (tf.matmul(features, words.kernel) + words.bias)
        return {name: tensor[:size] for name, tensor in label_tensors(logits, self._task).items()}


def _one_at_least(array):
    """An array (B, ...), or (1, ...) of zeros if B is 0: TensorFlow's convolution with relu refuses empty batches."""
    missing = tf.cast(tf.equal(tf.shape(array)[0], 0), tf.int32)
    paddings = tf.pad([[0, missing]], [[0, array.shape.rank - 1], [0, 0]])
    return tf.ensure_shape(tf.pad(array, paddings), array.shape)


def export_input_classifier(folder, classifier, name):
    """Writes an InputClassifier, see `GraphInputClassifier`; returns its signature."""
    graph, task, kind = GraphInputClassifier(classifier), classifier.task, classifier.kind
    shown = 'answers["value"].numpy()' if task["kind"] == "regression" else 'answers["label"].numpy()[0].decode()'
    examples = {key: array[None] for key, array in kind.exported_arrays().items()}
    options = {"name": name, "examples": examples, "shown": shown, "sizes": "B inputs, K labels.", "readme": README}
    return write_graph(folder, graph, graph.answer, classes(task, kind), **options)
