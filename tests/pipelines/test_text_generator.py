"""Text generation: against a loop that reads the whole text again at every step, and what must hold of every answer."""

import base64
import functools
import sys

import keras
import numpy as np
import pytest
from zoo.tiny_gpt import SIZES, TEXTS, tiny_generator, tokenizer

import keras_attention as ka
from keras_attention.decoding.sampling import sampler
from keras_attention.models import new_language_model
from keras_attention.pipelines.base import failing_examples
from keras_attention.pipelines.text_generator import TextGenerator
from keras_attention.runtime import compiled_steps
from keras_attention.support.errors import UserError
from keras_attention.tokenizers.special_tokens import END_ID, PAD_ID, START_ID, UNKNOWN_ID

generator = functools.cache(tiny_generator)
PROMPTS = ["A dog", "", "Two men are near a", "m"]


def log_softmax(logits):
    logits = np.asarray(logits, "float64")
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def written(one, prompt, max_tokens, temperature=0.0, penalty=1.0, seed=0, key=0, **cuts):
    """Ids and log probabilities, token by token, from the whole text each time; the window slides as it is told to."""
    ids = [END_ID, *one.tokenizer.encode([prompt.replace("\n", "␤")])[0].tolist()]
    start, read = len(ids), len(ids)
    log_probs = []
    while len(ids) < start + max_tokens and ids[-1] * (len(ids) > start) != END_ID:
        read = one.window // 2 if read > one.window or len(ids) == start and read >= one.window else read
        logits = np.asarray(one.model({"token_ids": np.array([ids[-read:]], "int32")}))[0, -1]
        scores = logits.copy()
        there = sorted({token for token in ids if token != END_ID})
        scores[there] = np.where(scores[there] > 0, scores[there] / penalty, scores[there] * penalty)
        scores[[PAD_ID, UNKNOWN_ID, START_ID]] = -np.inf
        token = int(scores.argmax())
        if temperature:
            choose = sampler(seed, 1, [key], **cuts)
            token = int(choose((scores / np.float32(temperature))[None], len(ids) - start)[0])
        log_probs.append(log_softmax(logits)[token])
        ids.append(token)
        read += 1
    return ids[start:], log_probs


SETTINGS = {
    "greedy": {},
    "penalty": {"repetition_penalty": 1.7},
    "draws": {"temperature": 1.3, "top_k": 17, "top_p": 0.9, "seed": 5},
}


@pytest.mark.parametrize(
    "kind", ["greedy", *(pytest.param(kind, marks=pytest.mark.thorough) for kind in list(SETTINGS)[1:])]
)
@pytest.mark.slow
def test_it_writes_as_if_it_read_all_again(kind):
    given = {"temperature": 0.0, **SETTINGS[kind]}
    generations = generator().generations(PROMPTS, max_tokens=11, **given)
    plain = {"penalty" if name == "repetition_penalty" else name: value for name, value in given.items()}
    for prompt, (one,) in zip(PROMPTS, generations, strict=True):
        ids, log_probs = written(generator(), prompt, 11, **plain)
        assert one.token_ids == ids
        np.testing.assert_allclose(one.log_probs, log_probs, atol=1e-4)
        assert one.finish == ("end" if ids[-1] == END_ID else "length")
        before = generator().token_ids_of([prompt])[0]
        assert one.text == generator().text_of([*before, *ids])[len(generator().text_of(before)) :]
    assert len({tuple(one.token_ids) for (one,) in generations}) > 1


@pytest.mark.thorough
def test_a_long_text_slides():
    """The prompt is longer than the window of 29 tokens, and the answer, too."""
    prompt = " ".join(TEXTS)
    (one,) = generator().generations(prompt, max_tokens=37, temperature=0.0)
    ids, log_probs = written(generator(), prompt, 37)
    assert len(ids) == 37
    assert one.token_ids == ids
    np.testing.assert_allclose(one.log_probs, log_probs, atol=1e-4)
    assert generator().generations([prompt, "A"], max_tokens=37, temperature=0.0)[0] == [one]  # whatever the company


@pytest.mark.thorough
def test_answers_differ_and_depend_on_the_seed_alone():
    draw = functools.partial(generator().generate, max_tokens=9, temperature=1.5)
    several = draw(PROMPTS[0], n=3)
    assert len(set(several)) == 3
    assert draw(PROMPTS, n=3)[0] == several
    assert draw(PROMPTS[0]) == several[0]
    assert draw(PROMPTS[0], seed=1) != several[0]


@pytest.mark.thorough
def test_pieces_together_are_the_text():
    for settings in ({"temperature": 0.0}, {"temperature": 1.5, "seed": 4}, {"stop": ["n", "s s"]}):
        for prompt in PROMPTS:
            pieces = list(generator().stream(prompt, max_tokens=13, **settings))
            assert "".join(pieces) == generator().generate(prompt, max_tokens=13, **settings)
            assert all(pieces)
    assert len(list(generator().stream(PROMPTS[0], max_tokens=13))) > 3


@pytest.mark.thorough
def test_it_ends_at_a_stop_text_and_does_not_show_it():
    (whole,) = generator().generations(PROMPTS[0], max_tokens=13)
    stop = whole.text[4:7]
    (one,) = generator().generations(PROMPTS[0], max_tokens=13, stop=["not there", stop])
    assert (one.text, one.finish) == (whole.text[: whole.text.index(stop)], "stop")
    assert one.token_ids == whole.token_ids[: len(one.token_ids)]
    assert len(one.token_ids) < 13
    assert list(generator().stream(PROMPTS[0], max_tokens=13, stop=whole.text[:3])) == []


@pytest.mark.slow
@pytest.mark.parametrize("level", [pytest.param("bpe", marks=pytest.mark.thorough), "char"])
def test_special_tokens_are_never_written_and_typed_ones_are_text(level):
    one = generator(level)
    ids = one.token_ids_of(["</s><s> <pad>"])[0]
    assert ids[0] == END_ID
    assert not {PAD_ID, START_ID, END_ID} & set(ids[1:])
    for (answer,) in one.generations(PROMPTS, max_tokens=13, temperature=3.0):
        assert not {PAD_ID, UNKNOWN_ID, START_ID} & set(answer.token_ids)
        assert "<" not in answer.text


@pytest.mark.thorough
def test_pieces_tell_tokens_and_what_else_was_probable():
    prompts, settings = PROMPTS[:2], {"max_tokens": 13, "temperature": 1.5, "seed": 4}
    expected = [one for each in generator().generations(prompts, n=2, **settings) for one in each]
    pieces = list(generator().pieces(prompts, n=2, details=True, **settings))
    for number, one in enumerate(expected):
        mine = [piece for piece in pieces if piece.number == number]
        assert "".join(piece.text for piece in mine) == one.text
        assert [piece.finish for piece in mine] == [""] * (len(mine) - 1) + [one.finish]
        details = [token for piece in mine for token in piece.details]
        assert sum(piece.tokens for piece in mine) == len(details) == len(one.token_ids)
        assert [token.text for token in details] == one.tokens
        for token, log_prob in zip(details, one.log_probs, strict=True):
            best = [value for _, value in token.alternatives]
            assert token.log_prob == log_prob <= best[0] + 1e-5
            assert best == sorted(best, reverse=True)
        assert [token.start for token in details] == sorted(token.start for token in details)
    ids = [END_ID, *generator().tokenizer.encode([prompts[0]])[0]]
    first = log_softmax(generator().model({"token_ids": np.array([ids], "int32")}))[0, -1]
    top = np.argsort(-first, kind="stable")[:5]
    tokens, values = zip(*pieces[0].details[0].alternatives, strict=True)
    assert list(tokens) == generator().tokenizer.tokens(top)
    np.testing.assert_allclose(values, first[top], atol=1e-4)


@pytest.mark.slow
def test_settings_and_lengths_share_few_programs(monkeypatch):
    """TensorFlow never frees a program, and each takes hundreds of the 65,530 memory mappings of a process."""
    monkeypatch.setattr(compiled_steps, "programs_fit", lambda: False)  # that only one is made shows without a compiler
    one = tiny_generator("char")
    for number, prompt in enumerate(["", "A dog", "A dog runs over", " ".join(TEXTS)]):
        for max_tokens in (1, 2, 3, 5, 11, 23):
            settings = {"top_k": number, "repetition_penalty": 1 + number / 7, "seed": max_tokens}
            draws = {"temperature": 0.1 + number, "top_p": 1 - number / 17}
            for sampling in ({"temperature": 0.0}, draws):
                one.generate(prompt, max_tokens=max_tokens, **settings | sampling)
    for step in one.steps.compiling():
        step()
    # Lengths 16 and 29, each to read; and to write greedily, with all tokens, and with the 16 best.
    assert one.steps.programs == 2 * (1 + 3)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.skipif(sys.platform != "linux", reason="has no limit")
def test_without_room_for_programs_it_writes_the_same(temperature, monkeypatch):
    settings = {"max_tokens": 11, "temperature": temperature, "top_p": 0.9, "seed": 3}
    expected = generator("char").generations(PROMPTS[0], **settings)
    monkeypatch.setattr(compiled_steps, "programs_fit", lambda: False)
    one, before = tiny_generator("char"), mappings()
    (generation,) = one.generations(PROMPTS[0], **settings)
    assert (generation.text, generation.token_ids) == (expected[0].text, expected[0].token_ids)
    np.testing.assert_allclose(generation.log_probs, expected[0].log_probs, atol=1e-4)
    assert mappings() < before + 100


def mappings():
    with open("/proc/self/maps") as file:
        return len(file.readlines())


def test_line_breaks_are_kept():
    one = generator("char")
    ids = one.token_ids_of(["A dog\nruns\r\n"])[0]
    assert one.text_of(ids) == "A dog\nruns\n"
    assert [score for score in one.score("\n\n").tokens] == ["\n", "\n"]
    assert tiny_generator("char", begins_with="line_break").token_ids_of(["A"])[0] == [ids[6], ids[1]]


def test_scores_are_log_probabilities_of_the_model():
    texts = [TEXTS[0], "", TEXTS[3]]
    for text, score in zip(texts, generator().score(texts), strict=True):
        ids = np.array([[END_ID, *generator().tokenizer.encode([text])[0]]], "int32")
        expected = log_softmax(generator().model({"token_ids": ids})[0])[np.arange(ids.shape[1] - 1), ids[0, 1:]]
        np.testing.assert_allclose(score.log_probs, expected, atol=1e-4)
        assert score.log_prob == pytest.approx(expected.sum(), abs=1e-3)
        assert "".join(score.tokens).replace("▁", " ").strip() == text
        if text:
            assert score.perplexity == pytest.approx(np.exp(-expected.mean()), rel=1e-3)
        else:
            assert score.perplexity is None


@pytest.mark.slow
def test_a_long_text_is_scored_in_parts():
    text = " ".join(TEXTS * 2)
    score = generator().score(text)
    ids = [END_ID, *generator().tokenizer.encode([text])[0]]
    assert len(ids) - 1 == len(score.log_probs) > 2 * generator().window
    half = generator().window // 2
    for t in range(1, len(ids)):
        start = 0 if t < generator().window else ((t - generator().window) // half + 1) * half
        logits = generator().model({"token_ids": np.array([ids[start:t]], "int32")})[0, -1]
        assert score.log_probs[t - 1] == pytest.approx(log_softmax(logits)[ids[t]], abs=1e-4)
        assert t - start >= min(t, half)


@pytest.mark.thorough
def test_score_and_generation_agree():
    (one,) = generator().generations("", max_tokens=13, temperature=1.0)
    ids = [token for token in one.token_ids if token != END_ID]
    text = generator().text_of([END_ID, *ids])
    if generator().tokenizer.encode([text])[0].tolist() == ids:  # else the text has another division into pieces
        np.testing.assert_allclose(generator().score(text).log_probs, one.log_probs[: len(ids)], atol=1e-4)


@pytest.mark.slow
def test_an_entry_of_it_is_saved_and_loaded(tmp_path):
    one = generator("char")
    one.save(tmp_path / "mine", language="fr")
    loaded = ka.load(tmp_path / "mine")
    assert loaded.config_keys() == {**one.config_keys(), "language": "fr"}
    assert loaded.generate(PROMPTS, max_tokens=7) == one.generate(PROMPTS, max_tokens=7)
    assert failing_examples(tmp_path / "mine") == (2, [])
    assert "with learned positions" in (tmp_path / "mine" / "CARD.md").read_text()


def test_the_attention_of_a_text_is_shown():
    (answer,) = generator().attention_view("A dog\nruns").data["answers"]
    (shown,) = answer["maps"]
    ids = [END_ID, *generator().tokenizer.encode(["A dog␤runs"])[0]]
    assert shown["rows"] == shown["columns"] == [t.replace("␤", "\n") for t in generator().tokenizer.tokens(ids)]
    assert (shown["layers"], shown["heads"]) == (SIZES["num_layers"], SIZES["num_heads"])
    weights = np.frombuffer(base64.b64decode(shown["weights"]), "uint8").reshape(2, 1, len(ids), len(ids))
    expected = generator().model({"token_ids": np.array([ids], "int32")}, return_attention_scores=True)[1]
    np.testing.assert_allclose(weights / 255, expected[0], atol=0.003)
    text, window = " ".join(TEXTS * 3), generator().window
    long = generator().attention_view(text).data
    assert "Only its end" in long["note"]
    tokens = generator().tokenizer.tokens(generator().tokenizer.encode([text])[0])
    assert long["answers"][0]["maps"][0]["rows"] == tokens[-window:] != tokens[:window]


def test_a_network_without_attention_is_an_error():
    keras.utils.set_random_seed(1)
    model = new_language_model("lstm", SIZES | {"vocabulary_size": tokenizer().vocabulary_size})
    other = TextGenerator(model, tokenizer())
    assert not other.has_attention
    with pytest.raises(UserError, match="no attention"):
        other.attention_view("A dog")


@pytest.mark.slow
def test_a_reply_has_the_fields_of_its_schema():
    (answer,) = generator().reply(prompts=["A"], n=2, max_tokens=3)
    assert [set(one) for one in answer["generations"]] == [{"text", "finish", "log_prob"}] * 2
    assert set(answer) == set(generator().answer_fields)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 0}, "`max_tokens` must be an integer from 1 to 100,000. Received: max_tokens=0"),
        ({"temperature": -1.0}, "`temperature` must be a number from 0 to 100. Received: temperature=-1.0"),
        ({"temperature": float("nan")}, "`temperature` must be"),
        ({"top_p": 0}, "`top_p` must be greater than 0"),
        ({"top_k": 2.5}, "`top_k` must be an integer"),
        ({"repetition_penalty": 0}, "`repetition_penalty` must be a number from 0.01 to 100"),
        ({"seed": -1}, "`seed` must be an integer"),
        ({"n": 65}, "`n` must be an integer from 1 to 64. Received: n=65"),
        ({"stop": [""]}, "`stop` must be up to 16 texts, none of them empty"),
        ({"beam": 3}, "`beam` is not a setting. Expected: n, max_tokens"),
    ],
)
def test_a_wrong_setting_is_named(settings, message):
    with pytest.raises(UserError, match=message):
        generator().generate("A", **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit", [{"temperature": 1e-40}, {"temperature": 1e-30}, {"temperature": 100, "top_p": 1e-50}, {"top_k": 1}]
)
def test_settings_that_leave_one_token_are_greedy(limit):
    greedy = generator().generations(PROMPTS, max_tokens=7, temperature=0)
    drawn = generator().generations(PROMPTS, max_tokens=7, seed=3, **limit)
    assert [one.token_ids for (one,) in drawn] == [one.token_ids for (one,) in greedy]


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.01, 100])
def test_no_repetition_penalty_gives_a_special_token(penalty):
    for settings in ({"temperature": 0}, {"temperature": 100, "top_k": 2**31 - 1, "top_p": 1 - 1e-12}):
        for (one,) in generator().generations(PROMPTS, max_tokens=11, repetition_penalty=penalty, **settings):
            assert not {PAD_ID, START_ID, UNKNOWN_ID} & {*one.token_ids}
