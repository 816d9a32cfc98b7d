"""From the folder of an entry to something that answers texts."""

from keras_attention.errors import UserError
from keras_attention.zoo.archive import load_entry
from keras_attention.zoo.classifier import Classifier
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.mask_filler import MaskFiller
from keras_attention.zoo.text_encoder import TextEncoder
from keras_attention.zoo.translator import Translator

# What a model of each architecture is used as.
USES = {
    "AttentionSeq2Seq": Translator,
    "Transformer": Translator,
    "BertEncoder": TextEncoder,
    "BertMaskedLM": MaskFiller,
    "BertClassifier": Classifier,
}


def load_pipeline(folder, *wanted):
    """Loads an entry and readies it for use.

    Args:
        folder: str or Path, see `finding.find_entry`.
        wanted: classes of `USES`, or none where any will do.

    Returns:
        Translator, MaskFiller, Classifier or TextEncoder.

    Raises:
        EntryError: see `archive.load_entry`.
        UserError: if the entry is none of `wanted`.
    """
    architecture = read_entry(folder).config["architecture"]
    use = USES[architecture]
    if wanted and use not in wanted:
        expected = " or ".join(one.__name__ for one in wanted)
        raise UserError(
            f"{folder} is a {architecture}, used as a {use.__name__}. Expected: a model used as a {expected}; "
            "`keras-attention zoo list` shows what there is."
        )
    entry, model, tokenizers = load_entry(folder)
    config = entry.config
    if use is not Translator:
        settings = {"task": config["task"]} if use is Classifier else {}
        return use(model, tokenizers["text"], max_tokens=config["max_tokens"], **settings)
    return Translator(
        model,
        tokenizers["source"],
        tokenizers["target"],
        decoding=config["decoding"],
        low_score_threshold=config["low_score_threshold"],
        target_language=config["target_language"],
    )


def load_translator(folder):
    """Loads an entry that must be a translator; see `load_pipeline`."""
    return load_pipeline(folder, Translator)
