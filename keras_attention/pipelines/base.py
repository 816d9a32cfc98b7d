"""From the folder of an entry to something that answers texts, and whether it still answers as it did."""

from keras_attention.errors import UserError
from keras_attention.evaluation.bag_of_words import BagOfWords, Blend
from keras_attention.pipelines.classifier import Classifier
from keras_attention.pipelines.mask_filler import MaskFiller
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.pipelines.translator import Translator
from keras_attention.zoo.archive import load_entry
from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.words_file import load_words


def answers_to(pipeline, sources, sources_b=None):
    """What the model says to each source, with its own settings.

    Args:
        pipeline: Translator, Classifier, MaskFiller, or a TextEncoder, which says nothing.
        sources: list of str.
        sources_b: list of str for a classifier of pairs, else None.

    Returns:
        List of str: the translation; the label, of several the labels joined, of a number two decimals; the text with
        its gaps filled. Empty for a TextEncoder.
    """
    if isinstance(pipeline, Translator):
        return pipeline.translate(sources)
    if isinstance(pipeline, Classifier):
        return [label_text(label, pipeline.task) for label in pipeline.classify(sources, sources_b)]
    if isinstance(pipeline, MaskFiller):
        return [best.text for best, *_ in pipeline.fill_mask(sources, top_k=1)]
    return []


def label_text(label, task):
    """A label as it would stand in a table: str; "unsure" where none is probable enough."""
    if label is None:
        return "unsure"
    if task["kind"] == "multilabel":
        return task["separator"].join(label)
    return f"{label:.2f}" if task["kind"] == "regression" else label


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
        named = {Classifier: ("task",), TextEncoder: ("pooling", "normalize")}.get(use, ())
        settings = {name: config[name] for name in named}
        if use is Classifier:
            settings["blend"] = load_blend(entry)
        return use(model, tokenizers["text"], max_tokens=config["max_tokens"], **settings)
    return Translator(
        model,
        tokenizers["source"],
        tokenizers["target"],
        decoding=config["decoding"],
        low_score_threshold=config["low_score_threshold"],
        target_language=config["target_language"],
    )


def load_blend(entry):
    """The Blend of an entry of a classifier, or None where the network judges alone."""
    if entry.config["words"] is None:
        return None
    terms, arrays = load_words(entry)
    return Blend(BagOfWords(terms, **arrays), entry.config["words"]["weight"])


def load_translator(folder):
    """Loads an entry that must be a translator; see `load_pipeline`."""
    return load_pipeline(folder, Translator)


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
