"""CTranslate2 as the engine of a translator: converts our Transformer, and ranks hypotheses by our score."""

import math
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_attention.decoding import Hypotheses
from keras_attention.models import Transformer
from keras_attention.runtime.compiled_search import CompiledSearch
from keras_attention.runtime.prepared_weights import PreparedWeights
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UserError
from keras_attention.support.installation import install_command
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, SPECIAL_PIECES, START_ID

POSITIONS = 1024  # minimum number of sinusoidal position encodings in the converted model
NEVER = [[SPECIAL_PIECES[PAD_ID]], [SPECIAL_PIECES[START_ID]]]


def use_ctranslate2(translator, compute_type=None):
    """Makes a Translator search with CTranslate2.

    Args:
        translator: Translator of a Transformer, changed.
        compute_type: "int8" for 8-bit matrix products; None for "float32".

    Raises:
        UserError: if the package is missing, or CTranslate2 cannot run the model or the compute type.
    """
    translator.compiled = CTranslate2Search(translator, compute_type or "float32")


def library():
    """The package ctranslate2; raises UserError if it is not installed."""
    os.environ.setdefault("CT2_USE_MKL", "0")  # read when ctranslate2 is imported
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(f"CTranslate2 is not installed: {install_command('ctranslate2')}") from error
    return ctranslate2


class Candidate(NamedTuple):
    """One hypothesis of CTranslate2: its token ids, with END if it ended, and its log probability."""

    token_ids: list
    log_prob: float

    @property
    def length(self):
        return len(self.token_ids)

    @property
    def ended(self):
        return self.token_ids[-1] == END_ID

    def score(self, length_penalty, ranking="gnmt"):
        return self.log_prob / penalty(self.length, length_penalty, ranking)


def penalty(length, alpha, ranking):
    """The length penalty of `decoding.hypotheses.length_penalty`, as a number."""
    return ((5.0 + length) / 6.0 if ranking == "gnmt" else length) ** alpha


USUAL_PATIENCE = 2.0  # for the ranking "length" without patience: CTranslate2 does not tell the scores of live beams


class CTranslate2Search:
    """Searches with CTranslate2; has the methods and return values of `CompiledSearch`.

    CTranslate2 expands beams as we do and stops after patience * K ended hypotheses, but ranks them by log P / |Y|^a.
    Therefore this class requests all ended hypotheses, ordered by log probability alone, and ranks them by our score.
    If more hypotheses end in the last step, CTranslate2 drops those of lowest log probability. If a dropped hypothesis
    could be among the best, or if a hypothesis exceeds the limit of its sentence (a batch is searched up to its largest
    limit), the sentence is searched again, up to its own limit and with every hypothesis that ends.

    Difference: CTranslate2 normalizes the probabilities over the allowed tokens only. A log probability is therefore
    higher, since unknown, padding and start tokens get no probability: by up to 0.001 for a sentence of the trained
    models. With the ranking "length" and no patience, a search ends after 2 K ended hypotheses, see `beam_search`.

    Args:
        translator: Translator of a Transformer.
        compute_type: str, "float32" or "int8".
    """

    def __init__(self, translator, compute_type):
        ctranslate2 = library()
        supported = sorted(ctranslate2.get_supported_compute_types("cpu"))
        if compute_type not in supported:
            raise UserError(
                f"This machine has these compute types: {', '.join(supported)}. Received: compute_type={compute_type}"
            )
        with tempfile.TemporaryDirectory() as folder:
            self._positions = write_ctranslate2(Path(folder) / "model", translator)
            # One thread per batch: several threads would wait for each other at every small matrix product.
            threads = {"inter_threads": available_cores(), "intra_threads": 1}
            self._engine = ctranslate2.Translator(f"{folder}/model", compute_type=compute_type, **threads)
        source, target = translator.source_tokenizer, translator.target_tokenizer
        self._source_pieces = source.tokens(range(source.vocabulary_size))
        self._target_ids = {piece: i for i, piece in enumerate(target.tokens(range(target.vocabulary_size)))}
        self._keras = CompiledSearch(PreparedWeights(translator.model))
        self.attention, self.stepper = self._keras.attention, self._keras.stepper

    def search(
        self,
        source_ids,
        limits,
        max_steps,
        *,
        beam_size,
        n_best,
        length_penalty,
        coverage_penalty,
        patience,
        ranking="gnmt",
        force_end=False,
        unknowns=False,
        no_repeat_ngram_size=0,
    ):
        """See `CompiledSearch.search`; `force_end` is ignored, so an answer at the maximum length has no END.

        The rare searches with `no_repeat_ngram_size` run in Keras, because CTranslate2 would normalize the
        probabilities over the tokens that are not blocked.
        """
        if no_repeat_ngram_size:
            options = {"beam_size": beam_size, "n_best": n_best, "length_penalty": length_penalty, "patience": patience}
            options |= {"coverage_penalty": coverage_penalty, "ranking": ranking, "force_end": force_end}
            options |= {"unknowns": unknowns, "no_repeat_ngram_size": no_repeat_ngram_size}
            return self._keras.search(source_ids, limits, max_steps, **options)
        if coverage_penalty:
            raise UserError("CTranslate2 has no coverage penalty like ours: leave it out, or use --engine keras.")
        shape = len(limits), n_best, max_steps
        hypotheses = Hypotheses(
            token_ids=np.full(shape, PAD_ID, "int32"),
            lengths=np.zeros(shape[:2], "int32"),
            scores=np.full(shape[:2], -np.inf, "float32"),
            log_probs=np.full(shape[:2], -np.inf, "float32"),
        )
        rows = np.flatnonzero(limits)
        options = {"beam_size": beam_size, "unknowns": unknowns}
        if patience is None and ranking == "length":
            patience = USUAL_PATIENCE
        rule = length_penalty, ranking
        enough = None if patience is None else max(n_best, math.ceil(patience * beam_size))
        most = 1 if beam_size == 1 else enough
        groups = [None] * len(rows)
        if most:
            groups = self._translate(source_ids[rows], int(limits.max()), most, **options)
        for row, candidates in zip(rows, groups, strict=True):
            limit = int(limits[row])
            if not (candidates and is_certain(candidates, limit, most, beam_size, n_best, *rule)):
                (candidates,) = self._translate(source_ids[row : row + 1], limit, beam_size * limit, **options)
                candidates = ended_in_time(candidates, enough)
            for j, one in enumerate(ranked(candidates, *rule)[:n_best]):
                hypotheses.token_ids[row, j, : one.length] = one.token_ids
                hypotheses.lengths[row, j] = one.length
                hypotheses.scores[row, j] = one.score(*rule)
                hypotheses.log_probs[row, j] = one.log_prob
        return hypotheses

    def refresh(self):
        """Does nothing: CTranslate2 keeps the weights that the model had when this engine was made."""

    def in_graph(self, max_steps, **options):
        """See `CompiledSearch.in_graph`. Equal sentences, such as those that fill up a batch, are searched once."""

        def run(source_ids, limits):
            _, first, places = np.unique(source_ids, axis=0, return_index=True, return_inverse=True)
            hypotheses = self.search(source_ids[first], limits[first], max_steps, **options)
            return [field[places.ravel()] for field in hypotheses]

        dtypes = Hypotheses(tf.int32, tf.int32, tf.float32, tf.float32)
        return lambda source_ids, limits: Hypotheses(*tf.numpy_function(run, [source_ids, limits], dtypes))

    def stream(self, source_ids, limit, max_steps, sampling=None):
        """See `CompiledSearch.stream`; greedy search only."""
        if sampling:
            raise UserError("CTranslate2 draws other random numbers: leave out --temperature, or use --engine keras.")
        (pieces,) = self._pieces(source_ids)
        for step in self._engine.generate_tokens(pieces, **self._rules(limit, unknowns=False)):
            yield step.token_id

    def _translate(self, source_ids, limit, most, *, beam_size, unknowns):
        """A list of Candidates for each of the sources (B, S), most probable first; stops when `most` have ended."""
        results = self._engine.translate_batch(
            self._pieces(source_ids),
            beam_size=beam_size,
            num_hypotheses=1 if beam_size == 1 else most,
            patience=1.0 if beam_size == 1 else (most + 0.01) / beam_size,  # with 1.0 it would stop earlier
            length_penalty=0.0,
            return_scores=True,
            return_end_token=True,
            **self._rules(limit, unknowns),
        )
        get = self._target_ids.__getitem__
        return [
            [
                Candidate(list(map(get, pieces)), score)
                for pieces, score in zip(one.hypotheses, one.scores, strict=True)
                if pieces
            ]
            for one in results
        ]

    def _rules(self, limit, unknowns):
        if limit > self._positions:
            raise UserError(f"CTranslate2 has {self._positions} positions of this model. Received: max_length={limit}")
        rules = {"suppress_sequences": NEVER, "disable_unk": not unknowns}
        return rules | {"max_decoding_length": limit, "min_decoding_length": 0, "max_input_length": 0}

    def _pieces(self, source_ids):
        """The pieces of sources (B, S), without padding."""
        return [[self._source_pieces[number] for number in row if number != PAD_ID] for row in source_ids.tolist()]


def is_certain(candidates, limit, most, beam_size, n_best, length_penalty, ranking="gnmt"):
    """Whether the best of these candidates are the best of all that our search would find.

    If at least `most` hypotheses ended, others may be missing. Their log probability is at most that of the last
    candidate, and they are at most as long as the longest candidate, which ended in the last step.
    """
    longest = max(one.length for one in candidates)
    if longest > limit:
        return False
    if beam_size == 1:
        return True
    if not all(one.ended for one in candidates):
        return False
    attainable = candidates[-1].log_prob / penalty(longest, length_penalty, ranking)
    best = ranked(candidates, length_penalty, ranking)
    return len(candidates) < most or best[n_best - 1].score(length_penalty, ranking) >= attainable


def ended_in_time(candidates, enough):
    """The candidates that exist when our search stops, which is the step at which `enough` hypotheses have ended."""
    lengths = sorted(one.length for one in candidates if one.ended)
    if enough is None or len(lengths) < enough:
        return candidates
    return [one for one in candidates if one.ended and one.length <= lengths[enough - 1]]


def ranked(candidates, length_penalty, ranking="gnmt"):
    """The candidates in the order of our search: ended before unended, then by score, then the shorter first."""
    return sorted(candidates, key=lambda one: (not one.ended, -one.score(length_penalty, ranking), one.length))


def write_ctranslate2(folder, translator, quantization=None):
    """Writes a folder that `ctranslate2.Translator` loads.

    Args:
        folder: str or Path, created if it is missing.
        translator: Translator of a Transformer.
        quantization: None for float32, or "int8".

    Returns:
        int, the number of position encodings: the maximum length of a sentence in tokens.

    Raises:
        UserError: if ctranslate2 is not installed, or the model is not a Transformer with self-attention.
    """
    model, name = translator.model, translator.entry.name if translator.entry else "This model"
    if not isinstance(model, Transformer):
        raise UserError(
            f"{name} is an {type(model).__name__}, but CTranslate2 runs Transformers only. "
            "Use --engine keras, or --format saved_model for an export."
        )
    if model.decoder != "attention":
        raise UserError(
            f"{name} has the decoder {model.decoder}, but CTranslate2 runs decoders with self-attention only. "
            "Use --engine keras, or --format saved_model for an export."
        )
    library()
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation

    activations = {"relu": Activation.RELU, "gelu": Activation.GELU, "silu": Activation.SWISH}
    spec = TransformerSpec.from_config(
        (model.num_encoder_layers, model.num_decoder_layers),
        model.num_heads,
        pre_norm=model.normalize_first,
        activation=activations[model.activation],
    )
    positions = max(POSITIONS, translator.decoding["max_source_length"], translator.decoding["max_length"])
    positions = model.max_length if model.positions == "learned" else positions
    spec.encoder.embeddings[0].weight = array(model.source_embedding.embeddings)
    spec.decoder.embeddings.weight = array(model.target_embedding.embeddings)
    spec.decoder.projection.weight = array(model.target_embedding.embeddings)
    if model.output_projection is not None:
        spec.decoder.projection.weight = array(array(model.output_projection.kernel).T)
    if model.output_bias:
        spec.decoder.projection.bias = array(model.logits_bias)
    empty = np.zeros((1, positions, model.hidden_dim), "float32")
    for side, position in ((spec.encoder, model.source_position), (spec.decoder, model.target_position)):
        side.scale_embeddings = True
        side.position_encodings.encodings = array(position(empty))[0]
    for target, layer in zip(spec.encoder.layer, model.encoder_layers, strict=True):
        set_self_attention(target.self_attention, layer)
        set_feed_forward(target.ffn, layer)
    for target, layer in zip(spec.decoder.layer, model.decoder_layers, strict=True):
        set_self_attention(target.self_attention, layer)
        set_cross_attention(target.attention, layer)
        set_feed_forward(target.ffn, layer)
    if model.normalize_first:
        set_norm(spec.encoder.layer_norm, model.encoder_norm)
        set_norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.register_source_vocabulary(pieces_of(translator.source_tokenizer))
    spec.register_target_vocabulary(pieces_of(translator.target_tokenizer))
    spec.config.layer_norm_epsilon = model.encoder_layers[0].layer_norm_epsilon
    spec.validate()
    spec.optimize(quantization)
    Path(folder).mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return positions


def pieces_of(tokenizer):
    """All pieces of a tokenizer by id; raises UserError if two are equal, since CTranslate2 identifies them by text."""
    pieces = tokenizer.tokens(range(tokenizer.vocabulary_size))
    if len(set(pieces)) < len(pieces):
        twice = next(piece for piece in pieces if pieces.count(piece) > 1)
        raise UserError(f"CTranslate2 needs different pieces. Found: {twice!r} twice in the vocabulary")
    return pieces


def array(weight):
    return np.ascontiguousarray(weight, "float32")


def set_norm(target, norm):
    target.gamma, target.beta = array(norm.gamma), array(norm.beta)


def set_linear(target, *projections):
    """Joins projections side by side; kernels (in, out) become one matrix (sum of out, in)."""
    kernels, biases = zip(*projections, strict=True)
    target.weight = array(np.concatenate(kernels, axis=1).T)
    target.bias = np.concatenate(biases)


def head_projection(layer):
    """A projection to heads as a matrix (D, H K) and its bias."""
    kernel = array(layer.kernel)
    return kernel.reshape(len(kernel), -1), array(layer.bias).ravel()


def output_projection(attention):
    """The projection from heads as a matrix (H V, D) and its bias."""
    kernel = array(attention.output_projection.kernel)
    return kernel.reshape(-1, kernel.shape[-1]), array(attention.output_projection.bias)


def set_self_attention(target, layer):
    attention = layer.self_attention
    parts = attention.query_projection, attention.key_projection, attention.value_projection
    set_linear(target.linear[0], *map(head_projection, parts))
    set_linear(target.linear[1], output_projection(attention))
    set_norm(target.layer_norm, layer.self_attention_norm)


def set_cross_attention(target, layer):
    attention = layer.cross_attention
    set_linear(target.linear[0], head_projection(attention.query_projection))
    set_linear(target.linear[1], *map(head_projection, (attention.key_projection, attention.value_projection)))
    set_linear(target.linear[2], output_projection(attention))
    set_norm(target.layer_norm, layer.cross_attention_norm)


def set_feed_forward(target, layer):
    for part, dense in (
        (target.linear_0, layer.feed_forward.intermediate_dense),
        (target.linear_1, layer.feed_forward.output_dense),
    ):
        set_linear(part, (array(dense.kernel), array(dense.bias)))
    set_norm(target.layer_norm, layer.feed_forward_norm)
