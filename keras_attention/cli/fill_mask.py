"""`keras-attention fill-mask`."""

from keras_attention.cli.io.terminal import json_text, silent_libraries
from keras_attention.cli.io.text_files import standard_input_lines
from keras_attention.data.translation.parallel_text import read_lines
from keras_attention.errors import UserError
from keras_attention.zoo.registry import open_entry


def fill_mask(arguments):
    """Prints the best fillings of each text, one per line: joint probability of the words, and the text."""
    if arguments.texts and arguments.input:
        raise UserError("Give texts either as arguments or by --input, not both.")
    entry = open_entry(arguments.model, "fill-mask")
    texts = arguments.texts or (read_lines(arguments.input) if arguments.input else standard_input_lines())
    answers = load(entry).fill_mask(texts, top_k=arguments.top, max_pieces=arguments.pieces)
    for text, fillings in zip(texts, answers, strict=True):
        if arguments.json:
            found = {"text": text, "fillings": [filling._asdict() for filling in fillings]}
            print(json_text(found))
        else:
            for filling in fillings:
                print(f"{filling.score:.4f}\t{filling.text}")


def load(entry):
    """Loads the masked language model of an entry; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(entry, "fill-mask")
