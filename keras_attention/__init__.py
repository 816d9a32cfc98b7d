"""Attention in Keras: layers, recipes and small trained models. TensorFlow and Keras are imported when first needed."""

import contextlib
import os
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from keras_attention.pipelines.classifier import Classifier
    from keras_attention.pipelines.translations import Translation
    from keras_attention.training.distribution import Trained

__version__ = "0.1.0"
__all__ = ["__version__", "distribute", "finetune", "list_models", "load", "translate"]

YNN = "--xla_cpu_experimental_ynn_fusion_type="


def _avoid_a_race_of_xla():
    """Keeps TensorFlow 2.21 from a segmentation fault in a process that runs one compiled program in several threads.

    XLA prepares fusions for the library YNNPACK in the first calls of a program. Threads that prepare one fusion at the
    same time append to one unlocked list (`literals` of `EmitYnnSubgraph`). Matrix products alone have no such list;
    without the other fusions programs are as fast. Other versions may lack the flag, and would end at it.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if YNN in flags or os.environ.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        return
    with contextlib.suppress(metadata.PackageNotFoundError):
        if metadata.version("tensorflow").startswith("2.21."):
            os.environ["XLA_FLAGS"] = f"{flags} {YNN}LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT".strip()


_avoid_a_race_of_xla()

from keras_attention import catalog  # noqa: E402, F401  (registers all architectures; after the flags, like all else)
from keras_attention.support.moved import find_moved_modules  # noqa: E402

find_moved_modules()


def list_models() -> list[str]:
    """Lists the names of the trained models in the package and in the folders of KERAS_ATTENTION_ZOO.

    Returns:
        Sorted list of str.
    """
    from keras_attention.zoo.registry import list_models

    return list_models()


def load(name_or_path: str | Path) -> Any:
    """Loads a trained model.

    Args:
        name_or_path: str or Path: a name from `list_models()`, or a unique part of one, such as "sst2"; the folder of a
            saved model; or the name of a published model, "hf://ORG/NAME[@REVISION]" on the Hugging Face Hub (a model
            that `keras-attention push` has shared, or a BERT, GPT-2 or Marian, which is converted) or
            "kaggle://ORG/MODEL/keras/VARIANT[/VERSION]" (BERT only), which is stored in the user's cache.

    Returns:
        A `Pipeline`, see `keras_attention.pipelines`: a `Translator` with `translate`, a `Classifier` with `classify`,
        a `MaskFiller` with `fill_mask`, a `TextEncoder` with `encode` or a `TextGenerator` with `generate`. Each takes
        a str, or any sequence or iterable of str, such as a NumPy array or a pandas Series. A `Captioner` with
        `caption` takes pictures. Its `model` is the network with the trained weights, a `keras.Model` that takes token
        ids and returns logits; `save(folder)` saves the pipeline.

    Raises:
        UserError: if the model does not exist, or its files are damaged.

    Example:
        keras_attention.load("rnn_attention_multi30k_en_de").translate(["A dog runs."], beam_size=5)
    """
    from keras_attention.zoo.registry import open_entry

    entry = open_entry(name_or_path)
    with _silent_start():
        from keras_attention.pipelines.base import load_pipeline

        entry.architecture.task.pipeline_class()
    return load_pipeline(entry)


def translate(
    texts: Any, to: str, *, source: str | None = None, **options: Any
) -> "Translation | list[Translation] | list[list[Translation]]":
    """Translates one text or many with the best model of the zoo for their languages.

    The model is loaded at the first call and kept. Of several models for a pair of languages, the one that was trained
    on the most sources of data is taken.

    Args:
        texts: str, or any sequence or iterable of str in one language.
        to: str, the code or English name of a language, such as "de" or "German".
        source: the same of the language of the texts; None: it is detected.
        options: see `Translator.translate`.

    Returns:
        See `Translator.translate`. A text in another language has `low_score` with the reason "wrong language".

    Raises:
        UserError: if there is no model for the languages, or the language of the texts cannot be detected.

    Example:
        keras_attention.translate("Where is the train station?", to="de")
    """
    from keras_attention.inputs.given_texts import as_texts

    many, alone = as_texts(texts)
    with _silent_start():
        from keras_attention.pipelines.language_pairs import find_translator, translator_for

        translator = translator_for(find_translator(to, source, many).model)
    return translator.translate(many[0] if alone else many, **options)


def finetune(
    texts: Any,
    labels: Any = None,
    *,
    texts_b: Iterable[str] | None = None,
    text: str | None = None,
    label: str | list[str] | None = None,
    text_b: str | None = None,
    label_names: Iterable[str] | None = None,
    kind: str | None = None,
    start: str | Path | None = None,
    validation: Any = None,
    task: str | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> "Classifier":
    """Trains a classifier on your own texts, images, sounds or series of numbers.

    Args:
        texts: any sequence or iterable of str; or a table with named columns, such as a pandas DataFrame. For a network
            that reads files: their names, arrays, or what else `classify` takes. Or a folder of images or sounds, one
            sub-folder a label. Or series: an array (N, steps) or (N, steps, channels), a list of arrays, or the name of
            a table of series.
        labels: one label for each text: str or number, or a list of str if a text may have several. Or a list of rows,
            an array, a sparse matrix or a DataFrame with one column of 0 and 1 for each label. None: a table or folder.
        texts_b: the second texts of pairs, of the same types as `texts`, or None.
        text, label, text_b: str, the columns of a table with texts, labels and second texts; `text_b` is optional.
            `label` may be a list of columns of 0 and 1.
        label_names: list of str, the names of the labels if `labels` are columns of 0 and 1 or numbers of classes. By
            default, columns have their own names or their numbers, from 0.
        kind: "images" or "sounds", what `texts` are; None: texts, and the files of a folder by their names. "series"
            for series.
        start: str or Path, a model to start from, see `load`; "none" for random weights of the settings' `network` and
            `size`. None: "minilm_small_en"; "minilm_small_multi" if a quarter of the texts is in German, French or
            Spanish; and "none" for a folder or if the settings have a `network`.
        validation: pair (texts, labels), triple with second texts, a table with the same columns, or a folder. It
            determines the best weights. None holds out a tenth of the rows.
        task: "binary", "multiclass", "multilabel" or "regression"; None: determined from the labels.
        out: str or Path of the folder for the model with its report, or None to save nothing.
        overwrite: bool. Whether to replace an existing model at `out`.
        settings: fields of `keras_attention.finetuning.settings.FinetuneSettings`, such as `epochs`.

    Returns:
        `keras_attention.pipelines.classifier.Classifier`; its `classify` takes a str or a list of str.

    Raises:
        UserError: if texts and labels do not fit together, the start does not exist, or `out` exists and may not be
            replaced.
    """
    from keras_attention.inputs.given_texts import labelled_texts, names_of_columns
    from keras_attention.support.errors import UserError

    with _silent_start():
        from keras_attention.finetuning.examples import files_and_labels, is_folder, is_path
        from keras_attention.finetuning.starting_model import FILES, open_start, suited_start
        from keras_attention.finetuning.workflow import finetune_lists
    of_files = kind is not None or (labels is None and is_folder(texts))
    opened = open_start(start, settings.get("network") or (FILES if of_files and start is None else None))
    if labels is None and is_path(texts, kind):
        texts, labels = files_and_labels(texts, opened, kind, label)
    if is_path(validation, kind):
        validation = files_and_labels(validation, opened, kind, label)
    label = None if kind == "series" and labels is not None else label
    columns: dict = {"text": text, "label": label, "text_b": text_b, "files": opened.reads_files}
    label_names = names_of_columns(labels, label) if label_names is None else label_names
    texts, labels, texts_b = labelled_texts(texts, labels, texts_b, **columns)
    if kind is not None:
        opened = suited_start(opened, texts, kind, notify=print)
    if validation is not None:
        given = validation if isinstance(validation, (tuple, list)) else (validation,)
        if len(given) > 3:
            raise UserError(f"`validation` must be (texts, labels) or a table. Received: {len(given)} parts")
        validation = labelled_texts(*given, **columns, where="validation")
    given = texts, labels, texts_b, opened, validation, task, out, overwrite, settings
    return finetune_lists(*given, label_names=label_names)


def distribute(
    model: "keras.Model | Callable[[], keras.Model]", x: Any, y: Any = None, sample_weight: Any = None, **settings: Any
) -> "Trained":
    """Trains any compiled Keras model on several devices, processes or machines, where `fit` of Keras 3 cannot.

    Args:
        model: compiled `keras.Model`, or a function without arguments that makes one, which several processes need.
        x, y, sample_weight: arrays with the rows on the first axis, or lists, tuples or dicts of arrays.
        settings: `batch_size`, `epochs`, `validation_data`, `strategy`, `accumulate`, `checkpoints`, `resume` and
            others, see `keras_attention.training.distribution.distribute`.

    Returns:
        `keras_attention.training.distribution.Trained`: (model, history, is_chief).

    Raises:
        UserError: if the model cannot be split, rows do not fit together, or devices are not available.
    """
    with _silent_start():
        from keras_attention.training.distribution import distribute

    return distribute(model, x, y, sample_weight, **settings)


def _silent_start():
    """Silences TensorFlow's messages at import, unless the user has imported it before or has set a log level."""
    if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return contextlib.nullcontext()
    from keras_attention.cli.io.terminal import silent_libraries

    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return silent_libraries(own_process=False)
