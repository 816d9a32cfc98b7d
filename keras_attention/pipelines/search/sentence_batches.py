"""Which sentences of a translator are computed together, and which need no search: copies and empty ones."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from keras_attention.inputs.given_texts import Progress
from keras_attention.pipelines.doubt import copied_text
from keras_attention.pipelines.translations import Translation
from keras_attention.runtime.buckets import answer_limit, batches
from keras_attention.tokenizers.special_tokens import PAD_ID


class Batch(NamedTuple):
    """Sentences that are translated together.

    Attributes:
        positions: list of int, their positions among all texts.
        sequences: list of int32 arrays, their token ids including END.
        texts: list of str.
        size: int, the static batch size, at least the number of sentences.
        padded: int, the padded length in tokens.
    """

    positions: list
    sequences: list
    texts: list
    size: int
    padded: int

    def alone(self, i):
        """The batch of only sentence `i` of this one."""
        return Batch([self.positions[i]], [self.sequences[i]], [self.texts[i]], 1, self.padded)

    def arrays(self, settings):
        """The token ids, an int32 array (size, padded), and the maximum length of each answer, int32 (size,)."""
        source_ids = np.full((self.size, self.padded), PAD_ID, dtype="int32")
        limits = np.zeros(self.size, dtype="int32")
        for i, ids in enumerate(self.sequences):
            source_ids[i, : len(ids)] = ids
            limits[i] = answer_limit(len(ids), settings)
        return source_ids, limits


class SearchPlan(NamedTuple):
    """What is known of the answers to sentences before the search.

    Attributes:
        answers: list of lists of Translation: copies and empty ones, also where the search will replace them.
        truncated: list of bool. Whether each sentence is cut to the longest that the model reads.
        batches: list of Batch, the sentences to search for.
    """

    answers: list
    truncated: list
    batches: list

    @property
    def finished(self):
        """The number of sentences that need no search."""
        return len(self.answers) - sum(len(batch.positions) for batch in self.batches)


def search_plan(translator: Any, sentences: list[str], attention: bool, settings: dict[str, Any]) -> SearchPlan:
    """The SearchPlan of sentences.

    Args:
        translator: Translator.
        sentences: list of str.
        attention: bool. Whether the answers have attention weights.
        settings: dict, see `Translator.settings`.
    """
    copies = [copied_text(translator, sentence) for sentence in sentences]
    texts = ["" if copy else sentence for sentence, copy in zip(sentences, copies, strict=True)]
    ids, truncated = translator.encode(texts, settings["max_source_length"])
    searched = [position for position, one in enumerate(ids) if len(one) > 1]  # more than END
    nothing = (np.zeros((0, 0), "float32"), np.zeros((0, 0, 0, 0), "float32")) if attention else (None, None)
    empty = Translation("", 0.0, [], [], *nothing, 0.0, False, False)
    groups = [
        ([searched[i] for i in group], *shape)
        for group, *shape in batches([len(ids[position]) for position in searched], settings["max_source_length"])
    ]
    of_groups = [
        Batch(positions, [ids[i] for i in positions], [sentences[i] for i in positions], *shape)
        for positions, *shape in groups
    ]
    return SearchPlan([[empty._replace(text=copy)] for copy in copies], truncated, of_groups)


def report_by_text(progress: Progress, counts: Sequence[int]) -> Callable[[int], None]:
    """A callable that takes the number of finished sentences, and reports how many texts are finished: never fewer.

    Args:
        progress: callable (texts done, number of texts) or None.
        counts: list of int, the number of sentences of each text.
    """
    ends, most = np.cumsum(counts), 0

    def report(done):
        nonlocal most
        most = max(most, done)
        if progress:
            progress(int(np.searchsorted(ends, most, side="right")), len(counts))

    return report
