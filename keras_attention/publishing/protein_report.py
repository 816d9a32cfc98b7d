"""What a masked language model has learned of proteins: perplexities, and which amino acids it finds alike."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_attention.data.prose.documents import PackedSequences
from keras_attention.data.prose.masked_lm import MaskedLMBatches, Prose
from keras_attention.evaluation.amino_acid_similarity import (
    blosum62,
    embedding_cosines,
    place_similarities,
    rank_correlation,
    residue_answers,
    substitution_similarities,
)
from keras_attention.evaluation.kneser_ney import KneserNey
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS
from keras_attention.visualize.amino_acid_maps import amino_acid_plot

HIDDEN = 0.15  # share of the residues
PASSES = 4  # over the held-out proteins, with other masks, so that there are enough places of rare residues
ORDER = 3  # residues of the n-grams of the baseline
BY_PLACES = "rank correlation with BLOSUM62, by places"
BY_SUBSTITUTIONS = "rank correlation with BLOSUM62, by substitutions"
BY_EMBEDDINGS = "rank correlation with BLOSUM62, by token embeddings"
GAPS = 3  # proteins with masked residues on the card
GAP_LENGTH = 60  # residues
PICTURE = "amino_acids.png"


class ProteinReport(NamedTuple):
    """The part of a card that only models of proteins have.

    Attributes:
        scores: list of dict, in the form of metrics.json.
        gaps: list of str, held-out proteins with masks, as examples.
        similarities: float64 array (20, 20), see `place_similarities`, in the order of `AMINO_ACIDS`; NaN if unknown,
            as of proteins with one hidden residue each, which have no picture.
    """

    scores: list[dict[str, Any]]
    gaps: list[str]
    similarities: np.ndarray

    def __str__(self):
        return "\n".join(f"{score['set']}: {score['metric']} {score['value']:.3f}" for score in self.scores)

    @property
    def has_picture(self) -> bool:
        """Whether there are two amino acids to compare."""
        return int(np.isfinite(np.diagonal(self.similarities)).sum()) > 1

    @property
    def pictures(self) -> list[dict[str, str]]:
        """The pictures for the card."""
        return [
            {"file": PICTURE, "caption": "The amino acids that the model finds alike, and BLOSUM62"}
        ] * self.has_picture

    @property
    def extra_files(self) -> list[Callable[[Path], None]]:
        """Writers of the pictures: callables of the entry's folder."""
        return [
            lambda folder: amino_acid_plot(
                self.similarities, blosum62(AMINO_ACIDS), AMINO_ACIDS, folder / PICTURE, "BLOSUM62"
            )
        ] * self.has_picture


def protein_report(model: Any, prose: Prose, jit_compile: bool = True) -> ProteinReport:
    """Measures a masked language model on validation and test proteins.

    15 % of the residues are hidden. Unlike in training, none of them is replaced by another or left as it is, because a
    model that sees the answer at some places would be flattered. The trigram predicts the same residues of the same
    proteins from the two residues before each, which it sees; the model sees what is not hidden on both sides.

    Args:
        model: BertMaskedLM, built.
        prose: Prose of proteins, with test sequences.
        jit_compile: bool, compile with XLA.
    """
    tokenizer = prose.tokenizer
    text = prose.sequences.token_ids[prose.sequences.block_ids > 0]
    trigram = KneserNey(text, tokenizer.vocabulary_size, ORDER)
    table = model.encoder.token_embedding.get_weights()[0][tokenizer.amino_acid_ids]
    expected = blosum62(AMINO_ACIDS)
    scores, similarities = [], np.zeros((0, 0))
    for name, sequences in (("test", prose.test_sequences), ("validation", prose.validation_sequences)):
        batches, rows = _hidden(sequences, tokenizer)
        answers = residue_answers(model, batches, tokenizer.amino_acid_ids, jit_compile)
        similarities = place_similarities(answers)
        measured = {
            "perplexity": math.exp(answers.loss),
            "perplexity of a trigram": math.exp(_ngram_loss(trigram, sequences, batches, rows)),
            BY_PLACES: rank_correlation(similarities, expected),
            BY_SUBSTITUTIONS: rank_correlation(substitution_similarities(answers), expected),
        }
        on = {"set": f"{name}, no similar protein in training", "signature": f"{HIDDEN:.0%} hidden, seed 0"}
        scores += [{**on, "metric": metric, "value": value} for metric, value in measured.items()]
    cosine = rank_correlation(embedding_cosines(table), expected)
    scores.append({"set": "190 pairs of amino acids", "metric": BY_EMBEDDINGS, "value": cosine, "signature": ""})
    return ProteinReport(scores, _gaps(prose.validation_sequences, tokenizer), similarities)


def _hidden(sequences, tokenizer):
    """The batches of `PASSES` epochs, and the numbers of the sequences in each: lists."""
    drawn = MaskedLMBatches(sequences, tokenizer, min(64, len(sequences)), HIDDEN, always=True)
    epochs = [drawn.epoch(number) for number in range(PASSES)]
    return [epoch[i] for epoch in epochs for i in range(len(epoch))], [row for epoch in epochs for row in epoch.numbers]


def _ngram_loss(model: KneserNey, sequences: PackedSequences, batches: list, rows: list) -> float:
    """The mean cross-entropy in nats of an n-gram model for the masked tokens of batches."""
    is_text = sequences.block_ids > 0
    log_probabilities = np.zeros(is_text.shape)
    log_probabilities[is_text] = model.log_probabilities(sequences.token_ids[is_text])
    chosen = [
        log_probabilities[numbers[:, None], batch["masked_positions"]][batch["labels"] > 0]
        for numbers, batch in zip(rows, batches, strict=True)
    ]
    return -float(np.concatenate(chosen).mean())


def _gaps(sequences, tokenizer):
    """The beginnings of some proteins, with two residues masked."""
    gaps = []
    for row in range(0, len(sequences), -(-len(sequences) // GAPS)):  # neighbours may be pieces of one protein
        residues = sequences.token_ids[row][sequences.block_ids[row] == 1][1:-1][:GAP_LENGTH]
        residues[[len(residues) // 3, 2 * len(residues) // 3]] = tokenizer.mask_id
        gaps += tokenizer.decode([residues])
    return gaps
