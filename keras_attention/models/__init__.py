"""Complete models; they return logits.

They use `keras.ops` only and run on TensorFlow, JAX and PyTorch. Tests fit, save, load and clone them on each backend
that is installed.
"""

from typing import Any

from keras_attention.models import convolutional_lm, gpt, recurrent_networks
from keras_attention.models.attention_captioner import AttentionCaptioner
from keras_attention.models.behavior_sequence import BehaviorSequenceTransformer
from keras_attention.models.bert_encoder import BERT_PRESETS, BertEncoder
from keras_attention.models.bert_heads import BertClassifier, BertMaskedLM, BertPretrainer
from keras_attention.models.convolutional_lm import ConvolutionalLM
from keras_attention.models.gpt import GPT, GPT_PRESETS, scale_residual_projections
from keras_attention.models.hierarchical_attention import HierarchicalAttentionClassifier
from keras_attention.models.patch_classifier import PatchClassifier
from keras_attention.models.patch_pretrainer import PatchPretrainer
from keras_attention.models.recurrent_networks import RecurrentClassifier, RecurrentLM
from keras_attention.models.seq2seq import AttentionSeq2Seq
from keras_attention.models.speech_recognizer import SpeechRecognizer
from keras_attention.models.static_vectors import StaticVectorClassifier
from keras_attention.models.transformer import PRESETS, Transformer

__all__ = [
    "BERT_PRESETS",
    "GPT",
    "GPT_PRESETS",
    "LANGUAGE_MODELS",
    "PRESETS",
    "AttentionCaptioner",
    "AttentionSeq2Seq",
    "BehaviorSequenceTransformer",
    "BertClassifier",
    "BertEncoder",
    "BertMaskedLM",
    "BertPretrainer",
    "ConvolutionalLM",
    "HierarchicalAttentionClassifier",
    "PatchClassifier",
    "PatchPretrainer",
    "RecurrentClassifier",
    "RecurrentLM",
    "SpeechRecognizer",
    "StaticVectorClassifier",
    "Transformer",
    "new_language_model",
]

# Kind -> class, the names of its settings, and the settings that define the kind.
LANGUAGE_MODELS = {
    "gpt": (GPT, gpt.SETTINGS, {}),
    **{cell: (RecurrentLM, recurrent_networks.SETTINGS, {"cell": cell}) for cell in recurrent_networks.CELLS},
    "convolutional": (ConvolutionalLM, convolutional_lm.SETTINGS, {}),
}


def new_language_model(kind: str, settings: dict[str, Any]) -> GPT | RecurrentLM | ConvolutionalLM:
    """Builds a causal language model with random weights.

    All kinds take `token_ids` (B, T), return logits (B, T, V), and have the same step function (`encode`, `widened`,
    `initial_state` and `step`).

    Args:
        kind: str, one of `LANGUAGE_MODELS`.
        settings: dict of settings such as `hidden_dim`. Settings that the kind does not have are ignored.

    Returns:
        Built keras.Model. The residual projections of a GPT are scaled by its depth.

    Raises:
        ValueError: if the kind is unknown, a setting is out of range, or two do not fit together.

    Example:
        model = new_language_model("lstm", {"vocabulary_size": 90, "hidden_dim": 256, "num_layers": 2})
    """
    if kind not in LANGUAGE_MODELS:
        raise ValueError(f"`kind` must be one of {', '.join(LANGUAGE_MODELS)}. Received: kind={kind!r}")
    network, names, fixed = LANGUAGE_MODELS[kind]
    model = network(**{name: value for name, value in (settings | fixed).items() if name in names})
    model.build()
    if network is GPT:
        scale_residual_projections(model)
    return model
