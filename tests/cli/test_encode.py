"""encode, similar, zero-shot labels and --explain from the shell; fill-mask with a text that has no gap."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from zoo.tiny_bert import (
    TEXTS,
    tiny_classifier,
    tiny_encoder,
    tiny_mask_filler,
    tiny_protein_model,
    tokenizer,
    write_tiny,
)

from keras_attention.cli.encode import note_language
from keras_attention.cli.io import many_texts
from keras_attention.pipelines.classifier import COSINE_SCALE, ZeroShotClassifier
from keras_attention.pipelines.text_encoder import TextEncoder

LINES = [*TEXTS, "dog " * 40, *TEXTS[::-1]]


@pytest.mark.parametrize(
    ("language", "texts", "expected"),
    [
        (
            "en",
            ["Wann fährt der Zug nach Hamburg ab?", "Die Rechnung ist viel zu hoch."],
            ("German", "minilm_small_multi"),
        ),
        ("en", ["Когда отправляется поезд в Москву?"], ("Russian", "hf://")),
        ("de", ["When does the next train to Hamburg leave?"], ("English", "hf://")),
        ("en", ["When does the train leave?", "Die Rechnung ist viel zu hoch."], None),
        ("en", ["Rechnung", "12", "😀"], None),
        ("mul", ["Wann fährt der Zug nach Hamburg ab?"], None),
    ],
)
def test_a_language_that_the_encoder_has_not_learned_is_noted(language, texts, expected, capsys):
    note_language(SimpleNamespace(config={"language": language}, name="mine"), texts)
    written = capsys.readouterr().err
    assert all(part in written for part in expected) if expected else not written


def test_texts_are_looked_at_besides_the_queries_and_noted_once(capsys):
    entry, texts = SimpleNamespace(config={"language": "en"}, name="mine"), ["Die Rechnung ist viel zu hoch."]
    for groups in ((["bill"], texts), (texts, ["The bill is too high."]), (texts, texts)):
        note_language(entry, *groups)
        assert capsys.readouterr().err.count("German") == 1


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """(folder, TextEncoder)."""
    folder = tmp_path_factory.mktemp("models") / "vectors"
    write_tiny(folder, tiny_encoder())
    return folder, TextEncoder(tiny_encoder(), tokenizer(), 23)


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.setattr(many_texts, "WINDOW", 4)
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
def test_vectors_are_a_numpy_file(run, vectors, lines):
    folder, encoder = vectors
    out = lines.with_name("vectors.npy")
    code, message, err = run("encode", "--model", folder, "--input", lines, "--output", out)
    assert (code, message) == (0, f"{out}: 9 vectors of 14 numbers (float32)\n")
    assert "1 of 9 texts (the first is number 5)" in err
    array = np.load(out, allow_pickle=False)
    assert (array.dtype, array.shape) == (np.float32, (9, 14))
    np.testing.assert_allclose(array, encoder.encode(LINES).pooled, atol=1e-5)
    code, printed, _ = run("encode", "--model", folder, *TEXTS[:2])
    np.testing.assert_allclose([list(map(float, line.split())) for line in printed.splitlines()], array[:2], atol=1e-5)
    code, printed, _ = run("encode", "--model", folder, "--json", stdin=TEXTS[0].encode())
    assert json.loads(printed)["vector"] == pytest.approx(array[0].tolist(), abs=1e-5)


@pytest.mark.slow
def test_each_protein_of_a_fasta_file_has_a_vector(run, complains, tmp_path):
    filler = tiny_protein_model()
    filler.save(tmp_path / "proteins", language="zxx")
    path = tmp_path / "some.fasta"
    path.write_text(">a first\nMKVL\naa*\n>b\nACDEF\n")
    words = ("encode", "--model", tmp_path / "proteins", "--input")
    code, printed, _ = run(*words, path)
    vectors = [list(map(float, line.split())) for line in printed.splitlines()]
    np.testing.assert_allclose(vectors, filler.encode(["MKVLAA", "ACDEF"]).pooled, atol=1e-5)
    assert run("fill-mask", "--model", tmp_path / "proteins", "--input", path)[0] == 2  # no masks in FASTA
    path.write_text("MKVLAA\n")
    assert "line 1: found 'MKVLAA'. Expected: FASTA" in complains(*words, path)
    path.write_text(">a\nMKVL1\n")
    assert "protein 'a': Expected a protein in letters of amino acids" in complains(*words, path)


def test_vectors_that_cannot_be_written(complains, vectors, lines):
    words = ("encode", "--model", vectors[0], "--input", lines, "--output")
    assert "must end with .npy" in complains(*words, lines.with_name("vectors.csv"))
    assert "folder does not exist" in complains(*words, lines.parent / "no" / "a.npy")
    assert "either as arguments or by --input" in complains(*words, lines.with_name("a.npy"), "a text")
    assert "Give one of them" in complains(*words, lines.with_name("a.npy"), "--json")
    assert [path.name for path in lines.parent.iterdir()] == ["texts.txt"]


def test_a_blank_text_has_no_vector_and_is_not_ranked(run, vectors):
    folder, encoder = vectors
    texts = [TEXTS[0], "", " \t", TEXTS[1]]
    embeddings = encoder.encode(texts)
    assert [len(tokens) > 0 for tokens in embeddings.tokens] == [True, False, False, True]
    assert [vectors.shape[0] for vectors in embeddings.vectors[1:3]] == [0, 0]
    np.testing.assert_array_equal(embeddings.pooled[1:3], 0)
    np.testing.assert_allclose(embeddings.pooled[::3], encoder.encode(TEXTS[:2]).pooled, atol=1e-5)
    assert [one["vector"] is None for one in encoder.reply(texts)] == [False, True, True, False]
    assert sorted(one.index for one in encoder.similar("A dog", texts)) == [0, 3]
    assert encoder.similar(" ", texts) == []
    _, out, _ = run("encode", "--model", folder, *texts)
    assert [len(line.split()) for line in out.splitlines()] == [14, 0, 0, 14]
    _, out, _ = run("encode", "--model", folder, "--json", *texts)
    assert json.loads(out.splitlines()[1]) == {"text": "", "vector": None, "truncated": False}
    _, out, _ = run("similar", "--model", folder, "--query", "", "--query", "A dog", "--json", *texts)
    assert [[one["line"] for one in json.loads(line)["similar"]] for line in out.splitlines()] in (
        [[], [1, 4]],
        [[], [4, 1]],
    )
    nearest = ZeroShotClassifier(encoder, ["red dress", "green grass"])
    assert nearest.classify(["", TEXTS[0]])[0] is None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
def test_similar_texts(run, complains, vectors, lines):
    folder, encoder = vectors
    queries = ["Two men sit.", "A dog"]
    words = ("similar", "--model", folder, "--query", queries[0], "--input", lines)
    code, out, _ = run(*words, "--top", "3")
    a, b = (
        answer / np.linalg.norm(answer, axis=-1, keepdims=True)
        for answer in (encoder.encode(queries).pooled, encoder.encode(LINES).pooled)
    )
    scores = a @ b.T
    best = np.argsort(-scores, kind="stable")
    assert code == 0
    for line, number in zip(out.splitlines(), best[0][:3], strict=True):
        score, text = line.split("\t")
        assert (float(score), text) == (pytest.approx(scores[0][number], abs=1e-4), LINES[number])
    _, out, _ = run(*words, "--query", queries[1], "--json")
    for row, order, answer in zip(scores, best, map(json.loads, out.splitlines()), strict=True):
        assert [one["score"] for one in answer["similar"]] == pytest.approx(row[order[:5]].tolist(), abs=1e-5)
        assert [LINES[one["line"] - 1] for one in answer["similar"]] == [one["text"] for one in answer["similar"]]
    assert [one.index for one in encoder.similar(queries[0], LINES, top=2)] == best[0][:2].tolist()
    assert "--top must be" in complains(*words, "--top", "0")
    assert "--query" in complains("similar", "--model", folder, "a")


@pytest.mark.slow
def test_labels_without_training(run, complains, vectors, lines):
    folder, encoder = vectors
    labels = ["red dress", "green_grass"]
    code, out, _ = run("classify", "--model", folder, "--labels", "red dress, green_grass", *TEXTS)
    nearest = ZeroShotClassifier(encoder, labels)
    expected = nearest.classify(TEXTS, return_scores=True)
    assert code == 0
    assert out.splitlines() == [f"{one.label} {one.probabilities[one.label]:.4f}" for one in expected]
    a, b = encoder.encode(TEXTS[0]).pooled[0], encoder.encode(["red dress", "green grass"]).pooled
    logits = COSINE_SCALE * b @ a / (np.linalg.norm(a) * np.linalg.norm(b, axis=-1))
    assert expected[0].probabilities["red dress"] == pytest.approx(1 / (1 + np.exp(logits[1] - logits[0])), abs=1e-5)
    table = lines.with_name("new.csv")
    table.write_text("text\n" + "\n".join(TEXTS))
    _, out, _ = run("classify", "--model", folder, "--labels", "red dress,green_grass", "--table", table)
    assert [row.split(",")[-2] for row in out.splitlines()[1:]] == [one.label for one in expected]
    for labels in ("a,a", "caf\xe9,cafe\u0301", "a,\u200b"):
        assert "at least two different labels" in complains("classify", "--model", folder, "--labels", labels, "x")
    assert nearest.classify(TEXTS[0], threshold=1.0) is None


@pytest.mark.slow
def test_explained_on_a_page(run, complains, tmp_path):
    judge = tiny_classifier()
    write_tiny(tmp_path / "judge", judge.model, task=judge.task)
    page = tmp_path / "why.html"
    words = ("classify", "--model", tmp_path / "judge", "--explain")
    code, out, err = run(*words, page, *TEXTS[:2])
    assert (code, len(out.splitlines())) == (0, 2)
    assert err == f"keras-attention: {page}: 2 texts with their words in colours\n"
    html = page.read_text(encoding="utf-8")
    assert html.count("<article>") == 2
    word = judge.explain(TEXTS[0]).words[1]
    assert f'title="{word.effect:+.4f}">{word.text}</span>' in html
    assert "end with .html" in complains(*words, tmp_path / "why.txt", "a")
    (tmp_path / "many.txt").write_text("a\n" * 101)
    assert "at most 100 texts. Found: 101" in complains(*words, page, "--input", tmp_path / "many.txt")
    given = ("--input", tmp_path / "many.txt", "--output", tmp_path / "out", "--resume")
    assert "leave out --resume" in complains(*words, page, *given)


@pytest.mark.slow
def test_fill_mask_answers_valid_texts_and_reports_the_invalid_one(run, complains, tmp_path):
    filler = tiny_mask_filler()
    write_tiny(tmp_path / "filler", filler.model)
    texts = ["a [MASK] runs", "no gap", "men [MASK]"]
    code, out, err = run("fill-mask", "--model", tmp_path / "filler", *texts, "--top", "2")
    expected = [filling for text in (texts[0], texts[2]) for filling in filler.fill_mask(text, top_k=2)]
    assert (code, [line.split("\t")[1] for line in out.splitlines()]) == (2, [one.text for one in expected])
    assert err == "keras-attention: text 2: A text must have 1 to 32 masks, written [MASK]. Found 0 in 'no gap'\n"
    code, out, err = run("fill-mask", "--model", tmp_path / "filler", "--json", stdin="\n".join(texts).encode())
    assert (code, [json.loads(line)["text"] for line in out.splitlines()]) == (2, [texts[0], texts[2]])
    assert "`top_k` must be" in complains("fill-mask", "--model", tmp_path / "filler", *texts, "--top", "0")


def test_similar_words(run, complains, tmp_path):
    """With --vectors no model is loaded: neighbours and analogies come from a file of word vectors."""
    path = tmp_path / "glove.txt"
    path.write_text("king 1 1 0\nman 1 0 0\nwoman 1 0 1\nqueen 1 1 1\nstone 0 -1 0\n")
    code, out, _ = run("similar", "--vectors", path, "--query", "king - man + woman", "--query", "man", "--top", "1")
    assert code == 0
    first, analogy, second, neighbour = out.splitlines()
    assert (first, second) == ("king - man + woman:", "man:")
    assert analogy.split("\t")[1] == "queen"
    assert neighbour == "0.7071\tking"
    _, out, _ = run("similar", "--vectors", path, "--query", "man", "--json")
    assert [one["word"] for one in json.loads(out)["similar"]] == ["king", "woman", "queen", "stone"]
    assert "'prince' is not among the 5 words" in complains("similar", "--vectors", path, "--query", "prince")
    assert "leave out TEXT" in complains("similar", "--vectors", path, "--query", "man", "a text")
    assert "there is no such file" in complains("similar", "--vectors", tmp_path / "nothing", "--query", "man")
