from dataclasses import dataclass

import pytest

from keras_attention.training.flags import parse_config, setting


@dataclass
class Config:
    data: str = setting("dates", "what to train on")
    epochs: int = setting(3, "passes")
    ema: float | None = setting(None, "average")
    smoke: bool = setting(False, "tiny")
    jit_compile: bool | None = setting(None, "compiled; default: where it helps")


def presets(config):
    return {"epochs": 1} if config.smoke else {}


def test_every_setting_is_a_flag_of_its_type():
    config = parse_config(Config, "", ["--data", "x.tsv", "--epochs", "7", "--ema", "0.5", "--smoke"])
    assert config == Config("x.tsv", 7, 0.5, True)
    assert parse_config(Config, "", []) == Config()
    assert parse_config(Config, "", ["--no-smoke"]).smoke is False
    assert [parse_config(Config, "", given).jit_compile for given in ([], ["--no-jit_compile"])] == [None, False]


def test_a_preset_gives_way_to_the_command_line():
    assert parse_config(Config, "", ["--smoke"], presets).epochs == 1
    assert parse_config(Config, "", ["--smoke", "--epochs", "5"], presets).epochs == 5
    assert parse_config(Config, "", [], presets).epochs == 3


@pytest.mark.parametrize("arguments", [["--epoch", "5"], ["--epochs", "many"], ["--colour", "red"], ["stray"]])
def test_an_unknown_flag_or_value_ends_with_code_2_and_its_name(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        parse_config(Config, "", arguments)
    assert stopped.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert arguments[-1] in lines[0] or arguments[0] in lines[0]
