"""Residues of proteins <-> ids."""

import json

import numpy as np
import pytest

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import AminoAcidTokenizer, load_tokenizer
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS, residues_of

TOKENIZER = AminoAcidTokenizer()


def test_every_amino_acid_has_an_id_of_its_own():
    (ids,) = TOKENIZER.encode([AMINO_ACIDS])
    assert ids.dtype == np.int32
    assert ids.tolist() == TOKENIZER.amino_acid_ids.tolist() == list(range(5, 25))
    assert TOKENIZER.tokens(ids) == list(AMINO_ACIDS)
    assert TOKENIZER.decode([[2, *ids, 3, 0]]) == [AMINO_ACIDS]
    assert TOKENIZER.vocabulary_size == len(TOKENIZER.is_continuation) == 25


@pytest.mark.parametrize(
    ("text", "residues"),
    [
        ("", ""),
        ("mkvLAA", "MKVLAA"),
        (" MKV\tLA\nA\r\n", "MKVLAA"),
        ("M--KV..LAA*", "MKVLAA"),
        ("MK*VL*", "MKXVL"),
        ("BJOUXZ", "BJOUXZ"),
    ],
)
def test_layout_gaps_and_stops_are_no_residues(text, residues):
    assert residues_of(text) == residues
    shown = "".join(letter if letter in AMINO_ACIDS else "X" for letter in residues)
    assert TOKENIZER.decode(TOKENIZER.encode([text])) == [shown]


@pytest.mark.parametrize(("text", "found"), [("MK1", "1"), ("How are you?", "[?]"), ("MKÄ", "Ä"), ("MK[MASK]", r"\[")])
def test_other_characters_are_refused(text, found):
    with pytest.raises(UserError, match=rf"letters of amino acids, such as MKVLAA. Found '{found}' after \d residues"):
        TOKENIZER.encode([text])


def test_masks_are_read_where_they_are_asked_for():
    (ids,) = TOKENIZER.encode(["[MASK]mk[MASK][MASK]V"], masks=True)
    assert TOKENIZER.tokens(ids) == ["[MASK]", "M", "K", "[MASK]", "[MASK]", "V"]
    assert TOKENIZER.decode([ids]) == ["[MASK]MK[MASK][MASK]V"]


def test_a_graph_reads_the_same():
    tf = pytest.importorskip("tensorflow")
    texts = ["mkv LAA", "M-K.V*", "", "MK*VL", "BJOUXZ", AMINO_ACIDS.lower()]
    read = tf.function(TOKENIZER.tokenize_in_graph)(tf.constant(texts)).to_list()
    assert read == [ids.tolist() for ids in TOKENIZER.encode(texts)]
    (unknown,) = TOKENIZER.tokenize_in_graph(tf.constant(["M1Ä?K"])).to_list()
    assert unknown == [*TOKENIZER.encode(["M"])[0], 1, 1, 1, *TOKENIZER.encode(["K"])[0]]


def test_it_is_saved_and_loaded(tmp_path):
    TOKENIZER.save(tmp_path)
    assert isinstance(load_tokenizer(tmp_path), AminoAcidTokenizer)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"kind": "amino-acids", "letters": "AC"}))
    with pytest.raises(UserError, match="expected kind"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"kind": "notes"}))
    with pytest.raises(UserError, match="not a saved AminoAcidTokenizer"):
        AminoAcidTokenizer.load(tmp_path)
