"""What becomes of single characters; the ids of whole texts are held against the reference elsewhere."""

import pytest
import tensorflow as tf
from bert_texts import bert_texts

from keras_attention.tokenizers.bert_characters import part_words, part_words_in_graph


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Émigré İstanbul ΣΑΣ", ["emigre", "istanbul", "σασ"]),  # no letter looks at its neighbours
        ("e\u0301e\u0327 \u0301", ["ee"]),
        ("a\u00a0b\u3000c\td\u2028e", ["a", "b", "c", "d", "e"]),
        ("a\x00b\x1cc\u200bd\ufffde\ue000f\u00adg", ["abcdefg"]),
        ("北京x市", ["北", "京", "x", "市"]),
        ("don't!?", ["don", "'", "t", "!", "?"]),
        ("a\u037eb", ["a", ";", "b"]),
        ("a$b€c", ["a", "$", "b€c"]),  # all of ASCII that is no letter, but elsewhere punctuation alone
    ],
)
def test_words_of_an_uncased_model(text, words):
    (parted,) = part_words([text], lowercase=True)
    assert [word for word in parted.split(" ") if word] == words


def test_a_cased_model_keeps_case_and_accents():
    assert part_words(["Émigré e\u0301"], lowercase=False) == ["Émigré e\u0301"]


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_graph_does_the_same(lowercase):
    texts = bert_texts(1_009, seed=11)
    parted = tf.function(part_words_in_graph)(tf.constant(texts), lowercase)
    assert [text.decode() for text in parted.numpy()] == part_words(texts, lowercase)


@pytest.mark.slow
def test_all_characters_are_those_of_the_library_tokenizers():
    library = pytest.importorskip("tokenizers.normalizers", reason="the library tokenizers is not installed")
    from tokenizers.pre_tokenizers import BertPreTokenizer

    lines = [
        "".join(f"a{chr(point)}b " for point in range(start, start + 0x400))
        for start in range(0, 0x110000, 0x400)
        if not 0xD800 <= start < 0xE000
    ]
    for lowercase in (True, False):
        normalizer = library.BertNormalizer(lowercase=lowercase)
        for line, parted in zip(lines, part_words(lines, lowercase), strict=True):
            words = BertPreTokenizer().pre_tokenize_str(normalizer.normalize_str(line))
            assert [word for word, _ in words] == [word for word in parted.split(" ") if word]
