import json
import re
import time
from dataclasses import dataclass
from itertools import pairwise

import pytest

from keras_attention.support.errors import UserError
from keras_attention.support.flags import parse_config, read_settings, setting


@dataclass
class Config:
    data: str = setting("dates", "what to train on")
    epochs: int = setting(3, "passes")
    ema: float | None = setting(None, "average")
    smoke: bool = setting(False, "tiny")
    jit_compile: bool | None = setting(None, "compiled; default: where it helps")
    extra: tuple[str, ...] = setting((), "further files")
    cell: str = setting("gru", "kind of cell", ("gru", "lstm"))
    start_from: str = setting("", "a trained model", name="from")
    validation_split: float = setting(0.1, "share of the rows", aliases=("validation_share",))


def presets(config):
    return {"epochs": 1} if config.smoke else {}


def test_every_setting_is_a_flag_of_its_type():
    config = parse_config(Config, "", ["--data", "x.tsv", "--epochs", "7", "--ema", "0.5", "--smoke"])
    assert config == Config("x.tsv", 7, 0.5, True)
    assert parse_config(Config, "", []) == Config()
    assert parse_config(Config, "", ["--no-smoke"]).smoke is False
    assert [parse_config(Config, "", given).jit_compile for given in ([], ["--no-jit-compile"])] == [None, False]


def test_a_preset_gives_way_to_the_command_line():
    assert parse_config(Config, "", ["--smoke"], presets).epochs == 1
    assert parse_config(Config, "", ["--smoke", "--epochs", "5"], presets).epochs == 5
    assert parse_config(Config, "", [], presets).epochs == 3


def test_none_is_a_value_of_settings_that_may_be_left_out(capsys):
    def preset(config):
        return {"ema": 0.7}

    assert parse_config(Config, "", [], preset).ema == 0.7
    assert parse_config(Config, "", ["--ema", "none"], preset).ema is None
    with pytest.raises(SystemExit):
        parse_config(Config, "", ["--ema", "no"])
    assert "invalid float value: 'no'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        parse_config(Config, "", ["--epochs", "none"])


@pytest.mark.parametrize("arguments", [["--epoch", "5"], ["--epochs", "many"], ["--colour", "red"], ["stray"]])
def test_an_unknown_flag_or_value_ends_with_code_2_and_its_name(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        parse_config(Config, "", arguments)
    assert stopped.value.code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert arguments[-1] in lines[0] or arguments[0] in lines[0]


def test_underscores_are_aliases_of_hyphens():
    for flag, value in (("--jit-compile", True), ("--jit_compile", True), ("--no-jit_compile", False)):
        assert parse_config(Config, "", [flag]).jit_compile is value


def test_the_nearest_flag_is_suggested(capsys):
    with pytest.raises(SystemExit):
        parse_config(Config, "", ["--jit-compille"])
    assert "Did you mean --jit-compile?" in capsys.readouterr().err


def test_earlier_names_of_a_flag_work_but_are_not_in_the_help(capsys):
    for flag in ("--from=a", "--start-from=a", "--start_from=a"):
        assert parse_config(Config, "", [flag]).start_from == "a"
    for flag in ("--validation-split", "--validation_split", "--validation-share", "--validation_share"):
        assert parse_config(Config, "", [flag, "0.3"]).validation_split == 0.3
    assert (parse_config(Config, "", []).start_from, parse_config(Config, "", []).validation_split) == ("", 0.1)
    with pytest.raises(SystemExit):
        parse_config(Config, "", ["--help"])
    shown = capsys.readouterr().out
    assert ("--from STR" in shown, "--validation-split FLOAT" in shown) == (True, True)
    assert ("--start" in shown, "--validation-share" in shown) == (False, False)


@pytest.mark.parametrize(
    ("flag", "nearest"),
    [("--form=a", "--from"), ("--start-form=a", "--from"), ("--validation-shar=1", "--validation-split")],
)
def test_the_name_that_is_shown_is_suggested(flag, nearest, capsys):
    with pytest.raises(SystemExit):
        parse_config(Config, "", [flag])
    assert f"Did you mean {nearest}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    ["from: a\nvalidation-split: 0.3", "start_from: a\nvalidation_share: 0.3", "start-from: a\nvalidation_split: 0.3"],
)
def test_a_file_may_have_earlier_names(tmp_path, text):
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    assert read_settings(path, Config) == {"start_from": "a", "validation_split": 0.3}
    (tmp_path / "config.json").write_text(json.dumps({"format_version": 1}))
    earlier = {"training": {"start_from": "a", "validation_share": 0.3}}
    (tmp_path / "metrics.json").write_text(json.dumps(earlier))
    assert read_settings(tmp_path / "config.json", Config) == {"start_from": "a", "validation_split": 0.3}


def test_a_settings_file_overrides_presets_and_flags_override_it(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text("epochs: 7\nema: 1e-3\njit-compile: false\nextra: [a.tsv, b.tsv]\ncell: lstm\n")
    file = ["--config", str(path)]
    assert parse_config(Config, "", file) == Config("dates", 7, 0.001, False, False, ("a.tsv", "b.tsv"), "lstm")
    assert parse_config(Config, "", [*file, "--smoke"], presets).epochs == 7
    assert parse_config(Config, "", [*file, "--epochs=11"]).epochs == 11
    path.write_text("extra: a.tsv")
    assert parse_config(Config, "", file).extra == ("a.tsv",)
    (tmp_path / "windows.json").write_text('{"epochs": 5}\r\n', encoding="utf-8-sig")  # as by Notepad
    assert read_settings(tmp_path / "windows.json", Config) == {"epochs": 5}
    path.write_text("smoke: true")
    assert parse_config(Config, "", file, presets).epochs == 1


def test_the_settings_of_an_earlier_model_come_from_beside_its_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"format_version": 1, "architecture": "Transformer"}))
    metrics = {"training": {"epochs": 13, "ema": 1e-05, "history": [{"loss": 1.0}], "contrastive": True}, "scores": []}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    assert read_settings(tmp_path / "config.json", Config) == {"epochs": 13, "ema": 1e-05}
    metrics["training"] = {"epochs": None, "ema": None}  # as a command stores what it chose while it ran
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    assert read_settings(tmp_path / "config.json", Config) == {"ema": None}


# Nine lines, of 10**9 values in all.
LAUGHS = "a: &a [" + ", ".join(["lol"] * 10) + "]\n"
LAUGHS += "".join(f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in pairwise("abcdefghi"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch: 3", "there is no setting 'epoch'. Did you mean epochs?"),
        ("epochs: many", "`epochs` must be int. Found: 'many'"),
        ("epochs: 2.5", "`epochs` must be int. Found: 2.5"),
        ("epochs: .inf", "`epochs` must be int. Found: inf"),
        ("epochs: true", "`epochs` must be int. Found: True"),
        ("epochs: null", "`epochs` must be int. Found: None"),
        ("smoke: 1", "`smoke` must be bool. Found: 1"),
        ("data: no", "`data` must be str. Found: False"),
        ("extra: [1]", "`extra` must be a list of str. Found: [1]"),
        ("cell: rnn", "`cell` must be one of gru, lstm. Found: 'rnn'"),
        ("fro: a", "there is no setting 'fro'. Did you mean from?"),
        ("from: 1", "`from` must be str. Found: 1"),
        ("from: a\nstart_from: b", "has 'from' twice, the second time as 'start_from'"),
        ("- epochs", "must hold settings"),
        ("a: [", "cannot be read"),
        (None, "No such file"),
        ("epochs: 1\nepochs: 2", "key 'epochs' stands twice"),
        ("<<: {epochs: 1, epochs: 2}", "key 'epochs' stands twice"),
        ("epochs: &a [*a]", "it contains itself"),
        (LAUGHS, "it has more than 2,000 values, with those that its aliases repeat"),
        (LAUGHS.replace("[", "{<<: [").replace("]", "]}"), "with those that its aliases repeat"),
        ("extra: [" + "x, " * 30_000, "it has more than 2,000 values"),
        ("[" * 100_000, "it is nested too deeply"),
        ("a:\n" + "".join(" " * depth + "- \n" for depth in range(1000)), "wrong.yaml"),
        ("- " * 10_000, "it is nested too deeply"),
        ("? " * 10_000, "it is nested too deeply"),
        ("epochs: " + "9" * 5000, "cannot be read"),
        ("epochs: '" + "9" * 5000 + "'", "`epochs` must be int. Found: '999"),
        ("ema: .nan", "`ema` must be float. Found: nan"),
        ("ema: '1e999'", "`ema` must be float. Found: '1e999'"),
        ("epochs: !!int ''", "does not fit its type"),
        ("epochs: !!timestamp x", "does not fit its type"),
        ("epochs: !!bool x", "does not fit its type"),
        ("epochs: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("? [a, b]\n: 3", "cannot be read"),
        ("data: " + "x" * 1_000_000, "it has more than 1,000,000 bytes"),
    ],
)
def test_a_file_that_is_wrong_is_named_in_one_line(tmp_path, capsys, text, message):
    path = tmp_path / "wrong.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError):
        read_settings(path, Config)
    with pytest.raises(SystemExit) as stopped:
        parse_config(Config, "", ["--config", str(path)])
    line = capsys.readouterr().err
    assert (stopped.value.code, line.count("\n")) == (2, 1)
    assert str(path) in line
    assert message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"epochs": 1, "epochs": 2}', "key 'epochs' stands twice"),
        ('{"ema": NaN}', "NaN is not a JSON number"),
        ('{"ema": 1e999}', "too large for a number"),
        ('{"epochs": ' + "9" * 5000 + "}", "an integer of 5,000 digits"),
        ('{"epochs": ' * 50_000, "nested too deeply"),
        ('{"format_version": 1}', "`training` must hold settings. Found: [3]"),
    ],
)
def test_a_json_file_that_is_wrong_is_named(tmp_path, text, message):
    (tmp_path / "wrong.json").write_text(text)
    (tmp_path / "metrics.json").write_text('{"training": [3]}')
    with pytest.raises(UserError, match=re.escape(message)):
        read_settings(tmp_path / "wrong.json", Config)


def test_anchors_that_a_person_writes_are_read(tmp_path):
    (tmp_path / "settings.yaml").write_text("&mine epochs: &many 7\nextra: [&file a.tsv, *file]\n<<: {ema: 0.5}\n")
    assert read_settings(tmp_path / "settings.yaml", Config) == {"epochs": 7, "extra": ("a.tsv", "a.tsv"), "ema": 0.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epochs: 1" + ":59" * 300_007, "a value of more than 10,000 characters"),  # to the base 60: minutes
        ("epochs: \0", "special characters are not allowed"),
        ("epochs: \x1b[2J", "special characters are not allowed"),
    ],
)
def test_a_value_that_no_person_writes_is_refused_at_once(tmp_path, text, message):
    (tmp_path / "wrong.yaml").write_text(text)
    start = time.process_time()
    with pytest.raises(UserError, match=re.escape(message)):
        read_settings(tmp_path / "wrong.yaml", Config)
    assert time.process_time() - start < 5


def test_an_endless_file_is_refused():
    with pytest.raises(UserError, match="more than 1,000,000 bytes"):
        read_settings("/dev/zero", Config)
