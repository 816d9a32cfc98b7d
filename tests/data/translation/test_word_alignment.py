"""IBM model 1 by agreement: its equations in loops, and a dictionary that it must find."""

import numpy as np
import pytest

from keras_attention.data.batches import BucketedBatches
from keras_attention.data.translation import word_alignment
from keras_attention.data.translation.parallel_corpus import ParallelCorpus, TokenSequences
from keras_attention.data.translation.word_alignment import NO_PARTNER, TENSION, AlignmentModel, with_links
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID

PAIRS = [([5, 7], [4, 9, 4]), ([5], [9]), ([7, 6, 5, 7], [11, 4]), ([6, 8, 6], [11, 11, 13, 4, 9])]


def corpus_of(pairs):
    def sequences(side):
        rows = [[*row, END_ID] for row in side]
        return TokenSequences(np.concatenate(rows).astype("int32"), np.cumsum([0, *map(len, rows)]))

    return ParallelCorpus(*(sequences(side) for side in zip(*pairs, strict=True)))


def share_of(side, token):
    """The relative frequency of a token; END counts, too."""
    return sum(row.count(token) for row in side) / sum(len(row) + 1 for row in side)


def posterior_in_loops(table, rows, columns, frequency):
    """p(column i | row j) (J, I) of one pair; `table[column, row]` is p(row | column)."""
    result = np.zeros((len(rows), len(columns)))
    for j, row in enumerate(rows):
        near = [np.exp(-TENSION * abs((i + 0.5) / len(columns) - (j + 0.5) / len(rows))) for i in range(len(columns))]
        for i, column in enumerate(columns):
            result[j, i] = (1 - NO_PARTNER) * near[i] / sum(near) * table[column, row]
        result[j] /= result[j].sum() + NO_PARTNER * frequency(row)
    return result


def iterations_in_loops(pairs, iterations):
    """p(t | s) and p(s | t), dicts with the keys (s, t), and the products of the posteriors."""
    sources, targets = zip(*pairs, strict=True)
    keys = {(s, t) for source, target in pairs for s in source for t in target}
    ids = [len({END_ID, *(token for row in side for token in row)}) for side in (sources, targets)]
    forward, backward = dict.fromkeys(keys, 1 / ids[1]), dict.fromkeys(keys, 1 / ids[0])
    for number in range(iterations + 1):
        products = []
        for source, target in pairs:
            written = posterior_in_loops(forward, target, source, lambda t: share_of(targets, t))
            turned = {(t, s): probability for (s, t), probability in backward.items()}
            read = posterior_in_loops(turned, source, target, lambda s: share_of(sources, s))
            products.append(written * read.T)
        if number == iterations:
            return forward, backward, products
        counts = dict.fromkeys(keys, 0.0)
        for (source, target), product in zip(pairs, products, strict=True):
            for j, t in enumerate(target):
                for i, s in enumerate(source):
                    counts[s, t] += product[j, i]
        forward = {(s, t): counts[s, t] / sum(counts[key] for key in keys if key[0] == s) for s, t in keys}
        backward = {(s, t): counts[s, t] / sum(counts[key] for key in keys if key[1] == t) for s, t in keys}


@pytest.mark.parametrize("most_cells", [1, 17, 1 << 20])
@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_equals_its_equations(monkeypatch, iterations, most_cells):
    """Also in blocks of one pair, and of pairs of other lengths, which are padded."""
    monkeypatch.setattr(word_alignment, "MOST_CELLS", most_cells)
    model = AlignmentModel(corpus_of(PAIRS))
    for _ in range(iterations):
        model.update()
    forward, backward, products = iterations_in_loops(PAIRS, iterations)
    pairs = [(int(key) // model.size, int(key) % model.size) for key in model.keys]
    assert sorted(pairs) == pairs == sorted(forward)
    np.testing.assert_allclose(model.forward[:-1], [forward[pair] for pair in pairs], rtol=1e-5)
    np.testing.assert_allclose(model.backward[:-1], [backward[pair] for pair in pairs], rtol=1e-5)
    seen = []
    for block in model.blocks:
        posteriors = model.posteriors(block)
        for number, of_pair in zip(block.numbers, posteriors, strict=True):
            source, target = PAIRS[number]
            np.testing.assert_allclose(of_pair[: len(target), : len(source)], products[number], rtol=1e-5)
            assert of_pair.sum() == pytest.approx(of_pair[: len(target), : len(source)].sum(), rel=1e-6)
            seen.append(number)
    assert sorted(seen) == list(range(len(PAIRS)))
    assert len(model.blocks) == {1: 4, 1 << 20: 1}.get(most_cells, len(model.blocks))


def generated(count=701, words=31, seed=5):
    """Pairs whose target has the translations in another order, without the articles of the source (token 4)."""
    rng = np.random.default_rng(seed)
    pairs, links = [], []
    for _ in range(count):
        source = rng.integers(5, 5 + words, rng.integers(2, 11)).tolist()
        order = np.argsort(np.arange(len(source)) + rng.uniform(-1.3, 1.3, len(source)))
        target = [100 + source[i] * 7 % words for i in order]
        article = int(rng.integers(0, len(source) + 1))
        source.insert(article, 4)
        pairs.append((source, target))
        links.append({(j, int(i) + (i >= article)) for j, i in enumerate(order)})
    return pairs, links


def test_finds_the_dictionary_of_a_generated_corpus():
    pairs, links = generated()
    corpus = with_links(corpus_of(pairs))
    assert corpus.links is not None
    found = [set(map(tuple, corpus.links[n].tolist())) for n in range(len(pairs))]
    right = sum(len(a & b) for a, b in zip(found, links, strict=True))
    assert right / sum(map(len, found)) > 0.97
    assert right / sum(map(len, links)) > 0.93
    model = AlignmentModel(corpus)
    for _ in range(7):
        model.update()
    best = {}
    for key, probability in zip(model.keys, model.forward, strict=False):
        source, target = int(key) // model.size, int(key) % model.size
        best[source] = max(best.get(source, (0, 0)), (float(probability), target))
    assert {source: target for source, (_, target) in best.items() if source > 4} == {
        source: 100 + source * 7 % 31 for source in range(5, 36)
    }


def test_batches_have_the_shares_of_the_token_that_the_decoder_reads():
    """Row t belongs to token t of `target_ids`: START and tokens without links have none."""
    links = [[(0, 1), (2, 0), (2, 1)], [], [(1, 3)], [(4, 0), (0, 2)]]
    values = np.array([link for one in links for link in one], "int32")
    corpus = corpus_of(PAIRS)
    corpus = ParallelCorpus(corpus.source, corpus.target, links=TokenSequences(values, np.cumsum([0, 3, 0, 1, 2])))
    (batch,) = BucketedBatches(corpus, 64, num_buckets=1, seed=3).epoch(0)
    assert batch["alignment"].shape == (*batch["target_ids"].shape, batch["source_ids"].shape[1])
    assert batch["alignment"].dtype == np.float32
    rows = [row[row > END_ID].tolist() for row in batch["source_ids"]]
    for number, (source, target) in enumerate(PAIRS):
        row = rows.index(source)
        expected = np.zeros(batch["alignment"].shape[1:])
        for t, s in links[number]:
            assert batch["target_ids"][row, t + 1] == target[t]
            expected[t + 1, s] = 1 / sum(other == t for other, _ in links[number])
        np.testing.assert_array_equal(batch["alignment"][row], expected.astype("float32"))
    filler = (batch["source_ids"] == PAD_ID).all(axis=1)
    assert filler.any()
    assert not batch["alignment"][filler].any()


def test_without_links_batches_are_as_before():
    (batch,) = BucketedBatches(corpus_of(PAIRS), 64, num_buckets=1).epoch(0)
    assert set(batch) == {"source_ids", "target_ids", "labels"}
