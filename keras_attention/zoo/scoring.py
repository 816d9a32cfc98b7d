"""How well a translator translates: the scores that a card lists and `keras-attention evaluate` prints."""

import numpy as np

from keras_attention.training import translation_metrics as metrics


def scores_on(translator, sources, references, target_language, set_name, several_references=False):
    """Translates with the model's own settings and scores the result.

    Args:
        translator: Translator.
        sources, references: lists of str of equal length.
        target_language: str, a language code; "iso" for dates, which are compared whole.
        set_name: str, what the card calls these sentences.
        several_references: bool. Also BLEU B with all references of a source that stands there several times.

    Returns:
        List of {"set", "metric", "value", "signature"}, as in `metrics.json`.
    """
    outputs = translator.translate(sources)
    if target_language == "iso":
        found = {"exact match, %": metrics.exact_match(outputs, references)}
    else:
        found = {
            "BLEU A": metrics.bleu_tradition_a(outputs, references, target_language),
            "BLEU B": metrics.bleu_tradition_b(outputs, references),
            "chrF2": metrics.chrf(outputs, references),
        }
        if several_references:
            found["BLEU B, all references"] = metrics.bleu_tradition_b(*metrics.by_source(outputs, references, sources))
    where = f"{set_name}, {len(sources):,} pairs"
    return [
        {"set": where, "metric": name, "value": score.score, "signature": score.signature}
        for name, score in found.items()
    ]


def quick_score(translator, sources, references, target_language):
    """What a training watches: greedy exact match for dates ("iso"), greedy BLEU A otherwise; 0 to 100."""
    outputs = translator.translate(sources, beam_size=1)
    if target_language == "iso":
        return metrics.exact_match(outputs, references).score
    return metrics.bleu_tradition_a(outputs, references, target_language).score


def low_score_threshold(translator, sources, share=0.001):
    """The mean log probability of a token that all but a share of good inputs reach.

    Args:
        translator: Translator.
        sources: list of str, inputs of the kind the model was made for, not those it was trained on.
        share: float in (0, 1), the good inputs that may be called doubtful.

    Returns:
        float <= 0; answers below it are marked as `low_score`.
    """
    answers = [best for best, *_ in translator.hypotheses(sources)]
    return float(np.quantile([answer.log_prob / len(answer.tokens) for answer in answers], share))
