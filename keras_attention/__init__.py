"""Attention in Keras: layers, recipes and small trained models. Imports nothing heavy until asked."""

__version__ = "0.1.0"
__all__ = ["__version__", "finetune", "list_models", "load"]


def list_models():
    """Names of the trained models that `load` knows: those of the package and of KERAS_ATTENTION_ZOO.

    Returns:
        Sorted list of str.
    """
    from keras_attention.zoo.registry import list_models

    return list_models()


def load(name_or_path):
    """Loads a trained model.

    Args:
        name_or_path: str, a name out of `list_models()`; or str or Path, the folder of a saved model.

    Returns:
        A `Translator`, whose `translate` takes a str or a list of str; or likewise a `Classifier` with `classify`, a
        `MaskFiller` with `fill_mask` or a `TextEncoder` with `encode`, all of `keras_attention.zoo`.

    Raises:
        UserError: if there is no such model, or its files are damaged.

    Example:
        keras_attention.load("rnn_attention_multi30k_en_de").translate(["A dog runs."], beam_size=5)
    """
    from keras_attention.pipelines.base import load_pipeline
    from keras_attention.zoo.registry import find_entry

    return load_pipeline(find_entry(name_or_path))


def finetune(
    texts,
    labels,
    *,
    texts_b=None,
    start="bert_mini_en",
    validation=None,
    task=None,
    out=None,
    overwrite=False,
    **settings,
):
    """Trains a classifier on your own texts.

    Args:
        texts: list of str.
        labels: one for each text: str or number, or a list of str where a text may have several.
        texts_b: list of str, the second texts of pairs, or None.
        start: str or Path, a BERT to start from, by name or folder; "none" for random weights of the settings' `size`.
        validation: pair (texts, labels), or triple with second texts, to choose the best epoch by; None holds out a
            tenth of the rows.
        task: "binary", "multiclass", "multilabel" or "regression"; None finds it from the labels.
        out: str or Path of a folder to save the model to, with its report; or None.
        overwrite: bool. Whether a trained model that stands there is replaced.
        settings: fields of `keras_attention.finetuning.settings.FinetuneSettings`, such as `epochs`.

    Returns:
        `keras_attention.pipelines.classifier.Classifier`; its `classify` takes a str or a list of str.

    Raises:
        UserError: if texts and labels do not fit together, or there is no such model to start from, or
            something stands at `out` that may not be replaced.
    """
    from keras_attention.finetuning.workflow import finetune_lists

    return finetune_lists(texts, labels, texts_b, start, validation, task, out, overwrite, settings)
