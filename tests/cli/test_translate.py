"""`translate`: what it prints and what it writes."""

import io
import json
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from cli.running import translator
from zoo.tiny_entry import DECODING, ENGLISH, tiny_parts

from keras_attention.cli import translate
from keras_attention.cli.io.many_texts import ProgressLine
from keras_attention.pipelines import language_pairs
from keras_attention.pipelines.doubt import REASONS
from keras_attention.pipelines.translator import Translation, Translator


def test_sentences_as_arguments(run):
    texts = [ENGLISH[0], "", ENGLISH[3]]
    expected = translator().translate(texts)
    assert run("translate", "--model", "tiny", *texts) == (0, "\n".join(expected) + "\n", "")


def test_sentences_from_standard_input_and_from_a_file(run, tmp_path):
    content = f"\ufeff{ENGLISH[0]}\r\n\n{ENGLISH[3]}\u2028\n".encode()
    expected = "\n".join(translator().translate([ENGLISH[0], "", ENGLISH[3]])) + "\n"
    assert run("translate", "--model", "tiny", stdin=content) == (0, expected, "")
    (tmp_path / "in.txt").write_bytes(content)
    output = tmp_path / "out.txt"
    assert run("translate", "--model", "tiny", "--input", tmp_path / "in.txt", "--output", output) == (
        0,
        "",
        f"keras-attention: {output}: 3 answers\n",
    )
    assert output.read_text() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.txt"]


@pytest.fixture
def english_german(monkeypatch):
    """The only translator of the zoo translates from English to German."""
    monkeypatch.setattr(language_pairs, "translators", lambda: [language_pairs.Pair("tiny", "en", "de", ())])


def test_a_language_in_place_of_a_model(run, english_german, tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(ENGLISH))
    answers = translator().translate(ENGLISH)
    notice = "keras-attention: tiny (English, detected, to German)\n"
    assert run("translate", "--to", "de", ENGLISH[0]) == (0, f"{answers[0]}\n", notice)
    assert run("translate", "--to", "German", stdin=ENGLISH[0].encode()) == (0, f"{answers[0]}\n", notice)
    assert run("translate", "--to", "de", "--input", tmp_path / "in.txt") == (0, "\n".join(answers) + "\n", notice)
    answer, named = translator().translate("12:45 !"), "keras-attention: tiny (English to German)\n"
    assert run("translate", "--to", "de", "--from", "English", "12:45 !") == (0, f"{answer}\n", named)


def test_languages_without_a_model_are_one_line(complains, english_german):
    assert "No model translates to 'fr'. Choices: de." in complains("translate", "--to", "fr", ENGLISH[0])
    assert "No model translates from 'fr'. Choices: en." in complains("translate", "--to", "de", "--from", "fr", "x")
    assert "could not be detected" in complains("translate", "--to", "de", "12:45")
    assert "leave out --model" in complains("translate", "--to", "de", "--model", "tiny", ENGLISH[0])
    assert "leave out --model" in complains("translate", "--from", "en", "--model", "tiny", ENGLISH[0])
    assert "--to de" in complains("translate", "--from", "en", ENGLISH[0])
    assert "--to de" in complains("translate", ENGLISH[0])


@pytest.mark.slow
def test_json(run):
    code, out, err = run("translate", "--model", "tiny", "--json", "--n-best", 3, ENGLISH[0], "")
    first, second = map(json.loads, out.splitlines())
    expected = translator().translate(ENGLISH[0], n_best=3)
    assert (code, err) == (0, "")
    assert [answer["text"] for answer in first["translations"]] == [answer.text for answer in expected]
    assert first["source"] == ENGLISH[0]
    assert first["source_tokens"][-1] == "</s>"
    assert first["truncated"] is False
    assert [answer["text"] for answer in second["translations"]] == [""]


@pytest.mark.slow
def test_n_best_with_scores(run):
    _, out, _ = run("translate", "--model", "tiny", "--n-best", 3, ENGLISH[0])
    rows = [line.split("\t") for line in out.splitlines()]
    expected = translator().translate(ENGLISH[0], n_best=3)
    assert rows == [["1", f"{answer.score:.4f}", answer.text] for answer in expected]


@pytest.mark.slow
def test_options_reach_the_search(run, monkeypatch):
    given = {}
    answers = translator().hypotheses([ENGLISH[0]])
    monkeypatch.setattr(Translator, "hypotheses", lambda self, texts, **options: given.update(options) or answers)
    options = "--beam 7 --length-penalty 0.6 --coverage-penalty 0.2 --max-length 11 --replace-unknowns --no-split"
    run("translate", "--model", "tiny", *options.split(), ENGLISH[0])
    given.pop("progress")
    assert given == {
        "beam_size": 7,
        "n_best": 1,
        "length_penalty": 0.6,
        "coverage_penalty": 0.2,
        "max_length": 11,
        "replace_unknowns": True,
        "attention": False,
        "split": False,
        "prefix": None,
        "terms": None,
        "do_not_translate": None,
    }


@pytest.mark.slow
def test_heat_maps(run, tmp_path):
    code, _, err = run("translate", "--model", "tiny", "--attention", tmp_path / "map.png", ENGLISH[0])
    assert (code, err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]
    _, _, err = run("translate", "--model", "tiny", "--attention", tmp_path / "more.svg", ENGLISH[0], "", ENGLISH[3])
    assert err == "keras-attention: more-2.svg: not drawn, because the translation has no tokens\n"
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["more-1.svg", "more-3.svg"]


def test_maps_of_chosen_heads(run, complains, tmp_path):
    chosen = ("translate", "--model", "tiny", "--attention", tmp_path / "map.png", "--heads", "all")
    code, _, err = run(*chosen, ENGLISH[0])
    assert (code, err) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]
    code, _, err = run(*chosen, "--layers=1,2", ENGLISH[0])
    assert (code, err) == (2, "keras-attention: There is no layer 2: the model has 1, counted from 1.\n")
    assert "need --attention FILE" in complains("translate", "--model", "tiny", "--layers", "1", ENGLISH[0])
    assert "such as 1,3 or all, found 'x'" in complains("translate", "--model", "tiny", "--layers", "x", ENGLISH[0])


@pytest.mark.parametrize("function", ["attention_heatmap", "heads_heatmap"])
def test_maps_have_words_or_pieces(function, run, complains, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(f"keras_attention.visualize.figures.{function}", lambda *given, **_: drawn.append(given))
    chosen = ["--heads", "all"] if function == "heads_heatmap" else []
    for flags in ([], ["--pieces"]):
        run("translate", "--model", "tiny", "--attention", tmp_path / "map.png", *chosen, *flags, ENGLISH[0])
    (weights, source, target, _), (of_pieces, source_pieces, target_pieces, _) = drawn
    assert "".join(source) == "".join(source_pieces).replace("▁", "")
    assert any(piece.startswith("▁") for piece in source_pieces)
    assert len(source) < len(source_pieces)
    assert (weights.shape[-2:], of_pieces.shape[-2:]) == (
        (len(target), len(source)),
        (len(target_pieces), len(source_pieces)),
    )
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)
    assert "need --attention FILE" in complains("translate", "--model", "tiny", "--pieces", ENGLISH[0])


@pytest.mark.slow
def test_streaming(run, complains):
    code, out, err = run("translate", "--model", "tiny", "--stream", ENGLISH[0], "", ENGLISH[3])
    assert (code, err) == (0, "")
    assert out.splitlines() == translator().translate([ENGLISH[0], "", ENGLISH[3]], beam_size=1)
    drawn = ("translate", "--model", "tiny", "--stream", "--temperature", "2", "--seed", "5", ENGLISH[0])
    assert run(*drawn) == run(*drawn)
    assert "Leave out --json, --beam" in complains(
        "translate", "--model", "tiny", "--stream", "--json", "--beam=3", "x"
    )
    assert "need --stream" in complains("translate", "--model", "tiny", "--temperature=2", "x")
    assert "top_p=2.0" in complains(
        "translate", "--model", "tiny", "--stream", "--temperature=1", "--top-p=2", "x"
    ).replace("-p", "_p")


def test_a_flag_without_effect_on_a_stream_is_refused(complains, tmp_path):
    stream = ("translate", "--model", "tiny", "--stream")
    for flags in (("--top-k", "5"), ("--top-p", "0.5", "--seed", "3")):
        assert "need a --temperature above 0" in complains(*stream, *flags, "x")
    assert "Leave out --length-penalty." in complains(*stream, "--length-penalty", "0", "x")
    files = ("--input", tmp_path / "source", "--output", tmp_path / "target")
    assert "Leave out --resume." in complains(*stream, "--resume", *files)


def test_low_score_is_printed(run, monkeypatch):
    judge = Translator(*tiny_parts(), DECODING, low_score_threshold=-0.001)
    judge.compiled = translator().compiled
    monkeypatch.setattr(translate, "load", lambda entry, task: judge)
    code, out, err = run("translate", "--model", "tiny", "", ENGLISH[0])
    assert (code, out) == (0, "\n" + translator().translate(ENGLISH[0]) + "\n")
    assert err.startswith("keras-attention: sentence 2: low score")


def doubtful(monkeypatch, *reasons):
    """A model whose answers are doubtful for these reasons, in turn."""
    answer = Translation("x", 0.0, [], [], None, None, 0.0, False, False)
    answers = [answer._replace(low_score=reason is not None, reason=reason) for reason in reasons]
    judge = SimpleNamespace(hypotheses=lambda texts, **_: [[one] for one in answers])
    monkeypatch.setattr(translate, "load", lambda entry, task: judge)


def test_every_reason_to_doubt_is_one_line(run, monkeypatch):
    assert set(translate.NOTES) == set(REASONS)
    doubtful(monkeypatch, *REASONS, None)
    texts = "abcdefghijk"[: len(REASONS) + 1]
    code, out, err = run("translate", "--model", "tiny", *texts)
    assert (code, out) == (0, "x\n" * len(texts))
    numbers = [line.split(":")[1].strip() for line in err.splitlines()]
    assert numbers == [f"sentence {number}" for number in range(1, len(texts))]
    assert "wrong language" in err
    assert "many unknown pieces" in err
    assert "repetition" in err
    _, out, _ = run("translate", "--model", "tiny", "--json", *texts)
    first = [json.loads(line)["translations"][0] for line in out.splitlines()]
    assert [(one["low_score"], one["reason"]) for one in first] == [
        *((True, reason) for reason in REASONS),
        (False, None),
    ]


def test_many_doubts_are_counted(run, monkeypatch):
    doubtful(monkeypatch, *["repetition"] * 3, *["low score"] * 1100, None)
    _, out, err = run("translate", "--model", "tiny", *["a"] * 1104)
    assert out.count("\n") == 1104
    *notes, last = err.splitlines()
    assert len(notes) == 10
    assert last == ("keras-attention: 1,104 sentences, of these 1,100 low score, 3 repetition. --json marks each one.")


@pytest.mark.slow
def test_very_long_line_is_cut_with_a_warning(run):
    started = time.perf_counter()
    code, out, err = run("translate", "--model", "tiny", stdin=b"A dog runs. " * 83_333 + b"\n")
    assert (code, out.count("\n"), err.count("\n")) == (0, 1, 1)
    assert "their end was left out" in err
    assert time.perf_counter() - started < 10


def test_typed_sentences_are_answered_one_by_one(run, monkeypatch):
    class Terminal(io.TextIOWrapper):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(f"{ENGLISH[0]}\n{ENGLISH[3]}".encode())))
    code, out, err = run("translate", "--model", "tiny")
    assert (code, out) == (0, "\n".join(translator().translate([ENGLISH[0], ENGLISH[3]])) + "\n")
    assert "Ctrl-D" in err


def test_progress_line_is_for_terminals_only():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        progress = ProgressLine(stream)
        progress(3, 7)
        progress(7, 7)
    assert "3/7 sentences" in terminal.getvalue()
    assert "s left" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert file.getvalue() == ""


def test_a_document_keeps_its_markup(run, complains, monkeypatch, tmp_path):
    answers = lambda texts, **_: [[Translation(text.upper(), low_score=True, reason="low score")] for text in texts]  # noqa: E731
    monkeypatch.setattr(translate, "load", lambda entry, task: SimpleNamespace(hypotheses=answers))
    (tmp_path / "some.html").write_bytes(b"<h1>A dog</h1>\r\n<p>runs &amp; sits</p>\r\n")
    given = ("translate", "--model", "tiny", "--format")
    code, out, err = run(*given, "html", "--input", tmp_path / "some.html", "--output", tmp_path / "out.html")
    assert (code, out) == (0, "")
    assert (tmp_path / "out.html").read_bytes() == b"<h1>A DOG</h1>\r\n<p>RUNS &amp; SITS</p>\r\n"
    assert err.count("low score") == 2
    assert run(*given, "markdown", "# A dog")[1] == "# A DOG\n"
    assert run(*given, "srt", stdin=b"1\n00:00:01,000 --> 00:00:02,000\nA dog\n")[1].endswith("2,000\nA DOG\n")
    assert "--json" in complains(*given, "html", "--json", "a")
    assert "several texts" in complains(*given, "html", "a", "b")
    (tmp_path / "bad.html").write_bytes(b"<p>\xff</p>")
    assert "byte 4 is not UTF-8" in complains(*given, "html", "--input", tmp_path / "bad.html")


def test_alignments_are_printed_after_translations(run, complains, monkeypatch):
    def answers(texts, **options):
        assert options["attention"]
        pieces = {"tokens": ["▁a", "▁b", "</s>"], "source_tokens": ["▁x", "▁y", "</s>"]}
        return [[Translation(text, **pieces, attention=np.eye(3)[[1, 0, 2]])] for text in ("a b", "a\tb")[: len(texts)]]

    monkeypatch.setattr(translate, "load", lambda entry, task: SimpleNamespace(hypotheses=answers))
    assert run("translate", "--model", "tiny", "--align", "x y") == (0, "a b\t1-0 0-1\n", "")
    two_fields = "a b\t1-0 0-1\n" * 2  # a tab of the answer is no end of a field
    assert run("translate", "--model", "tiny", "--align", "x y", "x\ty") == (0, two_fields, "")
    _, out, _ = run("translate", "--model", "tiny", "--align", "--json", "x y")
    assert json.loads(out)["translations"][0]["alignment"] == "1-0 0-1"
    assert "--align" in complains("translate", "--model", "tiny", "--align", "--stream", "x y")
