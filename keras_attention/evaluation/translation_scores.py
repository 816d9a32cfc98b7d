"""BLEU in the literature's two variants, which are not comparable with each other; chrF; TER; exact match; a test."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from keras_attention.support.errors import UserError


class Score(NamedTuple):
    """A score in [0, 100] and the sacrebleu signature of its computation."""

    score: float
    signature: str


class LengthRange(NamedTuple):
    """BLEU over the sentences with at_least <= source words < less_than (None: no limit); None for no sentence."""

    at_least: int
    less_than: int | None
    sentences: int
    bleu: float | None


def bleu_tradition_a(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Score:
    """BLEU-4 of lower-cased text that sacremoses has tokenised on both sides.

    Args:
        hypotheses: list of str, detokenised.
        references: list of str, detokenised, one for each hypothesis.
        language: str, the language code for the tokeniser, such as "de".

    Returns:
        `Score`; the signature ends with the tokeniser.

    Raises:
        UserError: if the two lists are empty or of different lengths.
    """
    import sacremoses
    from sacrebleu.metrics import BLEU

    _check(hypotheses, references)
    tokenizer = sacremoses.MosesTokenizer(lang=language)

    def prepare(texts):
        return [tokenizer.tokenize(text.lower(), return_str=True, escape=False) for text in texts]

    bleu = BLEU(lowercase=True, tokenize="none", force=True)  # force: it is meant to be tokenised already
    score = bleu.corpus_score(prepare(hypotheses), [prepare(references)]).score
    return Score(score, f"{bleu.get_signature()}|moses:{language}-{sacremoses.__version__}")


def bleu_tradition_b(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> Score:
    """BLEU-4 of cased, detokenised text with sacrebleu's 13a tokeniser.

    Args:
        hypotheses: list of str.
        references: list of str, or of lists of one or more str where a sentence has several references.

    Returns:
        `Score`.

    Raises:
        UserError: if the two lists are empty or of different lengths.
    """
    from sacrebleu.metrics import BLEU

    return _corpus_score(BLEU(tokenize="13a"), hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> Score:
    """chrF2, the character n-gram F-score; arguments, result and errors as in `bleu_tradition_b`."""
    from sacrebleu.metrics import CHRF

    return _corpus_score(CHRF(), hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str] | Sequence[Sequence[str]]) -> Score:
    """Translation edit rate, lower is better and 0 is best; arguments, result and errors as in `bleu_tradition_b`."""
    from sacrebleu.metrics import TER

    return _corpus_score(TER(), hypotheses, references)


class Difference(NamedTuple):
    """The difference of a score between two translators, and the p-value of a paired bootstrap test."""

    metric: str
    first: float
    second: float
    p_value: float
    samples: int


MOST_LINES = 20_000  # with 1,000 samples; of more lines, fewer samples are drawn, which bounds the memory


def compare_translators(
    first: Sequence[str], second: Sequence[str], references: Sequence[str], samples: int = 1000
) -> list[Difference]:
    """Compares two translations of the same sentences: is the difference of their scores more than chance?

    Args:
        first, second: lists of str, the two translations.
        references: list of str, one for each sentence.
        samples: int > 0, resamples of the lines, for at most `MOST_LINES`.

    Returns:
        List of Difference: BLEU (tradition B), chrF2 and TER. The same lines give the same result.

    Raises:
        UserError: if the lists are empty or of different lengths.

    Source: Koehn (2004), https://aclanthology.org/W04-3250; computed by sacrebleu.
    """
    from sacrebleu.metrics import BLEU, CHRF, TER
    from sacrebleu.significance import PairedTest

    _check(first, references)
    _check(second, references)
    samples = min(samples, max(100, samples * MOST_LINES // len(references)))
    metrics = {"BLEU": BLEU(references=[references]), "chrF2": CHRF(references=[references])}
    metrics["TER"] = TER(references=[references])
    log = logging.getLogger("sacrebleu")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        systems: list[tuple[str, Sequence[str]]] = [("first", list(first)), ("second", list(second))]
        _, compared = PairedTest(systems, metrics, None, test_type="bs", n_samples=samples)()
    finally:
        log.setLevel(level)
    differences = []
    for name in metrics:
        before, after = (vars(result) for result in compared[name])
        p_value = after["p_value"] if list(first) != list(second) else 1.0  # sacrebleu gives a small one
        differences.append(Difference(name, float(before["score"]), float(after["score"]), float(p_value), samples))
    return differences


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Percentage of hypotheses equal to their reference, character by character, as a `Score`."""
    _check(hypotheses, references)
    equal = sum(hypothesis == reference for hypothesis, reference in zip(hypotheses, references, strict=True))
    return Score(100.0 * equal / len(references), "exact match")


def by_source(
    hypotheses: Sequence[str], references: Sequence[str], sources: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Merges sentences with the same source into one sentence with several references.

    Args:
        hypotheses, references, sources: lists of str of equal length; equal sources have equal hypotheses.

    Returns:
        The hypotheses, one for each different source, and their references, a list of lists of str.
    """
    first, grouped = {}, {}
    for hypothesis, reference, source in zip(hypotheses, references, sources, strict=True):
        first.setdefault(source, hypothesis)
        grouped.setdefault(source, []).append(reference)
    return list(first.values()), list(grouped.values())


def bleu_by_source_length(
    hypotheses: Sequence[str],
    references: Sequence,
    sources: Sequence[str],
    edges: Sequence[int],
    bleu: Callable = bleu_tradition_b,
) -> list[LengthRange]:
    """One BLEU for each range of source lengths, as in figure 2 of Bahdanau et al. (2015).

    Args:
        hypotheses: list of str.
        references: list of str, or any other references that `bleu` accepts.
        sources: list of str; their length is counted in words between white space.
        edges: increasing ints > 0 where a new range begins: (11, 21) gives 0-10, 11-20 and 21 or more words.
        bleu: callable(hypotheses, references) -> `Score`.

    Returns:
        List of `LengthRange`, shortest first.

    Raises:
        UserError: if the lists are empty or of different lengths.
        ValueError: if `edges` does not increase.
    """
    _check(hypotheses, references)
    _check(hypotheses, sources, "sources")
    edges = list(edges)
    if edges != sorted(set(edges)) or any(edge <= 0 for edge in edges):
        raise ValueError(f"`edges` must be increasing positive integers. Received: edges={edges}")
    lengths = [len(source.split()) for source in sources]
    table = []
    for at_least, less_than in zip([0, *edges], [*edges, None], strict=True):
        rows = [
            row for row, words in enumerate(lengths) if words >= at_least and (less_than is None or words < less_than)
        ]
        score = bleu([hypotheses[row] for row in rows], [references[row] for row in rows]).score if rows else None
        table.append(LengthRange(at_least, less_than, len(rows), score))
    return table


def _corpus_score(metric, hypotheses, references):
    _check(hypotheses, references)
    lists = [[entry] if isinstance(entry, str) else list(entry) for entry in references]
    # sacrebleu wants all first references, then all second ones; None where a sentence has fewer.
    streams = [[entry[n] if n < len(entry) else None for entry in lists] for n in range(max(map(len, lists)))]
    score = metric.corpus_score(hypotheses, streams).score
    return Score(score, str(metric.get_signature()))


def _check(hypotheses, references, name="references"):
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise UserError(f"Hypotheses and {name} must be lists of sentences. Received: one string")
    if not hypotheses or len(hypotheses) != len(references):
        raise UserError(
            f"There must be as many {name} as hypotheses, and at least one. "
            f"Received: {len(hypotheses)} hypotheses and {len(references)} {name}"
        )


def scores_on(translator, sources, references, target_language, set_name, several_references=False):
    """Translates each source in one piece, with the model's own settings, and scores the result.

    Args:
        translator: Translator.
        sources, references: lists of str of equal length.
        target_language: str, a language code; "iso" for dates, which are scored by exact match.
        set_name: str, name of the test set in the card.
        several_references: bool. Whether to add BLEU B with all references of each source.

    Returns:
        List of {"set", "metric", "value", "signature"}, as in `metrics.json`.
    """
    outputs = translator.translate(sources, split=False, keep_items=False)
    if target_language == "iso":
        by_metric = {"exact match (%)": exact_match(outputs, references)}
    else:
        by_metric = {
            "BLEU A": bleu_tradition_a(outputs, references, target_language),
            "BLEU B": bleu_tradition_b(outputs, references),
            "chrF2": chrf(outputs, references),
        }
        if several_references:
            by_metric["BLEU B, all references"] = bleu_tradition_b(*by_source(outputs, references, sources))
    where = f"{set_name}, {len(sources):,} pairs"
    return [
        {"set": where, "metric": name, "value": score.score, "signature": score.signature}
        for name, score in by_metric.items()
    ]


def quick_score(translator, sources, references, target_language):
    """The validation score in training, 0 to 100: exact match for dates ("iso"), else BLEU A; greedy search."""
    outputs = translator.translate(sources, beam_size=1, split=False, keep_items=False)
    if target_language == "iso":
        return exact_match(outputs, references).score
    return bleu_tradition_a(outputs, references, target_language).score


def low_score_threshold(translator, sources, share=0.001):
    """The threshold of mean log probability per token below which only a share of the good inputs fall.

    Args:
        translator: Translator.
        sources: list of str, inputs of the intended kind that were not used in training. Empty ones are ignored.
        share: float in (0, 1), share of the good inputs that may be marked.

    Returns:
        float <= 0, with four decimals; answers below it are marked as `low_score`. None if all inputs are empty.
    """
    answers = [best for best, *_ in translator.hypotheses(sources, split=False, keep_items=False)]
    means = [answer.log_prob / len(answer.tokens) for answer in answers if answer.tokens]
    return round(float(np.quantile(means, share)), 4) if means else None
