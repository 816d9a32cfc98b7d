"""README.md: its code runs, its commands succeed, its tables equal the metrics of the models."""

import ast
import importlib.util
import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest
from doc_pages import commands

import keras_attention
from keras_attention.cli import main as cli
from keras_attention.support.errors import UserError
from keras_attention.training.session import Session

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
INDENTED = [line.split("#")[0].strip() for line in README.splitlines() if line.startswith("    ")]
PYTHON = "\n".join(block for language, block in BLOCKS if language == "python")
SHELL = [line for language, block in BLOCKS if language == "sh" for line in commands(block)]
TABLES = ROOT / ".ci" / "readme_tables.py"
MAX_LINES = 240


def words(line):
    return shlex.split(line)


def is_command(line):
    return line.startswith("keras-attention ")


def runs_for_ever(line):
    """Whether it is the server; tests/server tests it."""
    return line.startswith("keras-attention serve")


def is_recipe(line):
    return line.startswith("python recipes/")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Everything runs in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.thorough
def test_python_blocks_run_one_after_the_other(capsys):
    exec(compile(PYTHON, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert out.endswith("I really enjoyed this movie.\n(2, 384)\n['positive', 'negative']\n(2, 5, 11) (2, 5, 3)\n")


@pytest.mark.thorough
def test_commands_end_with_0(tmp_path, capsys):
    for line in SHELL:
        if is_recipe(line):
            continue
        if is_command(line):
            assert cli.main(words(line)[1:]) == 0, line
            assert capsys.readouterr().out or "--output" in line, line
        else:
            subprocess.run(["bash", "-c", line], check=True)
    assert (tmp_path / "attention.html").exists()


UNSEEN = {
    "no fun at all": "bad",
    "not bad at all": "good",
    "I would not watch it again": "bad",
    "I would watch it again": "good",
    "The jokes are not funny.": "bad",
    "Great acting and a moving story.": "good",
    "A terrible script.": "bad",
    "My children loved it.": "good",
    "The film is far too long.": "bad",
    "Surprisingly good.": "good",
    "You should see this film.": "good",
    "You should not see this film.": "bad",
    "what a waste of time": "bad",
}


@pytest.mark.slow
def test_the_fine_tuning_example_answers_sentences_that_it_has_not_seen():
    table, finetune = (line for line in SHELL if "> reviews.csv" in line or "finetune reviews.csv" in line)
    subprocess.run(["bash", "-c", table], check=True)
    rows = Path("reviews.csv").read_text(encoding="utf-8").splitlines()
    assert (len(rows), len(set(rows))) == (31, 31)
    assert not {row.rpartition(",")[0].strip('".').lower() for row in rows} & {
        text.strip(".").lower() for text in UNSEEN
    }
    assert [word for word in words(finetune) if word.startswith("--")] == ["--text", "--label", "--out"]
    assert cli.main(words(finetune)[1:]) == 0
    answers = keras_attention.load("my_model").classify(list(UNSEEN), return_scores=True)
    assert [answer.label for answer in answers] == list(UNSEEN.values())
    assert all(max(answer.probabilities.values()) < 0.99 for answer in answers)


def test_it_is_short():
    assert len(README.splitlines()) <= MAX_LINES


def test_first_success_stands_within_the_first_20_lines():
    assert {line for line in INDENTED if line} >= {"make run", "make test", "pip install ."}
    start = "\n".join(README.splitlines()[:20])
    assert all(command in start for command in ("make run", "make test", "pip install .", "keras-attention translate"))
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z]+)", README)) <= set(targets)


@pytest.mark.slow
def test_indented_commands_of_the_start():
    for line in filter(is_command, INDENTED):
        if not runs_for_ever(line):
            assert cli.main(words(line)[1:]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("line", filter(is_recipe, SHELL))
def test_recipes_have_the_flags_that_the_readme_names(line):
    """The trainings themselves take too long here; tests/recipes/test_recipes.py runs them with --smoke."""
    script, *flags = words(line)[1:]
    recipe = runpy.run_path(str(ROOT / script))
    config = recipe["parse_config"](recipe["Config"], "", flags)
    for flag in re.findall(r"--([\w-]+)", line):
        assert hasattr(config, flag.replace("-", "_"))


def test_recipes_of_the_readme_and_make_run_write_to_different_folders(monkeypatch):
    """So that each command works after the others."""
    started = []

    def start(config, out, **options):
        started.append(Path(out).resolve())
        raise UserError("started")

    monkeypatch.setattr(Session, "start", start)
    made = re.findall(
        r"^\t\$\(BIN\)/(python recipes/rnn_attention.py .*)$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    lines = [*made, *filter(is_recipe, SHELL)]
    for line in lines:
        script, *flags = words(line)[1:]
        with pytest.raises(UserError, match="started"):
            runpy.run_path(str(ROOT / script))["main"](flags)
    assert len(set(started)) == len(lines) == 8


def test_flags_in_the_text_exist():
    files = [*ROOT.glob("recipes/*.py"), *ROOT.glob("keras_attention/**/*.py")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    for flag in set(re.findall(r"`--([a-z_-]+)", README)) - {"help"}:
        setting = rf"^    {flag.replace('-', '_')}: .* = setting\("
        assert f'"--{flag}"' in code or re.search(setting, code, re.MULTILINE), flag


def test_links_into_the_checkout_have_targets():
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_models_that_the_readme_names_exist():
    shipped = {path.parent.name for path in ROOT.glob("saved_models/*/manifest.json")}
    named = {name for pair in re.findall(r"ka\.load\(\"(\w+)\"\)|--model (\w+)", README) for name in pair if name}
    assert named - {"my_model"} <= shipped


def test_the_tables_equal_the_metrics_of_the_models():
    script = runpy.run_path(str(TABLES))
    for path, tables in script["tables"]().items():
        text = path.read_text(encoding="utf-8")
        assert script["filled"](text, tables) == text, f"{path.name}: run `make readme`"


def test_the_tables_show_each_score_and_need_their_markers(tmp_path):
    from zoo.tiny_entry import METRICS, write_tiny_entry

    script = runpy.run_path(str(TABLES))
    write_tiny_entry(tmp_path / "tiny")
    (tmp_path / ".tiny-new").mkdir()
    (tmp_path / ".tiny-new" / "manifest.json").touch()
    entries = script["entries"](tmp_path)
    assert [entry.name for entry in entries] == ["tiny"]
    tables = script["score_table"](entries), script["zoo_table"](entries)
    for score in METRICS["scores"]:
        assert f"{score['metric']} {score['value']:.2f}" in tables[0]
        assert f": `{score['signature']}`" in tables[0]
    assert f"{entries[0].metrics['parameters']:,}" in tables[1]
    text = script["filled"]("a\n<!-- zoo -->\nold\n<!-- end of zoo -->\nb", {"zoo": "new"})
    assert text == "a\n<!-- zoo -->\n\nnew\n\n<!-- end of zoo -->\nb"
    assert script["filled"](text, {"zoo": "new"}) == text
    with pytest.raises(ValueError, match="0 times"):
        script["filled"]("nothing", {"zoo": "new"})


def test_code_imports_nothing_that_users_lack():
    names = {alias.name for node in ast.walk(ast.parse(PYTHON)) if isinstance(node, ast.Import) for alias in node.names}
    assert all(importlib.util.find_spec(name) for name in names)
