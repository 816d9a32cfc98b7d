"""The picture of the house, held against the imports: they point down only."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "keras_attention"
RECIPES = PACKAGE.parent / "recipes"
FOR_EVERY_ROOM = {"support"}
# Room -> the rooms that it may import from, beside that one.
MAY_IMPORT = {
    **{name: set() for name in FOR_EVERY_ROOM},
    "layers": set(),
    "tokenizers": set(),
    "decoding": set(),
    "training": set(),
    "visualize": set(),
    "models": {"layers"},
    "data": {"tokenizers"},
    "inputs": {"data", "tokenizers"},
    "convert": {"models", "tokenizers", "zoo"},
    "evaluation": {"training"},
    "zoo": {"inputs", "models", "training", "data", "tokenizers", "decoding", "layers"},
    "runtime": {"models", "tokenizers", "decoding"},
    "pipelines": {"runtime", "inputs", "zoo", "models", "tokenizers", "decoding", "data", "evaluation", "visualize"},
    "catalog": {"pipelines", "inputs", "zoo", "models", "convert"},
    "publishing": {"convert", "pipelines", "inputs", "zoo", "evaluation", "data", "models", "tokenizers", "visualize"},
    "finetuning": {
        "publishing",
        "catalog",
        "runtime",
        "inputs",
        "pipelines",
        "zoo",
        "evaluation",
        "models",
        "training",
        "data",
        "tokenizers",
        "visualize",
    },
    "export": {"pipelines", "runtime", "inputs", "zoo", "evaluation", "decoding", "tokenizers"},
    "server": {"pipelines", "runtime", "inputs", "zoo", "decoding", "tokenizers"},
    "cli": {
        "server",
        "export",
        "catalog",
        "publishing",
        "finetuning",
        "runtime",
        "inputs",
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
    "__init__": {"catalog", "inputs", "pipelines", "zoo", "finetuning", "training", "cli"},
}
WITHOUT_TENSORFLOW = (
    "layers",
    "models",
    "decoding",
    *(f"training/{name}.py" for name in ("losses", "optim", "gradients")),
)
# The guides are 400 lines a file, 60 a function, 130 a recipe, 15 files a room: better over a guide than cut to fit.
# These are the sizes at which nobody would still call it one idea.
MAX_LINES, MAX_FUNCTION_LINES, MAX_RECIPE_LINES = 600, 90, 200
MAX_FILES_IN_A_ROOM, MIN_LINES_FOR_ONE_IMPORTER = 22, 40


def files():
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    return str(path.relative_to(PACKAGE.parent))


def imported(path):
    """Names of the modules that a file imports, also inside functions and as "module:name" in a string."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"^(keras_attention(?:\.\w+)+):\w+$", node.value)
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
def test_private_parts_of_keras_and_tensorflow_are_used_in_one_file(path):
    private = [module for module in imported(path) if module.startswith(("keras.src", "tensorflow.python"))]
    assert not private or path.name == "keras_private.py"


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


def test_no_file_has_the_name_of_another():
    names = Counter(path.name for path in files() if path.name != "__init__.py")
    assert not [name for name, count in names.items() if count > 1]


def test_a_room_has_few_files():
    sizes = Counter(path.parent for path in files() if path.name != "__init__.py")
    large = {name_of(folder): size for folder, size in sizes.items() if size > MAX_FILES_IN_A_ROOM}
    assert not large


def module_name(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imports_between_modules():
    """Which modules of the package each one imports, as in `imported`; names out of an `__init__` count as it."""
    modules = {module_name(path): path for path in files()}
    graph = {}
    for name, path in modules.items():
        names = set(imported(path))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (
                inside := {f"{node.module}.{alias.name}" for alias in node.names} & modules.keys()
            ):
                names = names - {node.module} | inside
        graph[name] = names & modules.keys() - {name}
    return graph


def test_no_small_file_serves_one_other_alone():
    graph = imports_between_modules()
    small = [
        name
        for name in graph
        if name.count(".") > 1 and not name.endswith("__main__") and ".catalog." not in name  # one file a task
        for path in [PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py")]
        if path.is_file() and len(path.read_text(encoding="utf-8").splitlines()) < MIN_LINES_FOR_ONE_IMPORTER
        if sum(name in imports for imports in graph.values()) == 1
    ]
    assert not small


def test_imports_have_no_circles():
    """Also inside functions and in strings. The package itself offers what lies deep inside: that is no circle."""
    graph = {name: imports - {"keras_attention"} for name, imports in imports_between_modules().items()}
    while leaves := [name for name, imports in graph.items() if not imports & graph.keys()]:
        for name in leaves:
            del graph[name]
    circles = {name for name in graph if reaches(graph, name, name)}
    assert not circles


def reaches(graph, start, end):
    """Whether imports lead from one module to another, by one step at least."""
    seen, waiting = set(), [start]
    while waiting:
        for name in graph[waiting.pop()] & graph.keys() - seen:
            seen.add(name)
            waiting.append(name)
    return end in seen
