"""Whether an entry still does what it did when it was written."""

from keras_attention.zoo.answers import answers_to
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.loading import load_pipeline


def failing_examples(folder):
    """Runs the stored examples of an entry again, with its own settings.

    Args:
        folder: str or Path.

    Returns:
        Pair of the number of examples and a list of str, one line for each whose output has changed.

    Raises:
        EntryError: if the entry is damaged.
    """
    examples = read_entry(folder).metrics.get("examples", [])
    pipeline = load_pipeline(folder)
    if not examples:
        return 0, []
    pairs = "source_b" in examples[0]
    sources_b = [example.get("source_b", "") for example in examples] if pairs else None
    outputs = answers_to(pipeline, [example["source"] for example in examples], sources_b)
    problems = [
        f"example {example['source']!r:.60} gives {output!r:.60}, stored is {example['output']!r:.60}"
        for example, output in zip(examples, outputs, strict=True)
        if output != example["output"]
    ]
    return len(examples), problems
