"""What loading and answering could reach: read from the syntax trees, nothing of it is run."""

import ast
from pathlib import Path

import pytest

import keras_attention
from keras_attention.zoo.schema import ARCHITECTURES

PACKAGE = Path(keras_attention.__file__).parent
# Whatever turns stored bytes into code or into objects of any class, or starts something else.
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__", "breakpoint"}
FORBIDDEN_ATTRIBUTES = {
    "load_model",
    "deserialize_keras_object",
    "deserialize",
    "from_config",
    "model_from_json",
    "enable_unsafe_deserialization",
    "register_keras_serializable_from_file",
    "load_op_library",
    "system",
    "popen",
    "loads_pickle",
}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "code", "runpy"}
FORBIDDEN_MODULES |= {"subprocess", "ctypes", "torch", "zipfile", "tarfile", "importlib"}
NETWORK = {"socket", "socketserver", "urllib", "http", "requests", "ftplib", "ssl", "asyncio"}
STARTS = [
    "keras_attention.pipelines.base",
    *sorted({path.partition(":")[0] for one in ARCHITECTURES.values() for path in (one.model, one.task.pipeline)}),
    "keras_attention.convert",
    "keras_attention.cli.translate",
    "keras_attention.cli.classify",
    "keras_attention.cli.encode",
    "keras_attention.cli.generate",
]
# importlib.resources for the templates of the pages, importlib.util to find a package of fonts.
ALLOWED = {
    ("keras_attention.cli.io.search_options", "importlib"),  # util: whether the package of --engine is installed
    ("keras_attention.support.compile_cache", "importlib"),  # metadata: the versions of packages
    ("keras_attention.convert.hub", "urllib"),  # parse: what of an address is quoted; huggingface_hub downloads
    ("keras_attention.convert.published", "subprocess"),  # converts in a process of its own, by this package's code
    ("keras_attention.runtime.stored_programs", "ctypes"),  # the C library's own call that returns memory
    ("keras_attention.support.installation", "importlib"),  # metadata: how this package was installed
    ("keras_attention.support.installation", "urllib"),  # parse and url2pathname: nothing is fetched
    ("keras_attention.support.moved", "importlib"),  # of modules named in that file
    ("keras_attention.visualize.pages", "importlib"),
    ("keras_attention.visualize.figures", "importlib"),
    ("keras_attention.support.atomic_files", "ctypes"),  # the system's own call that swaps two folders
    ("keras_attention.support.atomic_files", "socket"),  # the name of this machine
    ("keras_attention.support.errors", "zipfile"),  # the name of an error
    ("keras_attention.support.flags", "yaml"),  # safe_load, of the settings of a recipe
    ("keras_attention.training.devices", "from_config"),  # of a model in memory
    ("keras_attention.zoo.schema", "importlib"),  # of what is registered; a file names the architecture alone
}


def path_of(module):
    path = PACKAGE.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imports(tree):
    """Names of the modules that a tree imports, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reachable(starts):
    """Dict from module to syntax tree, of every module of the package that these import, directly or not."""
    trees, waiting = {}, list(starts)
    while waiting:
        module = waiting.pop()
        parts = module.split(".")
        if parts[0] != "keras_attention" or module in trees or not path_of(module).is_file():
            continue
        trees[module] = ast.parse(path_of(module).read_text(encoding="utf-8"))
        waiting += imports(trees[module])
        waiting += [".".join(parts[:length]) for length in range(2, len(parts))]  # the __init__ of its room
    return trees


def faults(module, tree, network=False):
    """What in a tree is forbidden: list of str."""
    faults_of_tree = []
    for name in imports(tree):
        top = name.split(".")[0]
        if (top in FORBIDDEN_MODULES or (network and top in NETWORK)) and (module, top) not in ALLOWED:
            faults_of_tree.append(f"{module} imports {name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_NAMES:
            faults_of_tree.append(f"{module}, line {node.lineno}: {node.func.id}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            unpickles = name == "load" and _is_numpy(node.func.value) and not any(map(_without_pickle, node.keywords))
            if (name in FORBIDDEN_ATTRIBUTES and (module, name) not in ALLOWED) or unpickles:
                faults_of_tree.append(f"{module}, line {node.lineno}: {name}")
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and not _without_pickle(node):
            faults_of_tree.append(f"{module}: allow_pickle")
    return faults_of_tree


def _without_pickle(keyword):
    """Whether it is `allow_pickle=False`."""
    return keyword.arg == "allow_pickle" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False


def _is_numpy(node):
    return isinstance(node, ast.Name) and node.id in ("np", "numpy")


@pytest.mark.parametrize("start", STARTS)
def test_nothing_that_could_run_what_a_file_says(start):
    trees = reachable([start])
    assert len(trees) > 3
    assert [fault for module, tree in trees.items() for fault in faults(module, tree, network=True)] == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "eval('1')",
        "keras.models.load_model(path)",
        "AttentionSeq2Seq.from_config(json.load(file))",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=some)",
        "np.load(path)",
        "def inner():\n    import socket",
    ],
)
def test_the_walk_sees(code):
    assert faults("some", ast.parse(code), network=True)
