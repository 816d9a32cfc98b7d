"""`evaluate` and `zoo`."""

import importlib.util
import json
import os
import socket

import pytest
from cli.running import translator
from zoo.tiny_bert import LABELS, TEXTS, tiny_classifier, write_tiny
from zoo.tiny_entry import ENGLISH

from keras_attention.cli import evaluate
from keras_attention.pipelines.translator import Translator


def test_evaluate(run, tmp_path):
    sources = [ENGLISH[0], ENGLISH[3], ENGLISH[0]]
    answers = translator().translate(sources)
    (tmp_path / "source").write_text("\n".join(sources) + "\n")
    (tmp_path / "target").write_text("\n".join([answers[0], "something else", answers[2]]) + "\n")
    files = ("--source", tmp_path / "source", "--target", tmp_path / "target")
    code, out, err = run("evaluate", "--model", "tiny", *files)
    assert (code, err) == (0, "")
    assert "3 sentences, 66.67 % exactly" in out
    assert "case:lc|eff:no|tok:none" in out
    assert "case:mixed|eff:no|tok:13a" in out
    assert "chrF2" in out
    report = json.loads(run("evaluate", "--model", "tiny", "--json", *files)[1])
    assert report["sentences"] == 3
    assert [(row["at_least"], row["sentences"]) for row in report["bleu_by_source_length"]] == [(0, 3)]
    assert "nrefs:var" in report["bleu_all_references"]["signature"]  # the first source comes again
    perfect = ("--source", tmp_path / "source", "--target", tmp_path / "answers")
    (tmp_path / "answers").write_text("\n".join(answers) + "\n")
    report = json.loads(run("evaluate", "--model", "tiny", "--json", *perfect)[1])
    assert report["exact_match"] == report["chrf"]["score"] == 100.0


def test_evaluate_compares_translators(run, complains, tmp_path, monkeypatch):
    texts = ["A dog runs home.", "Two men are near many bushes.", "Men sit in a red house."]
    outputs = iter([[text.replace("a ", "the ") for text in texts], texts] * 2)
    monkeypatch.setattr(evaluate, "_outputs", lambda arguments, entry, sources: next(outputs))
    (tmp_path / "source").write_text("\n".join(texts) + "\n")
    given = ("evaluate", "--source", tmp_path / "source", "--target", tmp_path / "source", *["--model", "tiny"] * 2)
    code, out, err = run(*given)
    assert (code, err) == (0, "")
    assert "paired bootstrap of 1,000 samples" in out
    assert out.count("TER (lower is better)") == 2
    first, second = json.loads(run(*given, "--json")[1])
    assert ("beside" in first, second["beside"]["model"]) == (False, "tiny")
    bleu, _, ter = second["beside"]["scores"]
    assert (bleu["second"], ter["second"]) == (pytest.approx(100), 0)
    assert bleu["first"] == pytest.approx(first["bleu_tradition_b"]["score"])
    translator().save(tmp_path / "other", source_language="en", target_language="fr")
    assert "cannot be compared: target_language is" in complains(*given[:-1], tmp_path / "other")


@pytest.mark.slow
def test_evaluate_a_classifier(run, complains, tmp_path):
    classifier = tiny_classifier("multiclass")
    judge = write_tiny(tmp_path / "judge", classifier.model, task=classifier.task).folder
    answers = classifier.classify(TEXTS)
    labels = [*answers[:3], next(name for name in LABELS["multiclass"] if name != answers[3])]
    rows = [f"{label}\t{text}" for label, text in zip(labels, TEXTS, strict=True)]
    (tmp_path / "table.tsv").write_text("\n".join(["label\ttext", *rows]) + "\n")
    given = ("evaluate", "--model", judge, "--table", tmp_path / "table.tsv")
    code, out, err = run(*given)
    assert (code, err) == (0, "")
    assert "read 4, used 4, skipped 0" in out
    assert "accuracy         75.00\n" in out
    assert f"| 5 | {labels[3]} | {answers[3]} |" in out
    report = json.loads(run(*given, "--json")[1])
    assert report["scores"]["accuracy"] == 75
    assert sum(map(sum, report["confusion"])) == 4
    assert "Expected: --table FILE" in complains(
        "evaluate", "--model", judge, "--source", tmp_path, "--target", tmp_path
    )
    assert "single texts" in complains(*given, "--text-b", "label")
    assert "no column 'mood'" in complains(*given, "--label", "mood")
    (tmp_path / "table.tsv").write_text("label\ttext\nz\ta\n")
    assert "'z'" in complains(*given)


def test_evaluate_of_a_classifier_has_no_search(complains, tmp_path):
    judge = write_tiny(tmp_path / "judge", tiny_classifier().model, task=tiny_classifier().task).folder
    (tmp_path / "table.tsv").write_text("label\ttext\na\tb\n")
    given = ("evaluate", "--model", judge, "--table", tmp_path / "table.tsv")
    for flag in ("--beam", "--length-penalty", "--coverage-penalty", "--max-length"):
        assert f"is a classifier: leave out {flag}." in complains(*given, flag, "0")


def test_evaluate_wants_the_files_of_a_translator(complains, tmp_path):
    assert "--target is missing" in complains("evaluate", "--model", "tiny", "--source", tmp_path / "source")
    files = ("--source", tmp_path / "source", "--target", tmp_path / "target")
    assert "--table is not allowed" in complains("evaluate", "--model", "tiny", *files, "--table", tmp_path / "t.tsv")


def test_zoo_list_and_show(run, zoo):
    code, out, _ = run("zoo", "list")
    assert code == 0
    assert out.startswith("tiny  en to ISO 8601, ")
    assert "BLEU A 38.61 (test2016) and 1 more\n" in out
    (summary,) = json.loads(run("zoo", "list", "--json")[1])
    assert (summary["name"], summary["folder"]) == ("tiny", str(zoo / "tiny"))
    assert run("zoo", "show", "tiny", "--card")[1] == (zoo / "tiny" / "CARD.md").read_text()
    code, out, _ = run("zoo", "show", "tiny")
    assert out.startswith("tiny: Turns dates into ISO 8601.\n")
    for line in ("From en to ISO 8601. ", "  Multi30k: free for research\n", "  BLEU A 38.61 on test2016\n"):
        assert line in out
    assert json.loads(run("zoo", "show", "--json", zoo / "tiny")[1])["config"]["source_language"] == "en"


def test_zoo_list_names_what_is_broken(run, zoo, tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", f"{zoo}{os.pathsep}{tmp_path}")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "manifest.json").write_text("{")
    code, out, err = run("zoo", "list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["broken", "tiny"]
    assert "damaged" in out.splitlines()[0]
    code, out, _ = run("zoo", "verify", "broken")
    assert code == 1
    assert "not valid JSON" in out


def test_zoo_without_models(run, monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_ATTENTION_ZOO", str(tmp_path))
    code, out, err = run("zoo", "list")
    assert (code, out) == (0, "")
    assert str(tmp_path) in err


def test_zoo_verify(run, monkeypatch):
    monkeypatch.setattr("keras_attention.pipelines.base.load_pipeline", lambda folder: translator())
    assert run("zoo", "verify") == (0, "tiny: files sound, 2 examples reproduced\n", "")
    monkeypatch.setattr(Translator, "translate", lambda self, texts, **_: ["1999-01-02"] * len(texts))
    code, out, _ = run("zoo", "verify", "tiny", "--json")
    (report,) = json.loads(out)
    assert (code, report["sound"], len(report["problems"])) == (1, False, 2)


def test_wrong_options_of_serve_are_refused(complains, monkeypatch):
    assert "no model 'tyni'" in complains("serve", "--model", "tyni")
    assert "power of two. Received: max_batch=3" in complains("serve", "--max-batch", "3")
    assert "concurrency=0" in complains("serve", "--concurrency", "0")
    assert "Received: 70000" in complains("serve", "--port", "70000")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use. Choose others" in complains("serve", "--port", taken.getsockname()[1])
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastapi" else find(name))
    assert "needs fastapi: pip install -e '" in complains("serve")
