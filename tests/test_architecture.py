"""The picture of the house, held against the imports: they point down only."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "keras_attention"
RECIPES = PACKAGE.parent / "recipes"
FOR_EVERY_ROOM = {"errors", "whole_file", "locks", "strict_json", "cores", "compile_cache"}
# Room -> the rooms that it may import from, beside those files.
MAY_IMPORT = {
    **{name: set() for name in FOR_EVERY_ROOM},
    "layers": set(),
    "tokenizers": set(),
    "decoding": set(),
    "training": set(),
    "visualize": set(),
    "models": {"layers"},
    "data": {"tokenizers"},
    "convert": {"models", "tokenizers"},
    "evaluation": {"training"},
    "zoo": {"models", "training", "data", "tokenizers", "decoding", "layers"},
    "pipelines": {"zoo", "models", "tokenizers", "decoding", "data", "evaluation", "visualize"},
    "finetuning": {"pipelines", "zoo", "evaluation", "models", "training", "data", "tokenizers", "visualize"},
    "export": {"pipelines", "zoo", "decoding", "tokenizers"},
    "server": {"pipelines", "zoo", "decoding", "tokenizers"},
    "cli": {
        "server",
        "export",
        "finetuning",
        "pipelines",
        "convert",
        "evaluation",
        "zoo",
        "visualize",
        "training",
        "data",
        "decoding",
        "models",
        "tokenizers",
        "layers",
    },
    "__main__": {"cli"},
    "__init__": {"pipelines", "zoo", "finetuning"},
}
WITHOUT_TENSORFLOW = ("layers", "models", "decoding", "training/losses.py", "training/schedules.py")
MAX_LINES, MAX_FUNCTION_LINES, MAX_RECIPE_LINES = 400, 60, 200
MAX_FILES_IN_A_ROOM, MIN_LINES_FOR_ONE_IMPORTER = 15, 40


def files():
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    return str(path.relative_to(PACKAGE.parent))


def imported(path):
    """Names of the modules that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            yield node.module
            if node.module == "keras_attention":
                yield from (f"keras_attention.{alias.name}" for alias in node.names)


def room_of(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_imports_point_down(path):
    room = room_of(path)
    for module in imported(path):
        if module.startswith("keras_attention."):
            other = module.split(".")[1]
            if other in FOR_EVERY_ROOM | {"__version__", room}:
                continue
            assert other in MAY_IMPORT[room], f"{path.name} in {room} imports {module}"


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_keras_ops_alone_where_two_backends_run(path):
    relative = str(path.relative_to(PACKAGE))
    if relative.startswith(WITHOUT_TENSORFLOW):
        heavy = [module for module in imported(path) if module.split(".")[0] in ("tensorflow", "jax", "torch")]
        assert not heavy, f"{relative} imports {heavy}"


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_one_idea_fits_a_page(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            start = first.end_lineno if docstring else first.lineno - 1
            assert node.end_lineno - start <= MAX_FUNCTION_LINES, f"{node.name} in {path.name}"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.py")), ids=name_of)
def test_a_recipe_is_one_short_file_that_imports_no_other(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_RECIPE_LINES
    assert not [module for module in imported(path) if module.startswith("recipes")]


def test_the_readme_shows_this_picture():
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    rooms = {room for room in MAY_IMPORT if (PACKAGE / room).is_dir()}
    assert rooms <= set(re.findall(r"^  (\w+)/ ", readme, re.MULTILINE))


def test_every_room_is_in_the_picture():
    assert {room_of(path) for path in files()} <= set(MAY_IMPORT)
