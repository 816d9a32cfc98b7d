"""Changes what an entry says of itself, and nothing of what it does."""

from keras_attention.zoo.archive import load_entry, write_entry


def add_to_card(folder, tables, pictures, files):
    """Puts tables and pictures into the card of an entry, in place of those it had.

    Args:
        folder: str or Path of an entry.
        tables: list of {"title": str, "columns": list of str, "rows": list of lists}.
        pictures: list of {"file": str, "caption": str}.
        files: paths of the pictures' files, which are copied into the entry.

    Returns:
        Entry.

    Raises:
        EntryError: if the entry is damaged.
    """
    entry, model, source_tokenizer, target_tokenizer = load_entry(folder)
    config = entry.config
    return write_entry(
        folder,
        model,
        source_tokenizer,
        target_tokenizer,
        source_language=config["source_language"],
        target_language=config["target_language"],
        metrics={**entry.metrics, "tables": tables, "pictures": pictures},
        decoding=config["decoding"],
        low_score_threshold=config["low_score_threshold"],
        weights_dtype=config["weights_dtype"],
        extra_files=files,
        overwrite=True,
    )
