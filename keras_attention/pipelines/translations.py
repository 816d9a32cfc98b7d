"""An answer of a translator: a str with attributes, made from a hypothesis of a search or from several sentences."""

import math
from typing import Any

import numpy as np

from keras_attention.decoding import Hypotheses
from keras_attention.pipelines.copied_unknowns import copy_unknowns
from keras_attention.pipelines.doubt import reason_to_doubt
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, UNKNOWN_ID

MOST_WEIGHTS = 1 << 28  # of the sentences of a text as one array, float32: 1 GB
SHOWN = ("text", "score", "log_prob", "low_score", "reason", "tokens")  # fields of a Translation in JSON


class Translation(str):
    """One answer: a str, the translation, that also says how it was found.

    It can be pickled; in JSON it is the text alone.

    Attributes:
        text: str, the translation without the other attributes.
        score: float by which the search ranks hypotheses; 0.0 for an empty sentence.
        tokens: list of T str, the tokens of the answer; the last is "</s>" unless the maximum length was reached.
        source_tokens: list of S str, the tokens of the source, including "</s>".
        attention: float32 array (T, S), the attention weights, mean over layers and heads; None if not requested.
        heads: float32 array (L, H, T, S), the attention weights of L layers and H heads; None if not requested.
        alignment: float32 array (T, S), how much each token of the answer is aligned with each of the source: the mean
            of `Translator.alignment_heads` at the step that reads the token (Chen et al. 2020,
            https://arxiv.org/abs/2004.14837), or else `attention`; None if not requested.
        log_prob: float, summed natural log probability of the tokens.
        low_score: bool. Whether the answer may be wrong for any of the reasons below.
        truncated: bool. Whether the sentence exceeded the model's limit and was cut.
        token_ids: tuple of T int, the ids of `tokens`.
        reason: str or None, why `low_score` is set, see `doubt.reason_to_doubt`; for several sentences, that of the
            first doubtful one.
        sentences: tuple of Translation, those of the sentences of a text; () for a text of one sentence. If there are
            several, `score` is the mean of their scores, weighted by their numbers of tokens, `log_prob` is a sum, the
            tokens are those of all sentences, and the attention weights have a block for each, and are 0 elsewhere.
    """

    score: float
    tokens: list[str]
    source_tokens: list[str]
    attention: np.ndarray | None
    heads: np.ndarray | None
    alignment: np.ndarray | None
    log_prob: float
    low_score: bool
    truncated: bool
    token_ids: tuple[int, ...]
    reason: str | None
    sentences: "tuple[Translation, ...]"

    def __new__(
        cls,
        text="",
        score=0.0,
        tokens=(),
        source_tokens=(),
        attention=None,
        heads=None,
        log_prob=0.0,
        low_score=False,
        truncated=False,
        token_ids=(),
        reason=None,
        sentences=(),
        alignment=None,
    ):
        answer = super().__new__(cls, text)
        answer.score, answer.log_prob, answer.low_score, answer.truncated = score, log_prob, low_score, truncated
        answer.tokens, answer.source_tokens, answer.token_ids = list(tokens), list(source_tokens), token_ids
        answer.attention, answer.heads, answer.reason = attention, heads, reason
        answer.sentences = sentences
        answer.alignment = attention if alignment is None else alignment
        return answer

    @property
    def text(self) -> str:
        return str(self)

    def _replace(self, **changed) -> "Translation":
        return type(self)(**{"text": self.text, **vars(self), **changed})

    def _asdict(self) -> dict[str, Any]:
        return {"text": self.text, **vars(self)}


def translation_of(
    translator: Any,
    hypotheses: Hypotheses,
    i: int,
    j: int,
    source_ids: np.ndarray,
    source_text: str,
    weights: np.ndarray | None,
    keep_weights: bool,
) -> Translation:
    """Converts hypothesis j of sentence i into a Translation; `weights` are `attention_of` all hypotheses, or None."""
    ids = hypotheses.token_ids[i, j, : hypotheses.lengths[i, j]]  # (T,)
    steps = None if weights is None else weights[i, j, :, :, :, : len(source_ids)]
    heads = None if steps is None else steps[:, :, : len(ids)]
    weights = None if heads is None else heads.mean(axis=(0, 1))  # (T, S)
    written = ids[ids != END_ID]
    tokens = translator.target_tokenizer.tokens(ids)
    source_tokens = translator.source_tokenizer.tokens(source_ids)
    if weights is not None and UNKNOWN_ID in written:
        end = len(written)
        text = copy_unknowns(
            tokens[:end], written, weights[:end, :-1], source_tokens[:-1], source_ids[:-1], source_text
        )
    else:
        text = translator.target_tokenizer.decode([written])[0]
    log_prob = float(hypotheses.log_probs[i, j])
    reason = reason_to_doubt(translator, source_text, source_ids, text, ids, log_prob)
    attention = (weights, heads) if keep_weights else (None, None)
    alignment = _alignment(translator, steps, ids) if keep_weights else None
    score, ids = float(hypotheses.scores[i, j]), tuple(ids.tolist())
    values = (text, score, tokens, source_tokens, *attention, log_prob, reason is not None, False, ids, reason)
    return Translation(*values, alignment=alignment)


def attention_of(translator, source_ids, token_ids):
    """The attention weights (B, N, layers, heads, steps, S) of hypotheses (B, N, T) of a search.

    If one was cut without END, there is a step more than T, which reads its last token, for `Translation.alignment`.
    """
    model = translator.network
    is_cut = translator.alignment_heads and not np.isin(token_ids[..., -1:], (END_ID, PAD_ID)).all()
    if is_cut and (getattr(model, "positions", None) != "learned" or token_ids.shape[-1] < model.max_length):
        token_ids = np.pad(token_ids, ((0, 0), (0, 0), (0, 1)), constant_values=PAD_ID)
    return translator.compiled.attention(source_ids, token_ids)


def _alignment(translator, steps, ids):
    """`Translation.alignment` by the weights (L, H, steps, S) of T ids; None if the translator has chosen no heads."""
    if not translator.alignment_heads:
        return None
    last = min(len(ids) - int(ids[-1] == END_ID), steps.shape[2] - 1)  # nothing reads END
    rows = np.minimum(np.arange(1, len(ids) + 1), last)  # the step after the one that writes the token
    return np.mean([steps[layer, head, rows] for layer, head in translator.alignment_heads], axis=0)


def translations_as_json(hypotheses):
    """Converts the Translations of one text into a dict of JSON types."""
    return {
        "translations": [{name: getattr(one, name) for name in SHOWN} for one in hypotheses],
        "source_tokens": hypotheses[0].source_tokens,
        "truncated": hypotheses[0].truncated,
    }


def joined_hypotheses(parts, hypotheses, n_best):
    """The best translations of a text from those of its sentences.

    Args:
        parts: SplitText with the sentences.
        hypotheses: list of lists of Translation, those of each sentence, best first.
        n_best: int > 0.

    Returns:
        List of at most `n_best` Translations by the sum of their sentences' scores, so that the first one has the best
        translation of each sentence.
    """
    if len(hypotheses) == 1:
        return [one._replace(text=parts.joined([one]).strip()) for one in hypotheses[0]]
    best = [(0.0, None)]  # the best combinations so far: sum of the scores, and (combination before, last sentence)
    for of_sentence in hypotheses:
        combinations = [(before[0] + one.score, (before, one)) for before in best for one in of_sentence]
        best = sorted(combinations, key=lambda combination: combination[0], reverse=True)[:n_best]
    return [_joined(parts, _sentences(combination)) for combination in best]


def _sentences(combination):
    """The Translations of a combination, in order."""
    sentences = []
    while combination[1] is not None:
        combination, last = combination[1]
        sentences.append(last)
    return sentences[::-1]


def _mean_score(sentences):
    tokens = sum(len(one.tokens) for one in sentences)
    return sum(one.score * len(one.tokens) for one in sentences) / max(1, tokens)


def _joined(parts, sentences):
    has_attention = all(one.attention is not None for one in sentences)
    has_alignment = has_attention and any(one.alignment is not one.attention for one in sentences)
    return Translation(
        parts.joined(sentences).strip(),
        _mean_score(sentences),
        [token for one in sentences for token in one.tokens],
        [token for one in sentences for token in one.source_tokens],
        _blocks([one.attention for one in sentences if one.tokens]) if has_attention else None,
        _blocks([one.heads for one in sentences if one.tokens]) if has_attention else None,
        sum(one.log_prob for one in sentences),
        any(one.low_score for one in sentences),
        any(one.truncated for one in sentences),
        tuple(number for one in sentences for number in one.token_ids),
        next((one.reason for one in sentences if one.low_score), None),
        tuple(sentences),
        _blocks([one.alignment for one in sentences if one.tokens]) if has_alignment else None,
    )


def _blocks(weights):
    """Arrays (..., T, S) as the blocks on the diagonal of one array."""
    if not weights:
        return np.zeros((0, 0), "float32")
    shape = [sum(one.shape[axis] for one in weights) for axis in (-2, -1)]
    count = math.prod((*weights[0].shape[:-2], *shape))
    if count > MOST_WEIGHTS:
        raise UserError(
            f"The attention of {len(weights):,} sentences as one array has {count:,} weights. At most: "
            f"{MOST_WEIGHTS:,}. Translate fewer sentences at a time."
        )
    joined, row, column = np.zeros((*weights[0].shape[:-2], *shape), "float32"), 0, 0
    for one in weights:
        joined[..., row : row + one.shape[-2], column : column + one.shape[-1]] = one
        row, column = row + one.shape[-2], column + one.shape[-1]
    return joined
