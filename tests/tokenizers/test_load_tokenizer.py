"""One door for all kinds, and no TensorFlow behind it."""

import subprocess
import sys

import pytest

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer, WordPieceTokenizer, load_tokenizer


@pytest.mark.parametrize(
    "tokenizer",
    [
        CharacterTokenizer("abc"),
        SentencePieceTokenizer.train(["a dog runs", "a cat runs"], 31),
        WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ab", "##c"]),
    ],
)
def test_the_kind_is_found_in_the_folder(tmp_path, tokenizer):
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert type(loaded) is type(tokenizer)
    assert loaded.encode(["abc"])[0].tolist() == tokenizer.encode(["abc"])[0].tolist()


@pytest.mark.parametrize("content", ["", "{", "[]", '"text"', "{}", '{"kind": "other"}', '{"kind": ["characters"]}'])
def test_a_damaged_file_is_an_error(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_bytes_that_are_no_text_are_an_error(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        load_tokenizer(tmp_path / "nowhere")


def test_encoding_needs_no_tensorflow():
    code = (
        "import sys\n"
        "from keras_attention.tokenizers import CharacterTokenizer, SentencePieceTokenizer\n"
        "CharacterTokenizer('ab').encode(['ab'])\n"
        "SentencePieceTokenizer.train(['a dog runs'], 31).encode(['a dog'])\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
