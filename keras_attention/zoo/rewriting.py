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
    entry, model, tokenizers = load_entry(folder)
    described = ("format_version", "architecture", "model", "tokenizer", "weights_dtype")
    return write_entry(
        folder,
        model,
        tokenizers,
        about={name: value for name, value in entry.config.items() if name not in described},
        metrics={**entry.metrics, "tables": tables, "pictures": pictures},
        weights_dtype=entry.config["weights_dtype"],
        extra_files=files,
        overwrite=True,
    )
