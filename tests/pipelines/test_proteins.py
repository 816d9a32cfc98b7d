"""Proteins in the pipelines of texts: filled masks and vectors, and what is no protein."""

import numpy as np
import pytest
from zoo.tiny_bert import tiny_protein_model

from keras_attention.pipelines.base import load_pipeline
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS


@pytest.fixture(scope="module")
def filler():
    return tiny_protein_model()


def test_masks_are_filled_with_amino_acids(filler):
    fillings = filler.fill_mask("mkv[MASK]LA-[mask]W", top_k=31)
    assert len(fillings) == 31
    for filling in fillings:
        first, second = filling.words
        assert {first, second} <= set(AMINO_ACIDS)
        assert filling.text == f"mkv{first}LA-{second}W"
    assert filler.fill_mask("mkv[MASK]LA-[mask]W", top_k=31, max_pieces=3) == fillings  # no residue has two pieces


def test_vectors_depend_on_residues_only(filler):
    vectors = filler.encode(["MKVLAA", "mkv laa*", "MKVLAAG", "MKV-LAA", ""])
    assert vectors.tokens[1] == ["[CLS]", *"MKVLAA", "[SEP]"]
    np.testing.assert_array_equal(vectors.pooled[[1, 3]], vectors.pooled[[0, 0]])
    assert np.abs(vectors.pooled[2] - vectors.pooled[0]).max() > 0.01
    assert not vectors.pooled[4].any()


@pytest.mark.parametrize("text", ["How are you?", "MK1", "蛋白质"])
def test_texts_are_refused_in_one_line(filler, text):
    for answer in (filler.encode, lambda text: filler.fill_mask(f"{text}[MASK]"), filler.attention_view):
        with pytest.raises(UserError, match="Expected a protein in letters of amino acids, such as MKVLAA") as error:
            answer(text)
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_an_entry_of_proteins_is_saved_with_proteins_as_examples(filler, tmp_path):
    longer = tiny_protein_model()
    longer.max_tokens = 64
    assert all(set(text.replace("[MASK]", "")) <= set(AMINO_ACIDS) for text in longer.samples)
    filler.save(tmp_path / "tiny", language="zxx")
    loaded = load_pipeline(tmp_path / "tiny")
    assert loaded.entry.architecture.task.title(loaded.entry.config) == "zxx, masked residues"
    assert loaded.entry.architecture.task.activity(loaded.entry.config).title == "Fill in missing amino acids"
    np.testing.assert_allclose(loaded.encode("MKVLAA").pooled, filler.encode("MKVLAA").pooled, atol=1e-6)
    assert loaded.fill_mask("MK[MASK]L")[0].text == filler.fill_mask("MK[MASK]L")[0].text
