import numpy as np
import pytest
from layer_checks import assert_all_close, check_executions_agree, check_gradients, check_saving
from layer_checks import random_array as array

from keras_attention.layers import GridPositionalEmbedding, PatchEmbedding
from keras_attention.layers.patch_embedding import patch_grid

B, D, CHANNELS = 3, 11, 5
IMAGE, PATCH = (6, 14), (2, 7)  # a grid of 3 x 2
LENGTH, PIECE = 13 * 2, 13


def made(layer, inputs):
    layer.build(inputs.shape)
    for i, weight in enumerate(layer.weights):
        weight.assign(array(*weight.shape, seed=i))
    return layer


def test_patches_of_images_equal_the_equation():
    images = array(B, *IMAGE, CHANNELS, seed=7)
    layer = made(PatchEmbedding(D, PATCH), images)
    kernel, bias = (np.asarray(weight, "float64") for weight in layer.weights)
    expected = np.zeros((B, 6, D))
    for b in range(B):
        for row in range(3):
            for column in range(2):
                values = []
                for y in range(2):
                    for x in range(7):
                        values += list(images[b, 2 * row + y, 7 * column + x])
                expected[b, 2 * row + column] = np.array(values) @ kernel + bias
    assert_all_close([layer(images)], [expected], 1e-5)
    assert layer.compute_output_shape((None, *IMAGE, CHANNELS)) == (None, 6, D)


def test_patches_of_series_equal_the_equation():
    series = array(B, LENGTH, CHANNELS, seed=7)
    layer = made(PatchEmbedding(D, (PIECE,)), series)
    kernel, bias = (np.asarray(weight, "float64") for weight in layer.weights)
    expected = [[series[b, n * PIECE : (n + 1) * PIECE].ravel() @ kernel + bias for n in range(2)] for b in range(B)]
    assert_all_close([layer(series)], [np.array(expected)], 1e-5)
    assert layer.compute_output_shape((None, None, CHANNELS)) == (None, None, D)


def by_bilinear_interpolation(table, grid, new_grid):
    """In loops: the value at a point between the centres of four places; outside of them, that of the border."""
    table = table.reshape(*grid, -1)
    positions = np.zeros((*new_grid, table.shape[-1]))
    for row in range(new_grid[0]):
        for column in range(new_grid[1]):
            at = [
                (place + 0.5) * old / new - 0.5 for place, old, new in zip((row, column), grid, new_grid, strict=True)
            ]
            low = [int(np.floor(value)) for value in at]
            for dy in (0, 1):
                for dx in (0, 1):
                    y, x = low[0] + dy, low[1] + dx
                    share = (1 - abs(at[0] - y)) * (1 - abs(at[1] - x))
                    y, x = np.clip(y, 0, grid[0] - 1), np.clip(x, 0, grid[1] - 1)
                    positions[row, column] += share * table[y, x]
    return positions.reshape(-1, table.shape[-1])


@pytest.mark.parametrize("new_grid", [(3, 5), (7, 11), (3, 11), (13, 5)])
def test_positions_of_another_grid_are_interpolated(new_grid):
    inputs = array(B, 15, D, seed=3)
    layer = made(GridPositionalEmbedding((3, 5)), inputs)
    table = np.asarray(layer.embeddings)
    assert_all_close([layer(inputs)], [inputs + table], 1e-6)
    others = array(B, new_grid[0] * new_grid[1], D, seed=5)
    expected = others + by_bilinear_interpolation(table, (3, 5), new_grid)
    assert_all_close([layer(others, grid=new_grid)], [expected], 1e-5)


def test_positions_of_longer_series_are_interpolated():
    inputs = array(B, 3, D, seed=3)
    layer = made(GridPositionalEmbedding((3,)), inputs)
    others = array(B, 7, D, seed=5)
    expected = others + by_bilinear_interpolation(np.asarray(layer.embeddings), (3, 1), (7, 1))
    assert_all_close([layer(others, grid=(7,))], [expected], 1e-5)


@pytest.mark.parametrize(
    ("kind", "settings", "inputs"),
    [
        (PatchEmbedding, {"hidden_dim": D, "patch_size": PATCH}, array(B, *IMAGE, CHANNELS, seed=7)),
        (PatchEmbedding, {"hidden_dim": D, "patch_size": (PIECE,)}, array(B, LENGTH, CHANNELS, seed=7)),
        (GridPositionalEmbedding, {"grid": (3, 5)}, array(B, 15, D, seed=7)),
    ],
)
def test_gradients_executions_and_saving(kind, settings, inputs, tmp_path):
    check_gradients(lambda: kind(**settings, dtype="float64"), {"inputs": inputs})
    check_executions_agree(kind(**settings), {"inputs": inputs})
    check_saving(kind, settings, {"inputs": inputs}, tmp_path)


def test_errors_name_the_value():
    with pytest.raises(ValueError, match=r"sizes=\(6, 13\), patch_size=\(2, 7\)"):
        patch_grid((6, 13), PATCH)
    with pytest.raises(ValueError, match="patch_size=7"):
        PatchEmbedding(D, 7)
    with pytest.raises(ValueError, match="hidden_dim=0"):
        PatchEmbedding(0, PATCH)
    with pytest.raises(ValueError, match=r"inputs.shape=\(3, 26, 5\)"):
        PatchEmbedding(D, PATCH)(array(B, LENGTH, CHANNELS, seed=7))
    with pytest.raises(ValueError, match=r"grid=\(3, 0\)|grid=0"):
        GridPositionalEmbedding((3, 0))
    with pytest.raises(ValueError, match=r"inputs.shape=\(3, 15, 11\)"):
        GridPositionalEmbedding((3, 5))(array(B, 15, D, seed=3), grid=(3, 7))
