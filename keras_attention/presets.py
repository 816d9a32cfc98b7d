"""`Model.from_preset(name)`: a bare network with the trained weights of a zoo entry.

The models do not know the zoo: the package's `__init__` hands the zoo's loader to `set_loader`, and the models look it
up here when they are asked.
"""

_loaders = []


def set_loader(loader):
    """Says who finds trained networks.

    Args:
        loader: callable(model class, name or path) -> built model of that class.
    """
    _loaders[:] = [loader]


class FromPreset:
    """Gives a model class `from_preset`."""

    @classmethod
    def from_preset(cls, name_or_path):
        """The bare network of a trained model, without its tokenizers: token ids in, logits out.

        Finds the entry, checks all of its files against their hashes, builds the network from the settings of its
        config.json, and fills in the weights, in float32. `keras_attention.load` gives the whole pipeline instead.

        Args:
            name_or_path: str, a name out of `keras_attention.list_models()`; or str or Path, a model's folder.

        Returns:
            Built model of this class, to be used, trained on or taken apart like any `keras.Model`. `BertEncoder` also
            takes the encoder out of a BERT with a head.

        Raises:
            UserError: if there is no such model, its files are damaged, or it is of another class.

        Example:
            from keras_attention.models import Transformer
            Transformer.from_preset("transformer_tiny_multi30k_en_de")
        """
        return _loaders[0](cls, name_or_path)
