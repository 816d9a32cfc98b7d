"""`keras-attention fill-mask`."""

from keras_attention.cli.io.many_texts import many_texts
from keras_attention.cli.io.terminal import json_text, silent_libraries
from keras_attention.errors import BAD_USAGE, UserError
from keras_attention.zoo.registry import open_entry


def fill_mask(arguments):
    """Prints the best fillings of each text, one per line: joint probability of the words, and the text.

    Returns:
        int, 2 if a text could not be answered, which is told on standard error; the others are answered.
    """
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    entry = open_entry(arguments.model, "fill-mask")
    options, code = {"top_k": arguments.top, "max_pieces": arguments.pieces}, 0
    with many_texts(arguments, entry.folder) as job:
        filler = load(entry)
        filler.fill_mask([], **options)  # are they in range?
        for window in job.windows():
            lines, truncated, notes = [], [], []
            for number, text in enumerate(window.texts, start=window.first):
                try:
                    fillings = filler.fill_mask(text, **options)
                except UserError as error:
                    code = BAD_USAGE
                    notes.append(f"text {number}: {error}")
                    truncated.append(False)
                    continue
                lines += _lines(text, fillings, arguments.json)
                truncated.append(fillings[0].truncated)
            job.write(lines, truncated, notes)
    return code


def _lines(text, fillings, as_json):
    if as_json:
        return [json_text({"text": text, "fillings": [filling._asdict() for filling in fillings]})]
    return [f"{filling.score:.4f}\t{filling.text}" for filling in fillings]


def load(entry):
    """Loads the masked language model of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(entry, "fill-mask")
