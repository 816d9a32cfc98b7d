"""`--engine ctranslate2`, and the export for CTranslate2."""

import json
import sys

import ctranslate2
import keras
import pytest
from zoo.tiny_bert import LABELS, TEXTS, task, tiny_classifier, write_tiny
from zoo.tiny_entry import ENGLISH, tiny_parts, write_tiny_entry

from keras_attention.cli import translate
from keras_attention.models import Transformer
from keras_attention.pipelines import translator
from keras_attention.pipelines.base import load_pipeline

pytestmark = pytest.mark.slow

CHOSEN = ("--engine", "ctranslate2")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """`tiny`, a recurrent translator; `writer`, a Transformer; `moods`, a classifier."""
    folder = tmp_path_factory.mktemp("zoo")
    write_tiny_entry(folder / "tiny")
    source = tiny_parts()[1]
    keras.utils.set_random_seed(3)
    sizes = {"hidden_dim": 12, "intermediate_dim": 19, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Transformer(source.vocabulary_size, source.vocabulary_size, **sizes)
    model.build()
    table = model.target_embedding.embeddings
    table.assign(table * 3.0)
    write_tiny_entry(folder / "writer", (model, source, source), {"target_language": "de"})
    write_tiny(
        folder / "moods", tiny_classifier().model, [{"source": TEXTS[0], "output": LABELS["binary"][0]}], task=task()
    )
    return folder


@pytest.fixture
def real_run(run, monkeypatch):
    """`run`, with the models of the zoo."""
    monkeypatch.setattr(translate, "load", lambda entry, task: load_pipeline(entry, "translate"))
    return run


def test_translate_and_evaluate(real_run, tmp_path):
    greedy = ("--model", "writer", "--beam", "1")
    plain = real_run("translate", *greedy, *ENGLISH)
    assert plain[0] == 0
    assert real_run("translate", *greedy, *CHOSEN, *ENGLISH) == plain
    stream = ("translate", *greedy[:2], "--stream", *ENGLISH)
    assert real_run(*stream, *CHOSEN) == real_run(
        *stream
    )  # the untrained model's answers are loops, which streams keep
    (tmp_path / "in").write_text("\n".join(ENGLISH))
    (tmp_path / "out").write_text(plain[1])
    files = ("--source", tmp_path / "in", "--target", tmp_path / "out")
    code, out, err = real_run("evaluate", *greedy, *CHOSEN, *files, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["exact_match"] == 100.0
    code, out, _ = real_run("translate", *greedy, *CHOSEN, "--compute-type", "int8", *ENGLISH)
    assert (code, out.count("\n")) == (0, len(ENGLISH))


def test_unsupported_models_and_options_are_refused(complains, real_run, zoo, tmp_path, monkeypatch):
    text = ENGLISH[0]
    assert "tiny is an AttentionSeq2Seq" in complains("translate", "--model", "tiny", *CHOSEN, text)
    assert "no coverage penalty" in complains(
        "translate", "--model", "writer", *CHOSEN, "--coverage-penalty", "0.2", text
    )
    assert "other random numbers" in complains(
        "translate", "--model", "writer", *CHOSEN, "--stream", "--temperature", "1", text
    )
    assert "needs --engine" in complains("translate", "--model", "writer", "--compute-type", "int8", text)
    assert "needs --engine" in complains("serve", "--model", "writer", "--compute-type", "int8")
    (tmp_path / "rows.csv").write_text("text,label\na,good\n")
    assert "leave out --engine" in complains("evaluate", "--model", "moods", "--table", tmp_path / "rows.csv", *CHOSEN)
    assert "tiny is an AttentionSeq2Seq" in complains("export", "tiny", tmp_path / "new", "--format", "ctranslate2")
    assert "cannot be exported as ctranslate2" in complains(
        "export", "moods", tmp_path / "new", "--format", "ctranslate2"
    )
    assert "needs --format" in complains("export", "writer", tmp_path / "new", "--compute-type", "int8")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for command in (("translate", *CHOSEN, "--model", "writer", text), ("serve", *CHOSEN, "--model", "writer")):
        assert "[ctranslate2]'" in complains(*command)
    assert "pip install" in complains("export", "writer", tmp_path / "new", "--format", "ctranslate2")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_export(real_run, zoo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = real_run("export", "writer", "new", "--format", "ctranslate2", "--json")
    assert (code, err) == (0, "")
    files = json.loads(out)["files"]
    assert {"model.bin", "config.json", "README.txt", "CARD.md", "source_tokenizer/tokenizer.model"} <= set(files)
    lines = (tmp_path / "new" / "README.txt").read_text().splitlines()
    code = "\n".join(line[4:] for line in lines if line.startswith("    ")).replace("print(", "_ = (")
    names = {}
    exec(code, names)  # pieces of "A dog runs."
    monkeypatch.setattr(translator, "_loops", lambda answers: False)  # CTranslate2 alone does not search again
    translations = ctranslate2.Translator("new").translate_batch([names["pieces"]], beam_size=1, max_decoding_length=7)
    best = load_pipeline(zoo / "writer").hypotheses(["A dog runs."], beam_size=1, max_length=7)[0][0]
    assert translations[0].hypotheses[0] == [token for token in best.tokens if token != "</s>"]
    code, out, _ = real_run("export", "writer", "small", "--format", "ctranslate2", "--compute-type", "int8", "--json")
    assert code == 0
    assert json.loads(out)["files"]["model.bin"] < files["model.bin"]
