"""MarianTokenizer: texts in Python and in a graph, language tokens, and damaged files."""

import io
import json

import pytest
import sentencepiece

from keras_attention.support.errors import UserError
from keras_attention.tokenizers import MarianTokenizer, load_tokenizer
from keras_attention.tokenizers.special_tokens import SPECIAL_PIECES, UNKNOWN_ID

TEXTS = ["a dog runs", ">>fra<< a dog", "a dog >>fra<<", ">>ron<<", "", ">> a", "ț漢 x", ">>fra<<\na", "  a  b "]


def spm_model():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a dog runs", "a cat runs", "no dogs > a cat"]), model_writer=model, vocab_size=31,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def tokenizer():
    model = spm_model()
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(i) for i in range(3, processor.vocab_size()) if processor.id_to_piece(i) != "g"]
    return MarianTokenizer(model, [*SPECIAL_PIECES, "ț", *pieces[::-1], ">>fra<<", ">>ron<<"])


def test_ids_in_python_and_in_a_graph_are_equal(tokenizer):
    ids = [one.tolist() for one in tokenizer.encode(TEXTS)]
    assert tokenizer.tokenize_in_graph(TEXTS).to_list() == ids
    assert UNKNOWN_ID in ids[6]
    assert tokenizer.tokens(ids[1])[0] == ">>fra<<"
    assert ">>fra<<" not in tokenizer.tokens(ids[2])
    assert tokenizer.decode([tokenizer.encode(["a cat runs"])[0]]) == ["a cat runs"]


def test_a_language_that_is_missing_is_named(tokenizer):
    assert tokenizer.languages == (">>fra<<", ">>ron<<")
    with pytest.raises(UserError, match="no target language '>>deu<<'. Its languages: >>fra<<, >>ron<<"):
        tokenizer.encode([">>deu<< a dog"])
    alone = MarianTokenizer(spm_model(), tokenizer.vocabulary[:-2])
    assert alone.encode([">>deu<< a"])[0][0] == UNKNOWN_ID  # as in transformers


def test_saved_and_loaded_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded.vocabulary == tokenizer.vocabulary
    assert [one.tolist() for one in loaded.encode(TEXTS)] == [one.tolist() for one in tokenizer.encode(TEXTS)]
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0}))
    with pytest.raises(UserError, match="The vocabulary has 1 pieces. Supported: 5 to"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        (["<pad>", "<unk>", "</s>", "<s>", "a"], "must begin with <pad>, <unk>, <s>, </s>. Found: "),
        ([*SPECIAL_PIECES, "a", "a"], "Piece 5 of the vocabulary must be .* occurs once. Found: 'a'"),
        ([*SPECIAL_PIECES, ""], "Piece 4 of the vocabulary must be a text of 1 to 1024 characters"),
    ],
)
def test_vocabularies_that_are_refused(vocabulary, message):
    with pytest.raises(UserError, match=message):
        MarianTokenizer(spm_model(), vocabulary)


def test_text_that_is_no_unicode_is_an_error(tokenizer):
    with pytest.raises(UserError, match="is not valid UTF-8"):
        tokenizer.encode(["\ud800"])
