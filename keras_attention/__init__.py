"""Attention in Keras: layers, recipes and small trained models. Imports nothing heavy until asked."""

__version__ = "0.1.0"
__all__ = ["__version__", "list_models", "load"]


def list_models():
    """Names of the trained models that `load` knows: those of the package and of KERAS_ATTENTION_ZOO.

    Returns:
        Sorted list of str.
    """
    from keras_attention.zoo.finding import list_models

    return list_models()


def load(name_or_path):
    """Loads a trained model.

    Args:
        name_or_path: str, a name out of `list_models()`; or str or Path, the folder of a saved model.

    Returns:
        `keras_attention.zoo.translator.Translator`; its `translate` takes a str or a list of str.

    Raises:
        UserError: if there is no such model, or its files are damaged.

    Example:
        keras_attention.load("rnn_attention_multi30k_en_de").translate(["A dog runs."], beam_size=5)
    """
    from keras_attention.zoo.finding import find_entry
    from keras_attention.zoo.loading import load_translator

    return load_translator(find_entry(name_or_path))
