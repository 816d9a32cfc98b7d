"""`Model.from_preset(name)`: a bare network with the trained weights of a zoo entry.

Models must not import the zoo. So the package's `__init__` passes the zoo's loader to `set_loader`, and `from_preset`
calls it.
"""

_loaders = []


def set_loader(loader):
    """Sets the function that loads trained networks.

    Args:
        loader: callable(model class, name or path) -> built model of that class.
    """
    _loaders[:] = [loader]


class FromPreset:
    """Adds `from_preset` to a model class."""

    @classmethod
    def from_preset(cls, name_or_path):
        """Loads the network of a trained model, without its tokenizers: token ids in, logits out.

        Checks all files of the entry against their hashes, builds the network from the settings in its config.json, and
        loads the weights in float32. `keras_attention.load` returns the whole pipeline instead.

        Args:
            name_or_path: str, a name from `keras_attention.list_models()`; or str or Path, a model's folder; or the
                name of a published BERT or GPT-2, see `keras_attention.load`.

        Returns:
            Built model of this class, which works like any `keras.Model`. `BertEncoder` also extracts the encoder of a
            BERT with a head.

        Raises:
            UserError: if the model does not exist, its files are damaged, or it has another class.

        Example:
            from keras_attention.models import Transformer
            Transformer.from_preset("transformer_tiny_multi30k_en_de")
        """
        return _loaders[0](cls, name_or_path)
