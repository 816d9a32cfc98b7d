"""`translate --explain` and `generate --explain`."""

import pytest
from cli.running import translator
from zoo.tiny_entry import ENGLISH
from zoo.tiny_gpt import tiny_generator

WORDS = ("translate", "--model", "tiny", ENGLISH[1], "--explain")


def test_translate_writes_a_page_with_all_texts(run, tmp_path):
    path = tmp_path / "why.html"
    code, out, err = run("translate", "--model", "tiny", *ENGLISH[:2], "--explain", path)
    assert (code, out.splitlines()) == (0, list(map(str, translator().translate(ENGLISH[:2]))))
    assert f"{path}: which words decide 2 answers" in err
    assert path.read_text(encoding="utf-8").count("<article>") == 2


def test_contrast(run, complains, tmp_path):
    path = tmp_path / "why.html"
    word = translator().explain(ENGLISH[1]).sentences[0].targets[0]
    assert run(*WORDS, path, "--contrast", f"{word}=1-")[0] == 0
    assert f"Why <b>{word}</b> and not <b>1-</b>?" in path.read_text(encoding="utf-8")
    path.unlink()
    for hostile in ("", "=", "a=", "=b", "Bank", "\x1b[31m"):
        assert "--contrast must be a word of the answer" in complains(*WORDS, path, f"--contrast={hostile}")
    assert "has no word '<script>'" in complains(*WORDS, path, "--contrast", "<script>=x")
    assert "two different words" in complains(*WORDS, path, "--contrast", "x=x")
    assert "The model cannot write" in complains(*WORDS, path, "--contrast", f"{word}==")
    assert "--contrast is for one text. Found: 2" in complains(
        *WORDS[:4], "another", "--explain", path, "--contrast", "a=b"
    )
    assert "--contrast needs --explain FILE." in complains(*WORDS[:-1], "--contrast", "a=b")
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prefix", "20"], "--explain does not work with --prefix. Leave out either."),
        (["--stream"], "does not work with --stream"),
        (["--n-best", "2"], "does not work with --n-best"),
        (["--alternatives", "2"], "does not work with --alternatives"),
        (["--format", "html"], "does not work with --format"),
    ],
)
def test_options_that_do_not_fit(complains, tmp_path, options, message):
    assert message in complains(*WORDS, tmp_path / "why.html", *options)


def test_pages_that_cannot_be_written(complains, tmp_path):
    assert "must end with .html" in complains(*WORDS, tmp_path / "why.png")
    assert "--explain is empty" in complains(*WORDS, "")
    texts = tmp_path / "texts"
    texts.write_text("A dog.\n" * 101)
    words = ("translate", "--model", "tiny", "--input", texts, "--explain", tmp_path / "why.html")
    assert "--explain shows at most 100 texts. Found: 101" in complains(*words)


def test_generate(run, complains, tmp_path):
    folder, path = tmp_path / "writer", tmp_path / "why.html"
    generator = tiny_generator("char")
    generator.save(folder)
    words = ("generate", "--model", folder, "A dog", "--max-tokens", "9", "--explain", path)
    code, out, err = run(*words)
    assert (code, out) == (0, f"A dog{generator.generate('A dog', max_tokens=9, seed=0)}\n")
    assert f"{path}: which words decide 1 answer" in err
    assert '<table class="map">' in path.read_text(encoding="utf-8")
    assert "--explain is for one prompt" in complains(*words[:4], "another", *words[4:])
    assert "leave out --json" in complains(*words, "--json")
    assert "--explain does not work with --attention" in complains(*words, "--attention", tmp_path / "a.html")
    assert "--contrast needs --explain FILE." in complains(*words[:-2], "--contrast", "a=b")
