"""Names of the reference pages keep working: where a name has moved, the earlier one gives the same, with a warning."""

import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from zoo.tiny_bert import tiny_classifier

from keras_attention.finetuning.cross_validation import cross_validate
from keras_attention.finetuning.search import search_settings
from keras_attention.finetuning.workflow import finetune_classifier, prepare
from keras_attention.support.moved import MOVED_MODULES, MOVED_NAMES, REPLACED
from keras_attention.training.devices import use_strategy
from keras_attention.zoo.schema import Architecture, Task

# Classes and functions of the reference pages, "module:name", before modules began to move. Add names, remove none.
PUBLIC_NAMES = (Path(__file__).parent / "public_names.txt").read_text(encoding="utf-8").split()


def test_every_public_name_works_or_says_what_replaces_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        gone = []
        for path in PUBLIC_NAMES:
            module, _, name = path.partition(":")
            try:
                getattr(importlib.import_module(module), name)
            except AttributeError as error:
                gone += [] if "is gone. Use keras_attention." in str(error) else [path]
    assert not gone


def test_a_moved_name_gives_that_of_today_and_a_warning():
    from keras_attention.server import guarded_protocol, http_server

    with pytest.warns(FutureWarning, match=r"http_server\.GuardedProtocol is now in .*guarded_protocol"):
        assert http_server.GuardedProtocol is guarded_protocol.GuardedProtocol
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        http_server.nothing  # noqa: B018


def test_a_name_of_earlier_versions_is_imported_under_its_new_name():
    with pytest.warns(FutureWarning, match=r"zoo\.schema\.Use is now called .*\.Task\. Change"):
        from keras_attention.zoo.schema import Use
    assert Use is Task
    task = Use(("classify",), "module:Class", "classify", title=str, reads=str)
    with pytest.warns(FutureWarning, match="The argument `use` of .*Architecture.* is now called `task`"):
        architecture = Architecture("Mine", "module:Class", {}, lambda settings: 0, use=task)
    with pytest.warns(FutureWarning, match=r"Architecture\.use is now called Architecture\.task"):
        assert architecture.use is task
    with pytest.warns(FutureWarning, match=r"Task\.task is now called Task\.name"):
        assert task.task == "classify"


def test_methods_and_arguments_of_earlier_names_work():
    classifier = tiny_classifier()
    with pytest.warns(FutureWarning, match=r"Classifier\.described is now called Classifier\.config_keys"):
        assert classifier.described() == classifier.config_keys()
    with pytest.warns(FutureWarning, match=r"Classifier\.answer is now called Classifier\.classification"):
        assert classifier.answer(np.array([0.0, 9.0])) == classifier.classification(np.array([0.0, 9.0]))
    with pytest.warns(FutureWarning, match="The argument `say` of use_strategy is now called `notify`"):
        use_strategy("none", say=print)
    for function in (finetune_classifier, prepare, cross_validate, search_settings):
        with pytest.warns(FutureWarning, match="is now called `notify`"), pytest.raises(TypeError, match="missing"):
            function(say=print)


def test_a_name_that_has_no_successor_says_what_replaces_it():
    with pytest.warns(FutureWarning, match=r"pipelines\.compiled is now in"):
        earlier = importlib.reload(importlib.import_module("keras_attention.pipelines.compiled"))
    with pytest.raises(AttributeError, match=r"CompiledBert is gone. Use .*CompiledForward"):
        earlier.CompiledBert  # noqa: B018


def test_a_moved_module_has_the_names_of_its_successors():
    from keras_attention.catalog.encoding import ENCODER
    from keras_attention.zoo.decoding_settings import DECODING

    with pytest.warns(FutureWarning, match=r"zoo\.architectures is now in keras_attention\.catalog"):
        earlier = importlib.reload(importlib.import_module("keras_attention.zoo.architectures"))
    assert earlier.ENCODER is ENCODER
    assert earlier.DECODING is DECODING
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        earlier.nothing  # noqa: B018


def test_other_modules_that_are_missing_stay_missing():
    with pytest.raises(ModuleNotFoundError, match="keras_attention.zoo.nothing"):
        importlib.import_module("keras_attention.zoo.nothing")


def test_every_moved_name_exists_today():
    for modules in MOVED_MODULES.values():
        for module in modules:
            importlib.import_module(f"keras_attention.{module}")
    for names in MOVED_NAMES.values():
        for name, today in names.items():
            module, _, new_name = today.partition(":")
            assert hasattr(importlib.import_module(f"keras_attention.{module}"), new_name or name)
    for path in REPLACED:
        assert path in {name.partition(".")[2] for name in PUBLIC_NAMES}
