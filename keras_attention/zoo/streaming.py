"""An answer as it is written, piece by piece."""

import numpy as np

from keras_attention.errors import UserError
from keras_attention.tokenizers.special_tokens import PAD_ID
from keras_attention.zoo.lengths import answer_limit, source_bucket
from keras_attention.zoo.texts import check_texts


def stream(translator, text, *, temperature=0.0, top_k=0, top_p=1.0, seed=0, max_length=None):
    """Translates one sentence piece by piece, without a beam.

    Args:
        translator: Translator.
        text: str. An empty sentence has an empty translation.
        temperature: float >= 0. 0 writes the most probable token at each step, more draws at random.
        top_k, top_p, seed: see `decoding.sample`.
        max_length: int or None, see `Translator.hypotheses`.

    Yields:
        str, the next characters as soon as they are known; together they are the translation.

    Raises:
        UserError: if the text is no str or a setting is out of range.
    """
    check_texts([text])
    if not (0 <= temperature < float("inf") and top_k >= 0 and 0 < top_p <= 1 and 0 <= seed < 2**31):
        raise UserError(
            "Sampling needs temperature >= 0, top-k >= 0, top-p in (0, 1] and seed >= 0. "
            f"Received: temperature={temperature}, top-k={top_k}, top-p={top_p}, seed={seed}"
        )
    settings = translator.settings(1, False, beam_size=1, max_length=max_length)
    (row,), _ = translator.encode([text], settings["max_source_length"])
    if len(row) == 1:
        return
    padded = source_bucket(len(row), settings["max_source_length"])
    source_ids = np.full((1, padded), PAD_ID, dtype="int32")
    source_ids[0, : len(row)] = row
    sampling = {"seed": seed, "temperature": temperature, "top_k": top_k, "top_p": top_p} if temperature else None
    limits = answer_limit(len(row), settings), answer_limit(padded, settings)
    written, shown = [], ""
    for token in translator.compiled.stream(source_ids, *limits, sampling):
        written.append(token)
        text_so_far = translator.target_tokenizer.decode([written])[0]
        if text_so_far.startswith(shown) and text_so_far != shown:
            yield text_so_far[len(shown) :]
            shown = text_so_far
