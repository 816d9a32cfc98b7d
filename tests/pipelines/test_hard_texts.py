"""Any text gets an answer of finite numbers or one named error, soon; what is cut is said to be cut."""

import time
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from pipelines.hard_texts import ANY_TEXT, CONTROL, NO_TEXTS, WRITTEN, answer
from zoo.tiny_bert import tiny_classifier, tiny_mask_filler, tokenizer
from zoo.tiny_entry import tiny_parts, tiny_translator

from keras_attention.inputs.token_sequences import TruncatedText
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError

MOST_SECONDS = 2.0
MAKE = {
    "translator": tiny_translator,
    "classifier": tiny_classifier,
    "classifier of pairs": lambda: tiny_classifier("multilabel", pair=True),
    "filler": tiny_mask_filler,
}
CUT = {name for name in WRITTEN if "million" in name} - {"a million blanks"}
quick = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", params=MAKE)
def pipeline(request):
    return MAKE[request.param]()


@pytest.fixture(scope="module")
def compiled(pipeline):
    """A pipeline that has compiled what it needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TruncatedText)
        for text in ("a [MASK]", "a dog runs over green grass and a [MASK]", "dog " * 99, WRITTEN["control tokens"]):
            answer(pipeline, text)
    return pipeline


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
@pytest.mark.parametrize("name", WRITTEN)
def test_written_texts(compiled, name):
    begun = time.process_time()
    actual = answer(compiled, WRITTEN[name])
    assert time.process_time() - begun <= MOST_SECONDS
    unreadable = name in ("half of a surrogate pair", "bytes that were no UTF-8")
    for way, outcome in actual.items():
        no_mask = way == "fill_mask" and "[MASK]" not in WRITTEN[name].upper() and not is_blank(WRITTEN[name])
        if unreadable or no_mask or (way == "fill_mask" and outcome == "refused"):
            assert outcome == "refused"
        elif name in CUT:
            assert outcome is True
        else:
            assert outcome in (True, False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::keras_attention.inputs.token_sequences.TruncatedText")
@quick
@given(text=ANY_TEXT)
def test_any_text(compiled, text):
    begun = time.process_time()
    answer(compiled, text)
    assert time.process_time() - begun <= MOST_SECONDS


@pytest.mark.parametrize("value", NO_TEXTS, ids=repr)
def test_values_other_than_texts_are_refused(pipeline, value):
    assert set(answer(pipeline, value).values()) == {"refused"}


@pytest.mark.slow
def test_truncation_warns(compiled):
    with pytest.warns(TruncatedText):
        answer(compiled, WRITTEN["a million characters"])


@pytest.mark.parametrize("control", CONTROL)
def test_a_typed_control_token_is_text(control):
    pieces = tokenizer()
    special = {pieces.pad_id, pieces.start_id, pieces.end_id, pieces.mask_id}
    assert not special & set(pieces.encode([f"a {control} dog"])[0].tolist())
    _, source, target = tiny_parts()
    for translating in (source, target):
        assert not {0, 2, 3} & set(translating.encode([f"a {control} dog"])[0].tolist())


def test_a_mask_is_no_mask_to_a_classifier_even_on_its_page():
    with pytest.raises(UserError, match="at most 18 tokens"):
        tiny_translator().attention_view("A dog runs.", target="1" * 1_000)
    page = tiny_classifier().attention_view("a [MASK]").html
    assert '"[MASK]"' not in page.split('"maps"')[1]
