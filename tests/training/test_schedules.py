import math

import keras
import pytest

from keras_attention.training.schedules import CosineDecay, InverseSquareRoot, make_schedule


@pytest.mark.parametrize("step", [0, 1, 6, 7, 12, 13, 1000])
def test_inverse_square_root_equals_its_equation(step):
    n, warm_up = step + 1, 13
    # Vaswani et al., equation 3: proportional to min(n^-0.5, n * warm_up^-1.5), and `peak` at n = warm_up.
    expected = 0.005 * min(n**-0.5, n * warm_up**-1.5) * warm_up**0.5
    assert float(InverseSquareRoot(0.005, warm_up)(step)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("floor", [0.0, 0.001])
def test_cosine_goes_from_peak_to_floor(floor):
    schedule = CosineDecay(0.005, 11, 31, floor=floor)
    assert float(schedule(0)) == pytest.approx(0.005 / 11)
    assert float(schedule(10)) == pytest.approx(0.005)
    assert float(schedule(20)) == pytest.approx((0.005 + floor) / 2, rel=1e-5)
    quarter = floor + (0.005 - floor) * (1 + math.cos(math.pi / 4)) / 2
    assert float(schedule(15)) == pytest.approx(quarter, rel=1e-5)
    for step in (30, 31, 1009):
        assert float(schedule(step)) == pytest.approx(floor, abs=1e-9)


def test_cosine_without_warm_up_starts_below_its_peak_by_one_step():
    expected = 0.5 * (1 + math.cos(math.pi / 17))
    assert float(CosineDecay(1.0, 0, 17)(0)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("schedule", [InverseSquareRoot(0.3, 7), CosineDecay(0.3, 7, 19, floor=0.1)])
def test_an_optimizer_saves_and_loads_it(schedule):
    optimizer = keras.optimizers.Adam(schedule)
    loaded = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert loaded._learning_rate.get_config() == schedule.get_config()
    assert keras.saving.get_registered_name(type(schedule)) == f"keras_attention>{type(schedule).__name__}"
    assert [float(loaded._learning_rate(step)) for step in range(23)] == [float(schedule(s)) for s in range(23)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InverseSquareRoot(0.0, 5), "peak=0.0"),
        (lambda: InverseSquareRoot(0.1, 0), "warmup_steps=0"),
        (lambda: CosineDecay(0.1, -1, 5), "warmup_steps=-1"),
        (lambda: CosineDecay(0.1, 7, 7), "total_steps=7, warmup_steps=7"),
        (lambda: CosineDecay(0.1, 2, 7, floor=0.2), "floor=0.2, peak=0.1"),
        (lambda: make_schedule("linear", 0.1, 2, 7), "name='linear'"),
    ],
)
def test_arguments_out_of_range_are_named(make, message):
    with pytest.raises(ValueError, match=f"Received: .*{message}"):
        make()


def test_a_schedule_is_made_by_its_name():
    cosine = make_schedule("cosine", 0.3, 7, 100)
    assert cosine.get_config() == CosineDecay(0.3, 7, 100, floor=0.006).get_config()
    assert make_schedule("inverse_square_root", 0.3, 7, 100).get_config() == InverseSquareRoot(0.3, 7).get_config()


@pytest.mark.parametrize(("total_steps", "warmup_steps"), [(9, 4), (2, 1), (1, 1)])
def test_a_short_training_warms_up_for_half_of_it(total_steps, warmup_steps):
    for name in ("cosine", "inverse_square_root"):
        assert make_schedule(name, 0.3, 1000, total_steps).warmup_steps == warmup_steps
