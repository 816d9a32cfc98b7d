"""Recipes as modules, for tests of what they define."""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "recipes"


def load_recipe(name):
    """The module of `recipes/NAME.py`, which is no package."""
    module_name = f"recipe_{name}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, FOLDER / f"{name}.py")
        sys.modules[module_name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module_name])
    return sys.modules[module_name]
