"""Public functions, constructors and documented methods have type hints, which an editor shows while one types."""

import importlib
import inspect

import pytest

PACKAGES = ("", ".layers", ".models", ".tokenizers", ".decoding", ".data", ".convert")
FURTHER = {
    "data.keras_batches": ("KerasBatches",),
    "pipelines.base": ("Pipeline",),
    "pipelines.classifier": ("Classifier",),
    "pipelines.mask_filler": ("MaskFiller",),
    "pipelines.text_encoder": ("TextEncoder",),
    "pipelines.text_generator": ("TextGenerator",),
    "pipelines.translator": ("Translator",),
    "training.optim": ("InverseSquareRoot", "LinearDecay", "Muon"),
}
MODULES = {f"keras_attention{name}": None for name in PACKAGES} | {
    f"keras_attention.{a}": b for a, b in FURTHER.items()
}


def public_functions():
    """The public functions, and the constructors and documented methods of public classes, by their names."""
    for module_name, names in MODULES.items():
        module = importlib.import_module(module_name)
        for name in names or module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                yield from (pytest.param(method, id=f"{name}.{label}") for label, method in methods(thing))
            elif inspect.isfunction(thing):
                yield pytest.param(thing, id=name)


def methods(public_class):
    """The constructor and the documented public methods, also those that the class inherits from this package."""
    for label, method in inspect.getmembers(public_class):
        method = method.fget if isinstance(method, property) else inspect.unwrap(method) if callable(method) else None
        if not inspect.isroutine(method) or not str(getattr(method, "__module__", "")).startswith("keras_attention"):
            continue
        if label == "__init__" or (not label.startswith("_") and method.__doc__):
            yield label, getattr(method, "__func__", method)


def without_hints(function):
    """The parameters that have no hint, and "return" if the result has none; a constructor returns nothing."""
    signature = inspect.signature(function)
    names = [name for name, one in signature.parameters.items() if one.annotation is inspect.Parameter.empty]
    names = [name for name in names if name not in ("self", "cls")]
    no_result = signature.return_annotation is inspect.Signature.empty and function.__name__ != "__init__"
    return names + ["return"] * no_result


@pytest.mark.parametrize("function", public_functions())
def test_a_public_function_has_type_hints(function):
    assert without_hints(function) == []


def test_a_missing_hint_is_found():
    def function(a: int, b, *, c: str = "", **rest):
        pass

    assert without_hints(function) == ["b", "rest", "return"]
