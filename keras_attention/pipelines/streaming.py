"""A translation piece by piece, as it is generated."""

import numpy as np

from keras_attention.inputs.given_texts import as_texts
from keras_attention.pipelines.doubt import copied_text
from keras_attention.pipelines.sentences import Piece, spacing
from keras_attention.runtime.buckets import answer_limit, source_bucket
from keras_attention.runtime.compiled_steps import check_drawing, in_float32
from keras_attention.tokenizers.special_tokens import PAD_ID


def stream(translator, text, *, temperature=0.0, top_k=0, top_p=1.0, seed=0, max_length=None, split=True):
    """Translates one text sentence by sentence and token by token, with greedy search or sampling.

    Args:
        translator: Translator.
        text: str. An empty sentence has an empty translation; some texts are copied, see `doubt.copied_text`.
        temperature: float in [0, 100]. 0 means greedy search; a higher value samples.
        top_k, top_p, seed: see `decoding.sample`.
        max_length: int or None, tokens of a sentence, see `Translator.hypotheses`.
        split: bool. Whether to translate each sentence by itself.

    Yields:
        str, the next characters as soon as they are generated. Joined, they are the translation.

    Raises:
        UserError: if the text is not a str or a setting is out of range.
    """
    as_texts([text], "text")
    check_drawing(temperature, top_k, top_p, seed)
    temperature = in_float32(temperature)
    settings = translator.settings(1, False, beam_size=1, max_length=max_length)
    sampling = {"seed": seed, "temperature": temperature, "top_k": top_k, "top_p": top_p} if temperature else None
    parts, shown = translator.sentences(text) if split else None, False
    for piece in parts.pieces if parts else [Piece("", text)]:
        before = spacing(piece.before) if shown else spacing(piece.before).lstrip()
        shown = True
        if before:
            yield before
        yield from _sentence(translator, piece.sentence, settings, sampling)


def _sentence(translator, text, settings, sampling):
    if copy := copied_text(translator, text):
        yield copy
        return
    (ids,), _ = translator.encode([text], settings["max_source_length"])
    if len(ids) == 1:
        return
    padded = source_bucket(len(ids), settings["max_source_length"])
    source_ids = np.full((1, padded), PAD_ID, dtype="int32")
    source_ids[0, : len(ids)] = ids
    limits = answer_limit(len(ids), settings), answer_limit(padded, settings)
    written, shown = [], ""
    for token in translator.compiled.stream(source_ids, *limits, sampling):
        written.append(token)
        text_so_far = translator.target_tokenizer.decode([written])[0]
        if text_so_far.startswith(shown) and text_so_far != shown:
            yield text_so_far[len(shown) :]
            shown = text_so_far
