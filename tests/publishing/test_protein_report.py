"""The report on a model of proteins: both models are measured at the same places."""

from types import SimpleNamespace

import numpy as np
import pytest
from zoo.tiny_bert import tiny_protein_model

from keras_attention.data.prose.masked_lm import ProseSettings, load_prose
from keras_attention.publishing import protein_report as reports
from keras_attention.publishing.protein_report import protein_report
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS


@pytest.fixture(scope="module")
def prose():
    settings = ProseSettings(alphabet="protein", max_tokens=29, validation_split=0.02)
    return load_prose(SimpleNamespace(**vars(settings), smoke=True, seed=1))


class PlaceModel:
    """Has for each token its place in the text as log probability."""

    def log_probabilities(self, tokens):
        return np.arange(len(tokens), dtype="float64")


def test_n_grams_are_measured_where_residues_are_hidden(prose):
    sequences, tokenizer = prose.validation_sequences, prose.tokenizer
    batches, rows = reports._hidden(sequences, tokenizer)
    places = np.zeros(sequences.token_ids.shape, int)
    count = 0
    for row, blocks in enumerate(sequences.block_ids):
        for column, block in enumerate(blocks):
            if block:
                places[row, column] = count
                count += 1
    expected = []
    for batch, numbers in zip(batches, rows, strict=True):
        for number, hidden, positions, labels in zip(
            numbers, batch["token_ids"], batch["masked_positions"], batch["labels"], strict=True
        ):
            for position, label in zip(positions, labels, strict=True):
                if label:
                    assert hidden[position] == tokenizer.mask_id
                    assert sequences.token_ids[number, position] == label
                    expected.append(places[number, position])
    assert len(expected) > 100
    assert reports._ngram_loss(PlaceModel(), sequences, batches, rows) == pytest.approx(-np.mean(expected))


def test_the_report_has_scores_examples_and_a_picture(prose, tmp_path):
    report = protein_report(tiny_protein_model().model, prose, jit_compile=False)
    by_name = {(score["set"].split(",")[0], score["metric"]): score["value"] for score in report.scores}
    assert len(by_name) == 9
    for part in ("validation", "test"):
        assert 5 < by_name[part, "perplexity of a trigram"] < 25 < by_name[part, "perplexity"]
        assert -0.5 < by_name[part, reports.BY_PLACES] < 0.5
        assert -0.5 < by_name[part, reports.BY_SUBSTITUTIONS] < 0.5
    assert report.similarities.shape == (20, 20)
    assert len(report.gaps) == 3
    for gap in report.gaps:
        assert gap.count("[MASK]") == 2
        assert set(gap.replace("[MASK]", "")) <= set(AMINO_ACIDS)
    for write in report.extra_files:
        write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [picture["file"] for picture in report.pictures]
    assert f"perplexity {by_name['test', 'perplexity']:.3f}" in str(report)


def test_without_similarities_there_is_no_picture():
    """With one hidden residue a protein, the picture failed behind the training."""
    report = reports.ProteinReport([], [], np.full((20, 20), np.nan))
    assert (report.pictures, report.extra_files) == ([], [])


def test_parts_have_no_similar_proteins(prose):
    parts = [prose.sequences, prose.validation_sequences, prose.test_sequences]
    assert [len(part) > 10 for part in parts] == [True] * 3
    words = []
    for part in parts:
        texts = ["".join(prose.tokenizer.decode(part.token_ids))]
        words.append({text[i : i + 12] for text in texts for i in range(len(text) - 11)})
    assert not words[0] & words[1]
    assert not words[0] & words[2]
