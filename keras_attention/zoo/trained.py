"""From the end of a training to an entry: measured on the test set, described by a card, written."""

from pathlib import Path

from keras_attention.zoo.archive import write_entry
from keras_attention.zoo.scoring import low_score_threshold, scores_on

EXAMPLES = 20


def write_trained(folder, translator, data, *, description, settings, seed, result, facts, start=None):
    """Scores a trained translator on the test pairs and writes it as an entry, in place of one that stands there.

    Args:
        folder: str or Path.
        translator: Translator. For dates, its threshold of low scores is set here, from the validation dates.
        data: TranslationData.
        description: str, one or two sentences for the card.
        settings: dict of JSON types, the recipe's configuration. Of its paths the names alone are kept.
        seed: int.
        result: TrainResult.
        facts: dict, see `training.run_facts`.
        start: Entry that the training began with, or None. Its command, commit and minutes come before those of
            `facts`.

    Returns:
        The list of scores, see `scoring.scores_on`.
    """
    if data.target_language == "iso":
        translator.low_score_threshold = low_score_threshold(translator, data.validation[0])
    scores = scores_on(translator, *data.test, data.target_language, f"{data.name} test", data.several_references)
    sources = list(dict.fromkeys(data.test[0]))
    sources = sources[:: max(1, len(sources) // EXAMPLES)][:EXAMPLES]  # all along a set that is sorted by length
    outputs = translator.translate(sources)
    settings = {**settings, "out": Path(folder).name, "data_dir": Path(settings.get("data_dir", "")).name}
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
        "limits": data.limits,
        "examples": [{"source": s, "output": o} for s, o in zip(sources, outputs, strict=True)],
        "training": {**settings, "history": result.history},
    }
    about = {
        "source_language": data.source_language,
        "target_language": data.target_language,
        "decoding": translator.decoding,
        "low_score_threshold": translator.low_score_threshold,
    }
    tokenizers = {"source": translator.source_tokenizer, "target": translator.target_tokenizer}
    write_entry(folder, translator.model, tokenizers, about=about, metrics=metrics, overwrite=True)
    return scores
