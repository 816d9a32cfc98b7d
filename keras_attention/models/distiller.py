"""A student that is made from layers of its teacher, and both side by side."""

import keras
from keras import ops

from keras_attention.models.bert_encoder import BertEncoder


def student_of(teacher, layers, kept=None, **changes):
    """A smaller encoder that starts with some layers and some vectors of a larger one.

    Args:
        teacher: built BertEncoder.
        layers: sequence of int, which of its layers, from 0 on, in their order.
        kept: int array, the tokens of the teacher that the student knows, by their ids there; None for all.
        changes: other settings of the student, such as `dropout`.

    Returns:
        Built BertEncoder.

    Raises:
        ValueError: if the teacher has no such layer.

    Source: Sanh et al. (2019), section 3, https://arxiv.org/abs/1910.01108, where every other layer is taken.
    """
    if not layers or not all(0 <= layer < len(teacher.encoder_layers) for layer in layers):
        raise ValueError(f"`layers` must be in [0, {len(teacher.encoder_layers)}). Received: layers={[*layers]}")
    vectors = ops.convert_to_numpy(teacher.token_embedding.embeddings)
    vectors = vectors if kept is None else vectors[kept]
    sizes = {"vocabulary_size": len(vectors), "num_layers": len(layers)}
    student = BertEncoder(**teacher.settings | sizes | changes)
    student.build()
    student.token_embedding.embeddings.assign(vectors)
    parts = [(student.encoder_layers[i], teacher.encoder_layers[layer]) for i, layer in enumerate(layers)]
    for name in ("position_embedding", "segment_embedding", "embedding_norm", "final_norm"):
        if getattr(student, name) is not None:
            parts.append((getattr(student, name), getattr(teacher, name)))
    for part, original in parts:
        part.set_weights(original.get_weights())
    return student


def with_policy(encoder):
    """A copy of a BertEncoder without dropout that computes as Keras's dtype policy says."""
    copy = BertEncoder(**encoder.settings | {"dropout": 0.0})
    copy.build()
    copy.set_weights(encoder.get_weights())
    return copy


class Distiller(keras.Model):
    """Student and teacher read the same texts; only the student learns.

    Shapes: B texts, T tokens of the student, S of the teacher, D width, H heads.

    Args:
        student, teacher: built BertEncoders of the same width.
        with_attention: bool. Whether to return the attention weights of both last layers, too.

    Call arguments:
        inputs: dict of int tensors, `token_ids` (B, T) of the student and `teacher_ids` (B, S), where 0 is padding.
        training: bool. Whether the student applies dropout; the teacher never does.

    Returns:
        The pair of dicts of float32 tensors, of the student and of the teacher: `hidden` (B, T, D), the last hidden
        states; `vector` (B, D), their mean over the tokens, [CLS] and [SEP] included; `weights` (B, H, T, T), with
        `with_attention`.
    """

    def __init__(self, student, teacher, with_attention=False, **kwargs):
        super().__init__(**kwargs)
        self.student = student
        self.teacher = teacher
        self.with_attention = with_attention
        self.teacher.trainable = False

    def build(self, input_shape=None):
        self.built = True

    def call(self, inputs, training=None):
        learnt = self._read(self.student, inputs["token_ids"], training)
        wanted = self._read(self.teacher, inputs["teacher_ids"], False)
        return learnt, {name: ops.stop_gradient(value) for name, value in wanted.items()}

    def _read(self, encoder, token_ids, training):
        inputs, asked = {"token_ids": token_ids}, self.with_attention
        hidden = encoder(inputs, training=training, return_attention_scores=asked)
        hidden, weights = hidden if asked else (hidden, None)
        hidden = ops.cast(hidden, "float32")
        seen = {"hidden": hidden, "vector": mean_of_tokens(hidden, token_ids)}
        return seen if weights is None else seen | {"weights": weights[:, -1]}


def mean_of_tokens(hidden, token_ids):
    """The mean (B, D) of the vectors (B, T, D) that are no padding."""
    real = ops.cast(ops.not_equal(token_ids, 0), hidden.dtype)[:, :, None]  # (B, T, 1)
    return ops.sum(hidden * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)
