"""Writes the result of a training as a zoo entry, with its scores and its card."""

from pathlib import Path

import numpy as np

from keras_attention.evaluation.masked_lm_scores import SCORE_NAMES
from keras_attention.evaluation.translation_scores import low_score_threshold, scores_on
from keras_attention.models import BertMaskedLM
from keras_attention.pipelines.base import load_pipeline
from keras_attention.pipelines.mask_filler import MaskFiller
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.publishing.alignment_heads import alignment_heads
from keras_attention.support.blank_texts import is_blank
from keras_attention.support.errors import UserError
from keras_attention.visualize.score_plots import completion_plot, learning_curve_plot
from keras_attention.zoo.entry_io import rewrite_entry, write_entry

EXAMPLES = 20


def write_trained(folder, translator, data, *, description, settings, seed, result, facts, start=None, overwrite=False):
    """Scores a trained translator on the test pairs and writes it as an entry.

    Args:
        folder: str or Path.
        translator: Translator. Its `low_score_threshold` is set here, see `low_score_rule`, and its `alignment_heads`,
            unless it has some.
        data: TranslationData.
        description: str, one or two sentences for the card.
        settings: dict of JSON types, the recipe's configuration. Paths are stored without their folders.
        seed: int.
        result: TrainResult.
        facts: dict, see `training.history.run_facts`.
        start: Entry from which the training started, or None. Its command, commit and minutes are added before those
            of `facts`.
        overwrite: bool. Whether to replace an existing entry.

    Returns:
        The list of scores, see `translation_scores.scores_on`.
    """
    translator.low_score_threshold, rule = low_score_rule(translator, data)
    if translator.alignment_heads is None:
        translator.alignment_heads = alignment_heads(translator, *data.train)
    scores = scores_on(translator, *data.test, data.target_language, f"{data.name} test", data.several_references)
    sources = list(dict.fromkeys(data.test[0]))
    sources = sources[:: max(1, len(sources) // EXAMPLES)][:EXAMPLES]  # short and long ones, if sorted by length
    outputs = translator.translate(sources)
    names = {name: Path(settings[name]).name for name in ("data_dir", "vectors") if name in settings}
    settings = {**settings, "out": Path(folder).name, **names}
    settings["extra"] = [Path(path).name for path in settings.get("extra", ())]
    before = start.metrics if start else {"command": "", "commit": "", "minutes": 0.0}
    metrics = {
        "description": description,
        "data": [data.origin],
        **facts,
        "command": "\n".join(filter(None, [before["command"], facts["command"]])),
        "commit": ", then ".join(filter(None, [before["commit"], facts["commit"]])),
        "minutes": before["minutes"] + result.seconds / 60,
        "seeds": [seed],
        "parameters": translator.model.count_params(),
        "scores": scores,
        "low_score": rule,
        "limits": data.limits,
        "examples": [{"source": s, "output": o} for s, o in zip(sources, outputs, strict=True)],
        "training": {**settings, "history": result.history},
    }
    about = {
        "source_language": data.source_language,
        "target_language": data.target_language,
        "decoding": translator.decoding,
        "low_score_threshold": translator.low_score_threshold,
        "alignment_heads": translator.alignment_heads,
    }
    tokenizers = {"source": translator.source_tokenizer, "target": translator.target_tokenizer}
    write_entry(folder, translator.model, tokenizers, about=about, metrics=metrics, overwrite=overwrite)
    return scores


def translator_for(folder, data):
    """The Translator in a folder, whose languages are those of TranslationData; UserError if they are others."""
    translator = load_pipeline(folder, "translate")
    config = translator.entry.config
    languages = config["source_language"], config["target_language"]
    if languages != (data.source_language, data.target_language):
        raise UserError(
            f"{folder} translates from {' to '.join(languages)}. Received sentences from {data.source_language} to "
            f"{data.target_language}. Choose them with --source and --target."
        )
    return translator


SHARES = {"iso": 0.001}  # by target language, the share of good inputs that may be marked; 0.05 for all others
MOST_SENTENCES = 1000


def low_score_rule(translator, data):
    """Chooses the threshold of `low_score` on the validation sentences, never on the test set.

    Args:
        translator: Translator, which searches with its own settings.
        data: TranslationData. Of more than `MOST_SENTENCES` different sentences, equally spaced ones are used.

    Returns:
        Pair of the `low_score_threshold`, and the facts for the card: {"set", "sentences", "share"}.
    """
    sources = list(dict.fromkeys(text for text in data.validation[0] if not is_blank(text)))
    chosen = np.linspace(0, len(sources) - 1, min(len(sources), MOST_SENTENCES)).astype(int)
    share = SHARES.get(data.target_language, 0.05)
    threshold = low_score_threshold(translator, [sources[i] for i in chosen], share)
    return threshold, {"set": f"{data.name} validation", "sentences": len(chosen), "share": share}


GAPS = ("The function returns a [MASK] of strings.", "This [MASK] is raised when the file does not [MASK].",
        "The capital of France is [MASK].", "He was born in [MASK] and died in 1950.")  # fmt: skip
LIMITS = ["Intended for fine-tuning. Its predictions reflect the training texts, not facts."]
PROTEIN_LIMITS = [
    "It knows proteins by their residues only, not their structures or functions, and its answers are no evidence for "
    "the effect of a mutation."
]


def write_pretrained(
    folder, model, tokenizer, *, scores, settings, result, facts, start=None, overwrite=False, proteins=None
):
    """Writes a masked language model as an entry.

    Args:
        folder: str or Path.
        model: BertMaskedLM, built.
        tokenizer: WordPieceTokenizer or AminoAcidTokenizer.
        scores: dict of float, measured on the validation texts.
        settings: dict of JSON types, the recipe's configuration. `text` has the names of the text files, or is empty if
            the model was trained on Python's docstrings, or on proteins made by rules.
        result: TrainResult.
        facts: dict, see `training.history.run_facts`.
        start: Entry from which the training started, or None. Its command, commit and minutes are added before those
            of `facts`.
        overwrite: bool. Whether to replace an existing entry.
        proteins: ProteinReport of a model of proteins, or None.

    Returns:
        List of (text with masks, text with the masks filled).
    """
    filler = MaskFiller(model, tokenizer, settings["max_tokens"])
    gaps = proteins.gaps if proteins else list(GAPS)
    filled = [(gap, best.text) for gap, (best, *_) in zip(gaps, filler.fill_mask(gaps, top_k=1), strict=True)]
    history = _continued(start, result.history)
    tokens = sum(entry["tokens"] for entry in history)
    texts = settings["text"]
    terms = "as stated by its owner" if texts else "Python Software Foundation License"
    data = {"name": ", ".join(texts or ["docstrings of the Python standard library"]), "terms": terms, "link": ""}
    if proteins and not texts:
        data |= {"name": "proteins made by rules", "terms": "Apache-2.0"}
    what = ("proteins", "residues") if proteins else ("texts", "tokens")
    measured = ", ".join(settings["validation"]) or "validation"
    measured_on = {"set": measured, "signature": f"{settings['mask_rate']:.0%} masked, seed 0"}
    before = start.metrics if start else {"command": "", "commit": "", "minutes": 0.0, "data": []}
    metrics = {
        "description": f"Fills gaps in {what[0]}. It also turns {what[0]} into vectors, and your own classifier can be "
        f"fine-tuned from it. BERT with {settings['num_layers']} layers. Trained on {tokens:,.0f} masked {what[1]}.",
        "data": [*before["data"], data],
        **facts,
        "command": "\n".join(filter(None, [before["command"], facts["command"]])),
        "commit": ", then ".join(filter(None, [before["commit"], facts["commit"]])),
        "minutes": before["minutes"] + result.seconds / 60,
        "seeds": [settings["seed"]],
        "parameters": model.count_params(),
        "scores": [{**measured_on, "metric": SCORE_NAMES[name], "value": value} for name, value in scores.items()],
        "limits": PROTEIN_LIMITS if proteins else LIMITS,
        "examples": [{"source": gap, "output": text} for gap, text in filled],
        "training": {**settings, "history": history},
    }
    about = {"language": settings["language"], "max_tokens": settings["max_tokens"]}
    dtype = "float16" if settings["half_precision"] else "float32"
    curve = "curve.png"
    metrics["pictures"] = [{"file": curve, "caption": "Training and validation loss"}]
    options = {"weights_dtype": dtype, "overwrite": overwrite}
    options["extra_files"] = [lambda entry: learning_curve_plot(history, entry / curve)]
    if proteins:
        metrics["scores"] += proteins.scores
        metrics["pictures"] += proteins.pictures
        options["extra_files"] += proteins.extra_files
    write_entry(folder, model, {"text": tokenizer}, about=about, metrics=metrics, **options)
    return filled


BEGINNINGS = ("", "The", "Return the", "This is")
MUSIC_LIMIT = "It knows only music in four voices and sixteenths, and does not tell a held note from a repeated one."
WRITTEN = "It imitates its training texts. Nothing it writes is checked, and it may be false."


def write_language_model(folder, generator, *, scores, settings, result, facts, start=None, overwrite=False, images=()):
    """Writes a causal language model as an entry.

    Args:
        folder, settings, result, facts, start, overwrite: see `write_pretrained`; the settings also have `data`, the
            name of a data set.
        generator: TextGenerator.
        scores: dict of float by the name of the score, measured on the validation texts.
        images: validation images as texts; the model completes their first halves for a picture on the card. () for a
            model of texts.

    Returns:
        List of (beginning, continuation).
    """
    beginnings = [""] if images or generator.is_music else list(BEGINNINGS)
    written = list(zip(beginnings, generator.answers(beginnings), strict=True))
    history = _continued(start, result.history)
    texts = [settings["data"]] if settings["data"] else settings["text"]
    terms = "as stated by its owner" if texts else "Python Software Foundation License"
    data = {"name": ", ".join(texts or ["docstrings of the Python standard library"]), "terms": terms, "link": ""}
    if generator.is_music:
        names = settings["text"]
        data["name"] = f"music of {', '.join(names)}" if names else "music in four voices, made by rules"
        data["terms"] = terms if names else "Apache-2.0"
    held_out = ", ".join(settings["validation"]) or f"{settings['validation_split']:.1%} of the texts"
    measured_on = {"set": held_out, "signature": f"windows of {settings['max_tokens']}"}
    before = start.metrics if start else {"command": "", "commit": "", "minutes": 0.0, "data": []}
    curve = "curve.png"
    metrics = {
        "description": f"Causal language model with {settings['num_layers']} layers: continues and scores "
        f"{'music in four voices' if generator.is_music else 'texts'}. "
        f"Trained on {sum(entry['tokens'] for entry in history):,.0f} tokens.",
        "data": [*before["data"], data],
        **facts,
        "command": "\n".join(filter(None, [before["command"], facts["command"]])),
        "commit": ", then ".join(filter(None, [before["commit"], facts["commit"]])),
        "minutes": before["minutes"] + result.seconds / 60,
        "seeds": [settings["seed"]],
        "parameters": generator.model.count_params(),
        "scores": [{**measured_on, "metric": name, "value": value} for name, value in scores.items()],
        "limits": [MUSIC_LIMIT if generator.is_music else WRITTEN],
        "examples": [{"source": text, "output": more} for text, more in written],
        "training": {**settings, "history": history},
        "pictures": [{"file": curve, "caption": "Training and validation loss"}],
    }
    about = {**generator.config_keys(), "language": settings["language"]}
    options = {"overwrite": overwrite, "extra_files": [lambda entry: learning_curve_plot(history, entry / curve)]}
    if images:
        half = len(images[0]) // 2
        upper = [image[:half] for image in images]
        only_pixels = {"temperature": 1.0, "top_k": 2}  # two kinds, which a trained model prefers to all other tokens
        drawn = generator.generate(upper, max_tokens=half, seed=0, **only_pixels)
        drawn = [above + below for above, below in zip(upper, drawn, strict=True)]
        picture = {"file": "images.png", "caption": "Images, and their lower halves as the model draws them"}
        metrics["pictures"].append(picture)
        options["extra_files"].append(lambda entry: completion_plot(images, drawn, entry / picture["file"]))
    write_entry(folder, generator.model, generator.tokenizers, about=about, metrics=metrics, **options)
    return written


def write_distilled(folder, student, tokenizer, *, scores, settings, result, facts, overwrite=False):
    """Writes a distilled encoder as an entry with mean pooling, or a distilled masked language model.

    Args:
        folder, tokenizer, settings, result, facts, overwrite: see `write_pretrained`; the settings also have `teacher`
            and `layers`.
        student: BertEncoder or BertMaskedLM, built.
        scores: dict with "cosine" and, of a masked language model, "loss" and "accuracy".
    """
    fills_masks = isinstance(student, BertMaskedLM)
    kind, pipeline = ("Masked language model", MaskFiller) if fills_masks else ("Encoder", TextEncoder)
    teacher, texts = settings["teacher"] or "a random encoder", settings["text"]
    terms = "as stated by its owner"
    data = {"name": ", ".join(texts or ["docstrings of the Python standard library"]), "terms": terms}
    held_out = f"{settings['validation_split']:.1%} of the texts"
    cosine = {"set": held_out, "metric": "cosine to the teacher's vectors", "value": scores["cosine"]}
    on = {"set": held_out, "signature": f"{settings['mask_rate']:.0%} masked, seed 0"}
    of_masks = {metric: scores[name] for name, metric in SCORE_NAMES.items() if name in scores}
    metrics = {
        "description": f"{kind} with {student.settings['num_layers']} layers of {teacher}, distilled from it.",
        "data": [data | {"link": ""}],
        **facts,
        "minutes": result.seconds / 60,
        "seeds": [settings["seed"]],
        "parameters": student.count_params(),
        "scores": [
            cosine | {"signature": ""},
            *({**on, "metric": m, "value": v} for m, v in of_masks.items()),
        ],
        "limits": [
            f"Limited by the quality of its teacher. Training texts had at most {settings['max_tokens']} tokens."
        ],
        "examples": pipeline(student, tokenizer, settings["max_tokens"]).examples(),
        "training": {**settings, "history": result.history},
    }
    about = {"language": settings["language"], "max_tokens": settings["max_tokens"]}
    about |= {"pooling": "mean", "normalize": not fills_masks}
    options = {"weights_dtype": "float16", "overwrite": overwrite}
    write_entry(folder, student, {"text": tokenizer}, about=about, metrics=metrics, **options)


def _continued(start, history):
    """The history of the start followed by that of this training."""
    before = start.metrics.get("training", {}).get("history", []) if start else []
    done = before[-1]["steps"] if before else 0
    return [*before, *({**epoch, "steps": done + epoch["steps"]} for epoch in history)]


def add_to_card(folder, tables, pictures, files):
    """Replaces the tables and pictures on the card of an entry.

    Args:
        folder: str or Path of an entry.
        tables: list of {"title": str, "columns": list of str, "rows": list of lists}.
        pictures: list of {"file": str, "caption": str}.
        files: paths of the picture files, which are copied into the entry.

    Returns:
        Entry.

    Raises:
        EntryError: if the entry is damaged.
    """
    return rewrite_entry(folder, metrics={"tables": tables, "pictures": pictures}, extra_files=files)
