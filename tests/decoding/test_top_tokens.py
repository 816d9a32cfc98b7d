import numpy as np
import pytest
from keras import ops
from layer_checks import EXECUTIONS

from keras_attention.decoding.sampling import MANY, top_tokens

pytestmark = pytest.mark.sampled(3)


def expected(values, count):
    order = np.argsort(-values, axis=-1, kind="stable")[:, :count]
    return np.take_along_axis(values, order, axis=-1), order


@pytest.mark.parametrize("execution", ["eager", "xla"])
@pytest.mark.parametrize("columns", [7, 1031, 8009])
@pytest.mark.parametrize("count", [1, 5, MANY + 1])
def test_equals_a_stable_sort_with_many_ties(execution, columns, count):
    values = np.random.default_rng(columns).integers(-3, 3, (3, columns)).astype("float32")
    count = min(count, columns)
    top, indices = EXECUTIONS[execution](lambda: top_tokens(ops.convert_to_tensor(values), count))()
    top_expected, indices_expected = expected(values, count)
    np.testing.assert_array_equal(top, top_expected)
    np.testing.assert_array_equal(indices, indices_expected)
    assert indices.dtype == "int32"


@pytest.mark.parametrize("execution", ["eager", "xla"])
@pytest.mark.parametrize("columns", [40, 1031, 8000, 8009])
@pytest.mark.parametrize("count", [1, 5, MANY + 1])
def test_excluded_tokens_count_as_minus_infinity(execution, columns, count):
    values = np.random.default_rng(columns).integers(-3, 3, (3, columns)).astype("float32")
    never = [0, 2, columns // 2, columns - 1]
    values[:, never] = 9.0  # larger than all others
    values[1, columns // 2 - 5 : columns // 2 + 40] += 6.0  # the best ones are their neighbours
    top, indices = EXECUTIONS[execution](lambda: top_tokens(ops.convert_to_tensor(values), count, never))()
    values[:, never] = -np.inf
    top_expected, indices_expected = expected(values, count)
    np.testing.assert_array_equal(top, top_expected)
    np.testing.assert_array_equal(indices, indices_expected)


@pytest.mark.parametrize("columns", [7, 1031, 8009])
@pytest.mark.parametrize("finite", [0, 1, 3])
def test_no_entry_is_taken_twice_where_the_rest_is_minus_infinity(columns, finite):
    values = np.full((1, columns), -np.inf, "float32")
    values[0, columns - finite :] = np.arange(finite)
    top, indices = top_tokens(ops.convert_to_tensor(values), 5)
    assert np.asarray(top)[0].tolist() == [*range(finite)][::-1] + [-np.inf] * (5 - finite)
    assert np.asarray(indices)[0, :finite].tolist() == [columns - 1 - place for place in range(finite)]
    assert (np.asarray(indices) < columns).all()
    assert len(set(np.asarray(indices)[0].tolist())) == 5


@pytest.mark.parametrize("columns", [7, 8009])
def test_nan_gives_indices_that_exist(columns):
    _, indices = top_tokens(ops.full((2, columns), float("nan")), 3)
    assert (np.asarray(indices) < columns).all()
