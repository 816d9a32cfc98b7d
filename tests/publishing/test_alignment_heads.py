"""Heads that align words, found with names and numbers."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from zoo.tiny_entry import ENGLISH, write_tiny_entry

from keras_attention.cli.main import guarded
from keras_attention.inputs.token_sequences import TruncatedText
from keras_attention.models.transformer import Transformer
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.marks import alignment_pairs
from keras_attention.pipelines.translator import Translator
from keras_attention.publishing.alignment_heads import alignment_heads, word_weights, words_alike
from keras_attention.support.errors import EntryError, UserError
from keras_attention.tokenizers import SentencePieceTokenizer
from keras_attention.tokenizers.special_tokens import END_ID, START_ID
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.entry_io import rewrite_entry

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "tools" / "alignment_heads.py"))
SETTINGS = {"hidden_dim": 12, "intermediate_dim": 7, "num_heads": 3, "num_encoder_layers": 1, "num_decoder_layers": 2}


@pytest.fixture(scope="module")
def translator():
    tokenizer = SentencePieceTokenizer.train([*ENGLISH, "Tom 17 Anna 42"], 79)
    sizes = dict.fromkeys(("source_vocabulary_size", "target_vocabulary_size"), tokenizer.vocabulary_size)
    model = Transformer(**sizes, **SETTINGS, max_length=64, tie_embeddings="all")
    model({"source_ids": np.array([[3, 2]]), "target_ids": np.array([[1, 3]])})
    return Translator(model, tokenizer, tokenizer, target_language="de", source_language="en")


def test_words_alike_are_names_and_numbers_that_stand_once():
    source, target = (
        ["Yes,", "Tom", "met", "Tom", "and", "Anna", "in", "1992."],
        ["1992", "traf", "Tom", "(Anna)", "in", "Yes"],
    )
    assert words_alike(source, target) == [(7, 0), (5, 3), (0, 5)]
    assert words_alike(["a", "b"], ["b", "a"]) == []


def test_weights_between_words_are_sums_over_their_pieces(translator):
    """Also in a batch with longer sentences; each row of a step sums to 1 without the weight of END."""
    pairs = [(["a", "dog", "runs"], ["Tom", "17"]), (["the", "cat"], ["a", "dog", "runs", "Anna", "42", "17"])]
    alone = [word_weights(translator, [pair])[0] for pair in pairs]
    for one, together, (source, target) in zip(alone, word_weights(translator, pairs), pairs, strict=True):
        assert one.shape == (2, 3, 2, len(target), len(source))
        np.testing.assert_allclose(one, together, atol=1e-5)
    ids = [list(translator.source_tokenizer.encode([text])[0]) for text in ("a dog runs", "Tom 17")]
    inputs = {"source_ids": np.array([[*ids[0], END_ID]]), "target_ids": np.array([[START_ID, *ids[1]]])}
    step = np.asarray(translator.network.cross_attention(inputs))[0]  # (layers, heads, 1 + pieces, pieces + 1)
    np.testing.assert_allclose(
        alone[0].sum(axis=(-2, -1))[:, :, 0], step[:, :, : len(ids[1]), :-1].sum(axis=(-2, -1)), rtol=1e-4
    )
    np.testing.assert_allclose(alone[0].sum(axis=(-2, -1))[:, :, 1], step[:, :, 1:, :-1].sum(axis=(-2, -1)), rtol=1e-4)


def test_words_with_other_pieces_have_no_weights(translator):
    assert word_weights(translator, [(["a dog"], ["a"]), (["a"], ["a"])])[0] is None


def test_pairs_longer_than_the_learned_positions_have_no_weights(translator):
    pairs = [(["Tom", "17"], ["Anna", "42"]), (["Tom", "17"], ["airplane"] * 8), (["airplane"] * 8, ["Tom", "17"])]
    model = Transformer(79, 79, **SETTINGS, max_length=24, positions="learned")
    model({"source_ids": np.array([[3, 2]]), "target_ids": np.array([[1, 3]])})
    short = Translator(model, *translator.tokenizers.values())
    assert [one is None for one in word_weights(short, pairs)] == [False, True, True]
    assert [one is None for one in word_weights(translator, pairs)] == [False, False, False]


class Aligned:
    """A network whose heads (0, 1) and (1, 2) read the source backwards, which is where the names are in the pairs."""

    num_heads = 3

    def cross_attention(self, inputs):
        targets, pieces = inputs["target_ids"].shape[1], inputs["source_ids"].shape[1]
        weights = np.full((len(inputs["source_ids"]), 2, 3, targets, pieces), 0.01)
        for t in range(1, targets):  # step t reads token t - 1
            weights[:, [0, 1], [1, 2], t, max(0, pieces - 1 - t)] = 1
        return weights


class OneByOne:
    """A tokenizer with a piece for each word."""

    def encode(self, texts):
        return [np.arange(len(text.split())) + 5 for text in texts]

    def tokens(self, ids):
        return [f"▁{number}" for number in ids]


def stub_translator(network):
    return SimpleNamespace(
        network=network, has_attention=True, source_tokenizer=OneByOne(), target_tokenizer=OneByOne()
    )


SOURCES = [f"we saw Tom{i} in {i}00" for i in range(11, 41)]
TARGETS = [" ".join(reversed(source.split())) for source in SOURCES]


def test_the_heads_that_find_names_and_numbers_are_chosen():
    stub = stub_translator(Aligned())
    assert alignment_heads(stub, SOURCES, TARGETS) == [[0, 1], [1, 2]]
    assert alignment_heads(stub, SOURCES, SOURCES) is None  # no head finds them there
    assert alignment_heads(stub, SOURCES[:7], TARGETS[:7]) is None  # 14 words are too few
    stub.network.num_heads = 1
    assert alignment_heads(stub, SOURCES, TARGETS) is None  # nothing to choose


def test_an_untrained_network_has_no_such_heads(translator):
    assert alignment_heads(translator, SOURCES, TARGETS) is None


def test_an_answer_is_aligned_by_the_chosen_heads_at_the_step_that_reads(translator):
    plain = translator.translate("a dog runs", return_attention=True, max_length=9)
    np.testing.assert_array_equal(plain.alignment, plain.attention)
    chosen = Translator(
        translator.model, *translator.tokenizers.values(), target_language="de", alignment_heads=[[0, 1], [1, 2]]
    )
    answer = chosen.translate("a dog runs", return_attention=True, max_length=9)
    mean = (answer.heads[0, 1] + answer.heads[1, 2]) / 2
    np.testing.assert_allclose(answer.alignment[:-1], mean[1:], rtol=1e-6)
    np.testing.assert_allclose(answer.attention, plain.attention, rtol=1e-5)
    assert chosen.translate("a dog runs").alignment is None
    several = chosen.translate("A dog runs. The cat sleeps.", return_attention=True, max_length=9)
    assert several.alignment.shape == several.attention.shape
    assert len(alignment_pairs(answer, "a dog runs")) in (0, len(answer.text.split()))


def test_the_last_token_of_a_cut_answer_is_aligned_by_the_step_that_reads_it(translator):
    """The search writes no token at that step. With learned positions, there may be no room for it."""
    heads = [[0, 1], [1, 2]]
    options = {"beam_size": 2, "n_best": 2, "return_attention": True, "max_length": 3}
    chosen = Translator(translator.model, *translator.tokenizers.values(), alignment_heads=heads)
    for answer in chosen.translate("a dog runs", **options):
        assert answer.tokens[-1] != "</s>"
        ids = translator.source_tokenizer.encode(["a dog runs"])[0]
        inputs = {"source_ids": np.array([[*ids, END_ID]]), "target_ids": np.array([[START_ID, *answer.token_ids]])}
        weights = np.asarray(translator.network.cross_attention(inputs))[0]
        expected = (weights[0, 1] + weights[1, 2])[1:] / 2
        np.testing.assert_allclose(answer.alignment, expected, atol=1e-5)
    model = Transformer(79, 79, **SETTINGS, max_length=16, positions="learned")
    model({"source_ids": np.array([[3, 2]]), "target_ids": np.array([[1, 3]])})
    full = Translator(model, *translator.tokenizers.values(), alignment_heads=heads)
    (one, _) = full.translate("a dog", **options | {"max_length": 16})
    assert one.alignment.shape == one.attention.shape
    with pytest.warns(TruncatedText):
        assert full.translate("a dog runs " * 9).truncated  # there is no position for a longer text


def test_heads_that_the_decoder_does_not_have_are_refused(translator):
    what = (
        r"`alignment_heads` must be a list of different pairs \[layer, head\] of 2 layers and 3 heads, from 0, or null"
    )
    for wrong in ([[2, 0]], [[0, 3]], [], [[0, 0], [0, 0]], [0, 0], "heads"):
        with pytest.raises(UserError, match=what):
            Translator(translator.model, *translator.tokenizers.values(), alignment_heads=wrong)


def test_heads_are_part_of_an_entry(translator, tmp_path):
    entry = write_tiny_entry(tmp_path / "tiny", (translator.model, *translator.tokenizers.values()))
    assert entry.config["alignment_heads"] is None
    changed = rewrite_entry(entry.folder, config={"alignment_heads": [[1, 2], [0, 0]]})
    assert changed.config["alignment_heads"] == [[1, 2], [0, 0]]
    for wrong in (
        [],
        [[2, 0]],
        [[0, 3]],
        [[0, -1]],
        [[0, True]],
        [[0]],
        [0],
        [[0, 0], [0, 0]],
        [["0", 0]],
        "0",
        {},
        [[[0], 0]],
    ):
        with pytest.raises(EntryError, match="alignment_heads"):
            rewrite_entry(entry.folder, config={"alignment_heads": wrong})


def test_a_saved_translator_has_the_heads_that_are_set(translator, tmp_path):
    entry = write_tiny_entry(tmp_path / "tiny", (translator.model, *translator.tokenizers.values()))
    rewrite_entry(entry.folder, config={"alignment_heads": [[1, 2]]})
    loaded = load_pipeline(entry.folder, "translate")
    for name, heads in (("as_loaded", [[1, 2]]), ("others", [[0, 1]]), ("none", None)):
        loaded.alignment_heads = heads
        loaded.save(tmp_path / name)
        assert read_entry(tmp_path / name).config["alignment_heads"] == heads


def test_the_tool_needs_pairs_of_the_models_languages(translator, tmp_path, capsys):
    entry = write_tiny_entry(tmp_path / "tiny", (translator.model, *translator.tokenizers.values()))
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{s}\t{t}\n" for s, t in zip(SOURCES, TARGETS, strict=True)), encoding="utf-8")
    languages = entry.config["source_language"], entry.config["target_language"]
    call = [str(entry.folder), "--data", str(table), "--source", languages[0], "--target"]
    assert guarded(lambda: TOOL["main"]([*call, "nl"]), "alignment_heads.py") == 2
    assert "Received sentences from en to nl" in capsys.readouterr().err
    assert guarded(lambda: TOOL["main"]([*call, languages[1]]), "alignment_heads.py") == 2
    assert "stays as it is" in capsys.readouterr().err
    assert read_entry(entry.folder).config == entry.config
