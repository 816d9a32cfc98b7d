"""Whether an entry still does what it did when it was written."""

from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.loading import load_translator


def failing_examples(folder):
    """Runs the stored examples of an entry again, with its own settings of the search.

    Args:
        folder: str or Path.

    Returns:
        Pair of the number of examples and a list of str, one line for each whose output has changed.

    Raises:
        EntryError: if the entry is damaged.
    """
    examples = read_entry(folder).metrics.get("examples", [])
    outputs = load_translator(folder).translate([example["source"] for example in examples])
    problems = [
        f"example {example['source']!r:.60} gives {output!r:.60}, stored is {example['output']!r:.60}"
        for example, output in zip(examples, outputs, strict=True)
        if output != example["output"]
    ]
    return len(examples), problems
