"""Word vectors: every format gives the same; neighbours and analogies equal a plain computation; damaged files."""

import gzip
import lzma

import numpy as np
import pytest

from keras_attention.data.word_vectors import WordVectors, read_word_vectors
from keras_attention.support.errors import UserError

WORDS = ["the", "king", "queen", "man", "woman", "Zürich", "co-op", "王", ". . .", "New"]
D = 7


def made(seed=3):
    """Vectors in which king - man + woman is near queen."""
    vectors = np.random.default_rng(seed).normal(size=(len(WORDS), D)).astype("float32")
    vectors[2] = vectors[1] - vectors[3] + vectors[4] + 0.05
    return vectors


def as_text(vectors, header=False):
    lines = [f"{len(WORDS)} {D}"] if header else []
    lines += [" ".join([word, *(repr(float(x)) for x in row)]) for word, row in zip(WORDS, vectors, strict=True)]
    return ("\n".join(lines) + "\n").encode()


def as_binary(vectors, line_breaks):
    parts = [f"{len(WORDS)} {D}\n".encode()]
    words = [word.replace(" ", "_") for word in WORDS]  # the format has no blanks in words
    for word, row in zip(words, vectors, strict=True):
        parts += [word.encode(), b" ", row.astype("<f4").tobytes(), b"\n" * line_breaks]
    return b"".join(parts)


def check(path, words=WORDS, **options):
    vectors = read_word_vectors(path, **options)
    assert vectors.words == words
    assert vectors.vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors.vectors, made())


@pytest.mark.parametrize("header", [False, True], ids=["GloVe", "word2vec"])
@pytest.mark.parametrize(("ending", "pack"), [(".txt", bytes), (".txt.gz", gzip.compress), (".vec.xz", lzma.compress)])
def test_text_files(tmp_path, header, ending, pack):
    path = tmp_path / f"vectors{ending}"
    path.write_bytes(pack(as_text(made(), header)))
    check(path)


@pytest.mark.parametrize("line_breaks", [0, 1])
@pytest.mark.parametrize(("ending", "pack"), [(".bin", bytes), (".bin.gz", gzip.compress)])
def test_binary_files(tmp_path, line_breaks, ending, pack):
    path = tmp_path / f"vectors{ending}"
    path.write_bytes(pack(as_binary(made(), line_breaks)))
    check(path, [word.replace(" ", "_") for word in WORDS])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays(tmp_path, order, dtype):
    np.save(tmp_path / "vectors.npy", np.asarray(made(), dtype, order=order))
    (tmp_path / "vectors.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    check(tmp_path / "vectors.npy")
    (tmp_path / "vectors.txt").rename(tmp_path / "list")
    check(tmp_path / "vectors.npy", vocabulary=tmp_path / "list")
    with pytest.raises(UserError, match=r"vectors.txt does not exist"):
        read_word_vectors(tmp_path / "vectors.npy")


def test_windows_line_ends_and_blanks_at_the_end(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_bytes(as_text(made()).replace(b"\n", b" \r\n"))
    check(path)


def test_the_first_of_equal_words_counts(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 2\nb 3 4\na 5 6\n")
    vectors = read_word_vectors(path)
    assert (vectors.words, vectors.vectors.tolist()) == (["a", "b"], [[1, 2], [3, 4]])


def cosines(vectors, target):
    return [float(row @ target / np.linalg.norm(row) / np.linalg.norm(target)) for row in vectors.astype("float64")]


def test_similar_words_equal_a_plain_computation():
    actual = WordVectors(WORDS, made()).similar("king", top=4)
    scores = cosines(made(), made()[1])
    expected = sorted((i for i in range(len(WORDS)) if i != 1), key=lambda i: -scores[i])[:4]
    assert [one.word for one in actual] == [WORDS[i] for i in expected]
    np.testing.assert_allclose([one.score for one in actual], [scores[i] for i in expected], atol=1e-6)


@pytest.mark.parametrize("query", ["king - man + woman", "  woman + king  -  man ", "- man + king + woman"])
def test_analogies_add_vectors_of_length_1(query):
    vectors = made()
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = cosines(vectors, units[1] - units[3] + units[4])
    expected = max((i for i in range(len(WORDS)) if i not in (1, 3, 4)), key=scores.__getitem__)
    (best,) = WordVectors(WORDS, vectors).similar(query, top=1)
    assert best.word == WORDS[expected]
    assert best.score == pytest.approx(scores[expected], abs=1e-6)


def test_words_of_the_query():
    vectors = WordVectors(WORDS, made())
    assert len(vectors.similar("co-op", top=100)) == len(WORDS) - 1  # a hyphen is no minus
    assert vectors.similar("KING") == vectors.similar("king")
    assert vectors.place("New") == 9
    assert vectors.place("nowhere") is None
    with pytest.raises(UserError, match=r"'prince' of the query 'king - prince' is not among the 10 words"):
        vectors.similar("king - prince")
    for query in ("", " ", "king -  + man", "+", "king +"):
        with pytest.raises(UserError, match=r"king - man \+ woman|is not among"):
            vectors.similar(query)


def test_vectors_of_zeros_give_no_nan():
    vectors = made()
    vectors[5] = 0
    assert all(np.isfinite(one.score) for one in WordVectors(WORDS, vectors).similar("Zürich", top=100))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"", "no vectors"),
        ("v.txt", b"\n \n", "no vectors"),
        ("v.txt", b"a 1 2\nb 3\n", "line 2"),
        ("v.txt", b"a 1 2\nb 3 x\n", "line 2: could not convert string to float: 'x'"),
        ("v.txt", b"a 1 2\nb 3 4 5\nc 3 nan\n", "vector of 'c' has a number that is not finite"),
        ("v.txt", b"a 1 1e99\n", "not finite"),
        ("v.txt", b"word\n", "line 1"),
        ("v.txt", b"99999999 9999999\n", "Allowed"),
        ("v.txt", b"a 1 2\n\xff\xfe 1 2\n", "line 2: not UTF-8"),
        ("v.txt", b"a " + b"1 " * 600_000, "longer than"),
        ("v.txt.gz", b"no gzip", "cannot be decompressed"),
        ("v.bin", b"a 1 2\n", "not a binary word2vec file"),
        ("v.bin", b"2 3\na " + bytes(12) + b"b " + bytes(11), "ends within word 2 of 2"),
        ("v.bin", b"1 3\na " + bytes(12) + b"more", "goes on after its 1 words"),
        ("v.bin", b"1 3\n\xff " + bytes(12), "word 1 is not UTF-8"),
        ("v.bin", b"9999999999 3\n", "Allowed"),
        ("v.npy", b"no array", "not a NumPy array"),
        ("v.npy", b"", "not a NumPy array"),
        ("v.npy.gz", gzip.compress(b"an array", mtime=0), "unpack the array first"),
    ],
)
def test_damaged_files_get_one_line(tmp_path, name, content, message):
    (tmp_path / "v.vocab").write_text("a\nb\n")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        read_word_vectors(tmp_path / name)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 2)), "3 vectors, but .* has 2 words"),
        (np.zeros(2), r"found float64 \(2,\)"),
        (np.zeros((2, 2), int), "found int64"),
        (np.array([[{}, 1]], object), "not a NumPy array"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, array, message):
    np.save(tmp_path / "v.npy", array)
    (tmp_path / "v.txt").write_text("a\nb\n")
    with pytest.raises(UserError, match=message):
        read_word_vectors(tmp_path / "v.npy")
