"""From the folder of an entry to a translator."""

from keras_attention.zoo.archive import load_entry
from keras_attention.zoo.translator import Translator


def load_translator(folder):
    """Loads an entry and readies it for use.

    Args:
        folder: str or Path, see `finding.find_entry`.

    Returns:
        Translator.

    Raises:
        EntryError: see `archive.load_entry`.
    """
    entry, model, source_tokenizer, target_tokenizer = load_entry(folder)
    config = entry.config
    return Translator(
        model,
        source_tokenizer,
        target_tokenizer,
        decoding=config["decoding"],
        low_score_threshold=config["low_score_threshold"],
        target_language=config["target_language"],
    )
