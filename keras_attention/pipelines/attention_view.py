"""The attention weights of any pipeline for one text, as a page to explore."""

import numpy as np

from keras_attention.errors import UserError
from keras_attention.pipelines.texts import LOST, START, as_texts, text_sequences
from keras_attention.tokenizers.special_tokens import END_ID, SPECIAL_PIECES, START_ID
from keras_attention.visualize.attention_page import AttentionMap, attention_page

SOURCE, TRANSLATION = "source", "translation"
CUT = "; the text exceeds the limit of the model: its {} was left out"


def translation_view(translator, text, *, target=None, n_best=1, **search):
    """The attention page of a translation, with every layer and head.

    Args:
        translator: Translator.
        text: str, the source.
        target: str, a translation to show instead of the model's own, or None.
        n_best: int in [1, beam_size], hypotheses shown.
        search: see `Translator.hypotheses`.

    Returns:
        AttentionView.

    Raises:
        UserError: if the text is empty or not a str, or the model has no attention; see `Translator.hypotheses`.
    """
    if not translator.has_attention:
        raise UserError("This model has no attention, so there is nothing to show.")
    as_texts([text] if target is None else [text, target], "text")
    if target is None:
        best = translator.hypotheses(text, n_best=n_best, **search)[0]
        written = [(f"{one.text}  ({one.score:.2f})", np.array(one.token_ids)) for one in best if one.tokens]
    else:
        (ids,) = translator.target_tokenizer.encode([target])
        if len(ids) >= translator.decoding["max_length"]:
            most = translator.decoding["max_length"] - 1
            raise UserError(f"A translation has at most {most} tokens here. Received: {len(ids)} tokens")
        written = [(target, np.append(ids, END_ID))]
    (source_ids,), (truncated,) = translator.encode([text], translator.decoding["max_source_length"])
    answers = [(name, _translation_maps(translator, source_ids, ids)) for name, ids in written]
    note = f"{type(translator.model).__name__}, {translator.model.count_params():,} parameters"
    return attention_page(answers, text, note + CUT.format(LOST[START]) * truncated)


def _translation_maps(translator, source_ids, written_ids):
    """The maps of one hypothesis: cross-attention, and for a Transformer the self-attention of encoder and decoder."""
    inputs = np.concatenate([[START_ID], written_ids[:-1]]).astype("int32")
    batch = {"source_ids": source_ids[None], "target_ids": inputs[None]}
    read, written = translator.source_tokenizer.tokens(source_ids), translator.target_tokenizer.tokens(written_ids)
    before = [SPECIAL_PIECES[START_ID], *written[:-1]]
    cross = AttentionMap(
        "cross-attention", _first(translator.model.cross_attention(batch)), written, read, TRANSLATION, SOURCE
    )
    if not translator.model.has_self_attention:
        return [cross]
    weights = translator.model(batch, training=False, return_attention_scores=True)[1]
    own = "translation so far"
    return [
        cross,
        AttentionMap("encoder self-attention", _first(weights["encoder"]), read, read, SOURCE, SOURCE),
        AttentionMap("decoder self-attention", _first(weights["decoder"]), before, before, own, own),
    ]


def bert_view(pipeline, text, text_b=None, *, masks=False, decision=(), said=""):
    """The attention page of a BERT, with every layer and head, and the answer of the model.

    Args:
        pipeline: TextEncoder, Classifier or MaskFiller.
        text: str.
        text_b: str, the second text of a pair, or None.
        masks: bool. Whether "[MASK]" in a text is the mask token.
        decision: list of (str, float), the model's answers and their probabilities.
        said: str, appended to the note under the title.

    Returns:
        AttentionView.

    Raises:
        UserError: if the text is not a str; see `Classifier.classify`.
    """
    encoder, tokenizer = pipeline.encoder, pipeline.tokenizer
    sides = [text], None if text_b is None else [text_b]
    limits = {"max_tokens": pipeline.max_tokens, "long_texts": pipeline.long_texts}
    (sequence,) = text_sequences(tokenizer, *sides, **limits, masks=masks)
    inputs = {"token_ids": sequence.token_ids[None]}
    if encoder.num_segments > 1:
        inputs["segment_ids"] = sequence.segment_ids[None]
    weights = encoder(inputs, training=False, return_attention_scores=True)[1]
    tokens, segments = tokenizer.tokens(sequence.token_ids), sequence.segment_ids.tolist()
    maps = [AttentionMap("self-attention", _first(weights), tokens, tokens, "query", "key", segments, segments)]
    note = f"{type(pipeline.model).__name__}, {pipeline.model.count_params():,} parameters{said}"
    title = text if text_b is None else f"{text} / {text_b}"
    return attention_page(
        [("", maps)], title, note + CUT.format(LOST[pipeline.long_texts]) * sequence.truncated, decision
    )


def _first(weights):
    """The weights (L, H, T, S) of a batch that holds one text."""
    return np.asarray(weights, "float32")[0]
