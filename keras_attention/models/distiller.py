"""Distillation: a student initialized from its teacher's layers, and a model that runs both."""

import keras
import numpy as np
from keras import ops

from keras_attention.layers import padding_mask
from keras_attention.models.bert_encoder import BertEncoder
from keras_attention.models.bert_heads import mean_of_tokens


def student_of(teacher, layers, kept=None, **changes):
    """Makes a smaller encoder from some layers and token embeddings of a larger one.

    Args:
        teacher: built BertEncoder.
        layers: sequence of int, indices of the teacher's layers to copy, counted from 0.
        kept: int array, the teacher's ids of the student's tokens, in the order of the student's ids; None for all.
        changes: settings that differ from the teacher's, such as `dropout`. With a larger `max_length`, the teacher's
            position embeddings are repeated.

    Returns:
        Built BertEncoder.

    Raises:
        ValueError: if the teacher has no such layer.

    Source: Sanh et al. (2019), section 3, https://arxiv.org/abs/1910.01108. The paper copies every second layer.
    Repeated positions: Beltagy et al. (2020), section 5, https://arxiv.org/abs/2004.05150.
    """
    if not layers or not all(0 <= layer < len(teacher.encoder_layers) for layer in layers):
        raise ValueError(f"`layers` must be in [0, {len(teacher.encoder_layers)}). Received: layers={[*layers]}")
    vectors = ops.convert_to_numpy(teacher.token_embedding.embeddings)
    vectors = vectors if kept is None else vectors[kept]
    sizes = {"vocabulary_size": len(vectors), "num_layers": len(layers)}
    student = BertEncoder(**teacher.settings | sizes | changes)
    student.build()
    student.token_embedding.embeddings.assign(vectors)
    positions = ops.convert_to_numpy(teacher.position_embedding.embeddings)
    student.position_embedding.embeddings.assign(np.resize(positions, (student.max_length, positions.shape[1])))
    parts = [(student.encoder_layers[i], teacher.encoder_layers[layer]) for i, layer in enumerate(layers)]
    for name in ("segment_embedding", "embedding_norm", "final_norm"):
        if getattr(student, name) is not None:
            parts.append((getattr(student, name), getattr(teacher, name)))
    for part, original in parts:
        part.set_weights(original.get_weights())
    return student


def with_policy(encoder):
    """Copies a BertEncoder, without dropout and with Keras's current dtype policy."""
    copy = BertEncoder(**encoder.settings | {"dropout": 0.0})
    copy.build()
    copy.set_weights(encoder.get_weights())
    return copy


class Distiller(keras.Model):
    """Runs student and teacher on the same texts; only the student is trainable.

    Shapes: B texts, T tokens of the student, S of the teacher, D width, H heads.

    Args:
        student, teacher: built BertEncoders of the same width.
        with_attention: bool. Whether to return the attention weights of the last layer of each too.

    Call arguments:
        inputs: dict of int tensors: `token_ids` (B, T) of the student and `teacher_ids` (B, S); 0 is padding.
        training: bool. Whether the student applies dropout; the teacher never does.

    Returns:
        Pair of dicts of float32 tensors, one of the student and one of the teacher (with S in place of T): `hidden`
        (B, T, D), the last hidden states; `vector` (B, D), their mean over the tokens including [CLS] and [SEP]; and
        with `with_attention`, `weights` (B, H, T, T).
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
        seen = {"hidden": hidden, "vector": mean_of_tokens(hidden, padding_mask(token_ids))}
        return seen if weights is None else seen | {"weights": weights[:, -1]}
