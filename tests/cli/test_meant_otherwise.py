"""Commands that were probably meant otherwise end with one line that says how."""

import pytest

from keras_attention.zoo import registry


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("classify", "--model", "tiny", "new.csv"), "--table new.csv --text COLUMN"),
        (("translate", "--model", "tiny", "new.csv"), "--input new.csv"),
        (("encode", "new.csv"), "--input new.csv"),
        (("similar", "new.csv", "--query", "a"), "--input new.csv"),
        (("fill-mask", "new.csv"), "--input new.csv"),
        (("generate", "--model", "tiny", "new.csv"), "Its content is not read"),
        (("score", "--model", "tiny", "new.csv"), "--input new.csv"),
        (("attention", "--model", "tiny", "new.csv", "--out", "a.html"), "Its content is not read"),
        (("translate", "--model", "tiny", "a", "--output", "o.xlsx"), "Written are lines of text"),
        (("translate", "--model", "tiny", "a", "--output", "o.PDF"), "Written are lines of text"),
        (("classify", "--model", "tiny", "--table", "new.csv", "--output", "o.xlsx"), "Written are CSV, TSV"),
        (("classify", "--model", "tiny", "--table", "new.csv", "--output", "o.json"), "Expected: a name like new.csv"),
        (("translate", "a"), "--model is missing. Choices: tiny; or"),
        (("attention", "a", "--out", "a.html"), "--model is missing. Choices: tiny; or"),
        (("evaluate", "--source", "new.csv", "--target", "new.csv"), "--model is missing. Choices: tiny; or"),
        (("generate", "a"), "--model is missing. Choices: none in the zoo; or"),
        (("score", "a"), "--model is missing. Choices: none in the zoo; or"),
        (("caption", "a.png"), "--model is missing. Choices: none in the zoo; or"),
        (("generate", "--out", "a.mid"), "--model is missing. Choices: none in the zoo; or"),
    ],
)
def test_the_error_advises_what_was_meant(complains, tmp_path, monkeypatch, words, advice):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("text\na\n")
    assert advice in complains(*words)


@pytest.mark.parametrize(
    ("command", "task"),
    [("generate", "generate"), ("score", "generate"), ("caption", "caption"), ("transcribe", "transcribe")],
)
def test_the_best_model_of_the_zoo_is_used_without_a_model(run, monkeypatch, command, task):
    monkeypatch.setitem(registry.DEFAULT_MODELS, task, "tiny")
    code, _, err = run(command, "a")
    note, error = err.splitlines()
    assert (code, note) == (2, "keras-attention: tiny answers; --model chooses another one.")
    assert f"Expected: a model that can {command}" in error


def test_a_sentence_is_no_file_name(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dog").write_text("a")
    assert run("translate", "--model", "tiny", "dog")[0] == 0
    assert run("translate", "--model", "tiny", "missing.csv")[0] == 0
