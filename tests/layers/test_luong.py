import equations
import keras
import numpy as np
import pytest
from layer_checks import TOLERANCES, assert_all_close, check_example, outputs_and_gradients, random_array

from keras_attention.layers import LuongAttention

pytestmark = pytest.mark.sampled(2)

B, T, S, DQ, DK, DV, UNITS, WINDOW = 2, 3, 7, 5, 13, 11, 17, 2
SCORES = ("dot", "general", "concat")
MODES = ("global", "local_m", "local_p")
PROJECTIONS = ("query_projection", "key_projection", "score_projection", "position_hidden", "position_projection")


def make_inputs(score, dtype="float32"):
    mask = np.random.default_rng(1).random((B, T, S)) < 0.7
    mask[1, 2] = False
    arrays = {
        "query": random_array(B, T, DQ, seed=2),
        "value": random_array(B, S, DV, seed=3),
        "key": random_array(B, S, DQ if score == "dot" else DK, seed=4),
    }
    compute_dtype = keras.DTypePolicy(dtype).compute_dtype
    return {**{name: array.astype(compute_dtype) for name, array in arrays.items()}, "attention_mask": mask}


def expected_outputs(layer, query, key, value, attention_mask, position=None):
    """The paper's equations with the weights of `layer`."""
    matrices = {
        name: np.asarray(getattr(layer, name).kernel, "float64").T for name in PROJECTIONS if hasattr(layer, name)
    }
    score = {
        "dot": equations.dot_score,
        "general": lambda q, k: equations.general_score(q, k, matrices["key_projection"]),
        "concat": lambda q, k: equations.concat_score(
            q, k, matrices["query_projection"], matrices["key_projection"], matrices["score_projection"][0]
        ),
    }[layer.score]
    if position is None and layer.mode == "local_m":
        position = np.broadcast_to(np.arange(T), (B, T))
    if position is None and layer.mode == "local_p":
        W_p, v_p = matrices["position_hidden"], matrices["position_projection"][0]
        lengths = attention_mask.sum(axis=-1)
        position = equations.predicted_position(np.asarray(query, "float64"), lengths, W_p, v_p)
    gaussian = layer.mode == "local_p"
    return equations.luong_attention(query, key, value, attention_mask, score, position, layer.window, gaussian)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("score", SCORES)
def test_it_equals_the_equation(score, mode, dtype):
    layer = LuongAttention(score, mode, window=WINDOW, units=UNITS, dtype=dtype)
    inputs = make_inputs(score, dtype)
    outputs = layer(**inputs, return_attention_scores=True)
    assert_all_close(outputs, expected_outputs(layer, **inputs), TOLERANCES[dtype])


@pytest.mark.parametrize("mode", ["local_m", "local_p"])
@pytest.mark.parametrize("position", [[[0, 3, 6], [5, 2, 1]], [[0.25, 3.5, 6.0], [7.75, -1.0, 2.5]]])
def test_the_aligned_position_can_be_set(mode, position):
    layer, inputs = LuongAttention(mode=mode, window=WINDOW), make_inputs("general")
    position = np.array(position)
    outputs = layer(**inputs, position=position, return_attention_scores=True)
    assert_all_close(outputs, expected_outputs(layer, **inputs, position=position), 1e-5)


@pytest.mark.parametrize("mode", ["local_m", "local_p"])
def test_a_decoder_loop_equals_the_whole(mode):
    layer, inputs = LuongAttention(mode=mode, window=WINDOW), make_inputs("general")
    whole = layer(**inputs, return_attention_scores=True)
    inputs["projected_key"] = layer.project_keys(inputs.pop("key"))
    for t in range(T):
        step = {
            **inputs,
            "query": inputs["query"][:, t : t + 1],
            "attention_mask": inputs["attention_mask"][:, t : t + 1],
        }
        position = np.full((1, 1), t) if mode == "local_m" else None
        outputs = layer(**step, position=position, return_attention_scores=True)
        assert_all_close(outputs, [tensor[:, t : t + 1] for tensor in whole], 1e-6)


def test_positions_are_exact_in_half_precision():
    """Position 2049 does not exist in float16, nor 257 in bfloat16."""
    query, value = random_array(1, 1, DQ, seed=2), random_array(1, 2053, DQ, seed=3)
    layer = LuongAttention("dot", "local_m", window=1, dtype="mixed_float16")
    _, weights = layer(query, value, position=np.array([[2049.0]], "float32"), return_attention_scores=True)
    assert np.flatnonzero(np.asarray(weights)).tolist() == [2048, 2049, 2050]


@pytest.mark.parametrize("execution", ["eager", "graph", "xla"])
@pytest.mark.parametrize("mode", ["local_m", "local_p"])
@pytest.mark.parametrize("score", SCORES)
def test_a_window_in_padding_gives_zero(score, mode, execution):
    inputs = make_inputs(score)
    inputs["attention_mask"] = np.broadcast_to(np.arange(S) < 2, (B, T, S))
    inputs["position"] = np.array([[5, 6, 60]])
    layer = LuongAttention(score, mode, window=WINDOW)
    outputs, gradients = outputs_and_gradients(layer, {**inputs, "return_attention_scores": True}, execution)
    for array in outputs + gradients:
        assert (array == 0).all()


@pytest.mark.parametrize("score", ["dot", "general"])
def test_it_agrees_with_keras_on_projected_keys(score):
    layer, inputs = LuongAttention(score), make_inputs(score)
    mask = np.arange(S)[None, :] < np.array([[S], [3]])  # (B, S)
    outputs = layer(**{**inputs, "attention_mask": mask[:, None, :]}, return_attention_scores=True)
    projected = [inputs["query"], inputs["value"], layer.project_keys(inputs["key"])]
    expected = keras.layers.Attention()(projected, mask=[None, mask], return_attention_scores=True)
    assert_all_close(outputs, expected, 1e-5)


def test_scores_beyond_the_range_of_float16():
    layer = LuongAttention("dot", dtype="mixed_float16")
    query, key = np.full((1, 1, DQ), 200.0), np.array([[[190.0] * DQ, [-190.0] * DQ]])
    context, weights = layer(query, key, return_attention_scores=True)
    np.testing.assert_array_equal(weights, [[[1, 0]]])
    np.testing.assert_array_equal(context, key[:, :1])


def test_rows_of_local_p_sum_to_less_than_one():
    _, weights = LuongAttention(mode="local_p", window=WINDOW)(**make_inputs("general"), return_attention_scores=True)
    rows = np.asarray(weights).sum(axis=-1)
    assert (rows < 1).all()
    assert rows.max() > 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"score": "product"}, "`score` must be one of .*'concat'.*Received: score=product"),
        ({"mode": "local"}, "`mode` must be one of .*'local_p'.*Received: mode=local"),
        ({"window": 0}, "`window` must be a positive integer. Received: window=0"),
        ({"window": 1.5}, "Received: window=1.5"),
        ({"units": -1}, "`units` must be a positive integer or None. Received: units=-1"),
        ({"dropout": 2}, r"`dropout` must be in \[0, 1\). Received: dropout=2"),
    ],
)
def test_a_wrong_argument_is_named(settings, text):
    with pytest.raises(ValueError, match=text):
        LuongAttention(**settings)


def test_wrong_inputs_are_named():
    inputs = make_inputs("general")
    with pytest.raises(ValueError, match="same width. Received: query width 5, key width 13"):
        LuongAttention("dot")(**inputs)
    with pytest.raises(ValueError, match=r"`position` must have two axes.*Received: position.shape=\(3,\)"):
        LuongAttention(mode="local_m")(**inputs, position=np.arange(T))


def test_the_example_runs():
    inputs = make_inputs("general")
    check_example(LuongAttention, query=inputs["query"], value=inputs["value"], mask=inputs["attention_mask"])
