"""A smaller BERT made of a teacher's layers, and the two side by side in one model for distillation."""

import keras
import numpy as np
from keras import ops

from keras_attention.layers import padding_mask
from keras_attention.layers.positions import at_positions
from keras_attention.models.bert_encoder import BertEncoder, with_layers_of
from keras_attention.models.bert_heads import BertMaskedLM, mean_of_tokens


def student_of(teacher, layers, kept=None, **changes):
    """Makes a smaller model from some layers and token embeddings of a larger one; a head stays whole.

    Args:
        teacher: built BertEncoder or BertMaskedLM.
        layers: sequence of int, indices of the teacher's layers to copy, counted from 0.
        kept: int array, the teacher's ids of the student's tokens, in the order of the student's ids; None for all.
        changes: settings that differ from the teacher's, such as `dropout`. With a larger `max_length`, the teacher's
            position embeddings are repeated.

    Returns:
        Built model of the teacher's class.

    Raises:
        ValueError: if the teacher has no such layer.

    Source: Sanh et al. (2019), section 3, https://arxiv.org/abs/1910.01108. The paper copies every second layer.
    Repeated positions: `bert_encoder.with_layers_of`.
    """
    if isinstance(teacher, BertMaskedLM):
        encoder = student_of(teacher.encoder, layers, kept, **changes)
        student = BertMaskedLM(**encoder.settings)
        student.build()
        bias = ops.convert_to_numpy(teacher.output_bias)
        student.output_bias.assign(bias if kept is None else bias[kept])
        student.encoder.set_weights(encoder.get_weights())
        for name in ("head_dense", "head_norm"):
            getattr(student, name).set_weights(getattr(teacher, name).get_weights())
        return student
    if not layers or not all(0 <= layer < len(teacher.encoder_layers) for layer in layers):
        raise ValueError(f"`layers` must be in [0, {len(teacher.encoder_layers)}). Received: layers={[*layers]}")
    vectors = ops.convert_to_numpy(teacher.token_embedding.embeddings)
    vectors = vectors if kept is None else vectors[kept]
    sizes = {"vocabulary_size": len(vectors), "num_layers": len(layers)}
    student = BertEncoder(**teacher.settings | sizes | changes)
    student.build()
    student.token_embedding.embeddings.assign(vectors)
    return with_layers_of(student, teacher, layers)


def with_policy(model):
    """Copies a BertEncoder or BertMaskedLM, without dropout and with Keras's current dtype policy."""
    copy = type(model)(**model.settings | {"dropout": 0.0})
    copy.build()
    copy.set_weights(model.get_weights())
    return copy


class Distiller(keras.Model):
    """Runs student and teacher on the same texts; only the student is trainable.

    Shapes: B texts, T tokens of the student, S of the teacher, D width, H heads, K width of a head, P masked tokens, V
    pieces of the student.

    Args:
        student, teacher: built BertEncoders of the same width, or two BertMaskedLMs.
        kept: int array (V,), the teacher's ids of the student's pieces, or None if both have the same.
        with_attention: bool. Whether to return the attention weights of the last layer of each too.
        with_values: bool. Whether to return the values of the last layer's self-attention too.

    Call arguments:
        inputs: dict of int tensors: `token_ids` (B, T) of the student and `teacher_ids` (B, S); 0 is padding.
            BertMaskedLMs also need the positions of the masked tokens in each, `masked_positions` and
            `teacher_positions` (B, P).
        training: bool. Whether the student applies dropout; the teacher never does.

    Returns:
        Pair of dicts of float32 tensors, one of the student and one of the teacher (with S in place of T): `hidden`
        (B, T, D), the last hidden states; `vector` (B, D), their mean over the tokens including [CLS] and [SEP];
        with `with_attention`, `weights` (B, H, T, T); with `with_values`, `values` (B, T, H, K); and of BertMaskedLMs,
        `logits` (B, P, V), the teacher's for the pieces of the student only.
    """

    def __init__(self, student, teacher, kept=None, with_attention=False, with_values=False, **kwargs):
        super().__init__(**kwargs)
        self.student = student
        self.teacher = teacher
        self.kept = None if kept is None else np.asarray(kept, "int32")
        self.with_attention = with_attention
        self.with_values = with_values
        self.teacher.trainable = False
        self.build()

    def build(self, input_shape=None):
        self.built = True

    def call(self, inputs, training=None):
        learnt = self._read(self.student, inputs["token_ids"], inputs.get("masked_positions"), training)
        wanted = self._read(self.teacher, inputs["teacher_ids"], inputs.get("teacher_positions"), False)
        if "logits" in wanted and self.kept is not None:
            wanted["logits"] = ops.take(wanted["logits"], self.kept, axis=-1)  # (B, P, V)
        return learnt, {name: ops.stop_gradient(value) for name, value in wanted.items()}

    def _read(self, model, token_ids, positions, training):
        encoder = model.encoder if isinstance(model, BertMaskedLM) else model
        asked = {"return_attention_scores": self.with_attention, "return_layer_inputs": self.with_values}
        outputs = encoder({"token_ids": token_ids}, training=training, **asked)
        vectors, *more = outputs if any(asked.values()) else (outputs,)  # (B, T, D)
        hidden = ops.cast(vectors, "float32")
        seen = {"hidden": hidden, "vector": mean_of_tokens(hidden, padding_mask(token_ids))}
        if self.with_attention:
            seen["weights"] = more[0][:, -1]  # (B, H, T, T)
        if self.with_values:
            seen["values"] = ops.cast(_values(encoder.encoder_layers[-1], more[-1][-1]), "float32")
        if model is not encoder:
            seen["logits"] = model.guess(at_positions(vectors, positions))  # (B, P, V)
        return seen


def _values(layer, x):
    """The values (B, T, H, K) of the self-attention of a TransformerEncoderLayer with the input x (B, T, D)."""
    return layer.self_attention.value_projection(layer.self_attention_norm(x) if layer.normalize_first else x)
