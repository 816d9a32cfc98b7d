"""Similar proteins are in one cluster, and a cluster is in one part."""

import numpy as np
import pytest

from keras_attention.data.proteins import similarity_split
from keras_attention.data.proteins.protein_files import rule_proteins
from keras_attention.data.proteins.similarity_split import similarity_clusters, split_by_similarity
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.amino_acid_tokenizer import AMINO_ACIDS


def random_proteins(number, length=97, seed=3):
    letters = np.random.default_rng(seed).choice(list(AMINO_ACIDS), (number, length))
    return ["".join(row) for row in letters]


def mutated(protein, places):
    """The protein with another amino acid at some places."""
    letters = list(protein)
    for place in places:
        letters[place] = AMINO_ACIDS[(AMINO_ACIDS.index(letters[place]) + 1) % 20]
    return "".join(letters)


def words(protein):
    return {protein[i : i + 6] for i in range(len(protein) - 5) if "X" not in protein[i : i + 6]}


def test_unrelated_proteins_are_apart_and_copies_together():
    proteins = random_proteins(13)
    assert len(set(similarity_clusters(proteins))) == 13
    related = [
        proteins[2],  # a copy
        mutated(proteins[3], range(0, 97, 11)),  # 91 % identical
        proteins[4][31:67],  # a fragment
        "M" + proteins[5] + "XXAKRL",  # a longer one
        proteins[6][:40] + proteins[7][:40],  # of two domains, which brings three together
    ]
    clusters = similarity_clusters(proteins + related)
    assert clusters[13:17].tolist() == clusters[[2, 3, 4, 5]].tolist()
    assert clusters[17] == clusters[6] == clusters[7]
    assert len(set(clusters)) == 12


def test_short_and_unknown_proteins():
    clusters = similarity_clusters(["MKV", "MKV", "MKVL", "X" * 31, "X" * 31, "X" * 37, "MKVLAAG", "AMKVLAAG"])
    assert clusters[0] == clusters[1] != clusters[2]
    assert clusters[3] == clusters[4] != clusters[5]
    assert clusters[6] == clusters[7]


@pytest.mark.parametrize("rows", [5, 1000])
def test_links_equal_the_definition(monkeypatch, rows):
    monkeypatch.setattr(similarity_split, "ROWS", rows)
    proteins = [protein.residues for protein in rule_proteins(61, seed=7)] + ["MKVLAAG", "MKVLAA", "MKV"]
    of_proteins = [words(protein) for protein in proteins]
    expected = list(range(len(proteins)))
    for i, first in enumerate(of_proteins):
        for j, second in enumerate(of_proteins[:i]):
            shared, fewer = len(first & second), min(len(first), len(second))
            similar = shared >= min(3, fewer) and shared >= 0.05 * fewer and shared > 0
            if similar or proteins[i] == proteins[j]:
                old, new = expected[i], expected[j]
                expected = [new if cluster == old else cluster for cluster in expected]
    clusters = similarity_clusters(proteins)
    assert 2 < len(set(expected)) < len(proteins)
    assert len(set(clusters)) == len(set(zip(clusters.tolist(), expected, strict=True))) == len(set(expected))


def test_near_duplicates_never_straddle():
    proteins = random_proteins(89, length=61)
    copies = [mutated(protein, np.random.default_rng(i).integers(0, 61, 4)) for i, protein in enumerate(proteins)]
    mixed = [proteins[i // 3] if i % 3 else copies[i // 3] for i in np.random.default_rng(1).permutation(3 * 89)]
    parts = split_by_similarity(mixed, [0.2, 0.1])
    assert sorted(sum(parts, [])) == sorted(mixed)
    shares = [sum(map(len, part)) / sum(map(len, mixed)) for part in parts]
    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.03)
    of_parts = [set().union(*map(words, part)) for part in parts]
    for i, part in enumerate(parts):
        others = set().union(*(of_parts[:i] + of_parts[i + 1 :]))
        assert all(len(words(protein) & others) < 3 for protein in part)
    assert split_by_similarity(mixed, [0.2, 0.1]) == parts


def test_a_large_family_stays_in_training():
    (first, *others) = random_proteins(41, length=61)
    family = [mutated(first, [i]) for i in range(31)]
    parts = split_by_similarity(family + others, [0.2, 0.2])
    assert all(protein in parts[0] for protein in family)


def test_too_few_clusters_are_refused():
    with pytest.raises(UserError, match="5 proteins in 1 cluster of similar ones: too few for 3 parts"):
        split_by_similarity(random_proteins(1) * 5, [0.1, 0.1])
