"""The settings that all recipes share."""

from keras_attention.training.run import RunSettings


def test_the_folder_of_a_run():
    assert RunSettings().folder("dates") == "runs/dates"
    assert RunSettings(smoke=True).folder("dates") == "runs/dates_smoke"
    assert RunSettings(smoke=True, out="mine").folder("dates") == "mine"
