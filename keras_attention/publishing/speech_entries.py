"""Writes a trained speech recognizer as an entry, with its scores and its card."""

from typing import Any

import numpy as np

from keras_attention.data.sounds.spoken_strings import TEST, SpeechData, Spoken, SpokenString, joined
from keras_attention.evaluation.caption_scores import (
    DOUBTED,
    exact_captions,
    low_score_threshold,
    within_words,
    word_error_rate,
)
from keras_attention.pipelines.media.transcriber import Transcriber
from keras_attention.zoo.entry_io import write_entry

EXAMPLES = 6
CHECKED_STRINGS = 150  # of each length
MOST_WORDS = 200  # of a transcript
LIMITS = [
    "The model knows the words of its training, one after the other, and writes any sound as if it were such a string.",
    "Recordings of other people, microphones and rooms than those of the training come out worse.",
    "The attention shows which part of the sound the network reads for a word. The encoder hears what is around it.",
]


def spoken_strings(recordings: Spoken, count: int, seed: int, rate: int, words: tuple[int, int]) -> list[SpokenString]:
    """Strings as in a test: moderate pauses and noise."""
    return joined(recordings, count, [seed, *words], rate, TEST._replace(words=words))


def transcriber_of(model, tokenizer: Any, kind: Any, samples: list[SpokenString], beam_size: int) -> Transcriber:
    """The pipeline of a network that was trained on `SpeechData`; these samples become the examples of its card."""
    decoding = {"beam_size": beam_size, "max_length": MOST_WORDS}
    return Transcriber(model, tokenizer, kind, decoding, samples=[(one.waveform, kind.rate) for one in samples])


def transcription_scores(transcriber: Transcriber, strings: list[SpokenString], **search) -> dict[str, float]:
    """Scores by name: word errors (%), exact transcripts (%), and pointing (%).

    Pointing is the percentage of the words of transcripts of the right length that look between the beginning and the
    end of the word.
    """
    rate = transcriber.kind.rate
    transcripts = transcriber.transcribe([(one.waveform, rate) for one in strings], **search)
    expected = [one.text for one in strings]
    hits = [
        hit
        for one, string in zip(transcripts, strings, strict=True)
        if len(one.words) == len(string.places)
        for hit in within_words(one.times, [(start / rate, end / rate) for start, end in string.places])
    ]
    return {
        "word errors": word_error_rate(transcripts, expected),
        "exact": exact_captions(transcripts, [[text] for text in expected]),
        "pointing": 100 * float(np.mean(hits)) if hits else 0.0,
    }


def write_transcriber(folder, transcriber, data: SpeechData, *, settings, result, facts, overwrite=False):
    """Scores a transcriber on strings of recordings that were not in its training, and writes its entry.

    Args:
        folder: str or Path.
        transcriber: Transcriber.
        data: SpeechData.
        settings: dict of JSON types, the recipe's configuration.
        result: TrainResult.
        facts: dict, see `training.history.run_facts`.
        overwrite: bool. Whether to replace an existing entry.

    Returns:
        Dict of scores by name, of the strings as long as in the training.
    """
    for weight in transcriber.model.weights:  # as they are stored, so that scores and examples are those of the entry
        weight.assign(np.asarray(weight).astype("float16").astype("float32"))
    count, rate, most = settings["test_strings"], transcriber.kind.rate, settings["most_words"]
    lengths = (1, most), (most + 1, 2 * most)  # as in the training, and longer
    some = min(count, CHECKED_STRINGS)
    checked = [one for words in lengths for one in spoken_strings(data.validation, some, 4, rate, words)]
    answers = transcriber.transcribe([(one.waveform, rate) for one in checked])
    transcriber.low_score_threshold = low_score_threshold(answers)
    scores = {
        words: transcription_scores(transcriber, spoken_strings(data.test, count, 2, rate, words)) for words in lengths
    }
    (example,) = spoken_strings(data.test, 1, 3, rate, (6, 6))
    view = transcriber.attention_view((example.waveform, rate))
    picture = {"file": "alignment.png", "caption": f"Where each word of {view.title} looks in its recording"}
    model = transcriber.model
    by = "its place and content" if model.attention == "location" else "content alone"
    metrics = {
        "description": f"Writes strings of spoken {data.named}, such as {example.text}, with attention by {by}. "
        "Convolutions over the spectrogram and a bidirectional GRU, then an LSTM that attends to the sound for each "
        "word (Chorowski et al. 2015).",
        "data": [data.origin],
        **facts,
        "minutes": result.seconds / 60,
        "seeds": [settings["seed"]],
        "parameters": model.count_params(),
        "scores": [
            {
                "set": f"{count} strings of {words[0]} to {words[1]} words, {data.tested_on}",
                "metric": SIGNATURES[metric][0],
                "value": value,
                "signature": SIGNATURES[metric][1],
            }
            for words, by_metric in scores.items()
            for metric, value in by_metric.items()
        ],
        "low_score": {
            "set": f"1 to {2 * most} words of the validation",
            "sentences": len(checked),
            "inputs": "strings",
            "share": DOUBTED,
        },
        "pictures": [picture],
        "limits": [
            _limit_of_length(most, transcriber.kind.part_seconds),
            f"A recording has at most {transcriber.kind.seconds:.0f} seconds.",
            *LIMITS,
        ],
        "examples": transcriber.examples(),
        "training": {**settings, "history": result.history},
    }
    draw = [lambda place: view.save(place / picture["file"])]
    files = [*transcriber.extra_files, *draw]
    options = {"about": transcriber.config_keys(), "extra_files": files, "overwrite": overwrite}
    write_entry(folder, model, transcriber.tokenizers, metrics=metrics, weights_dtype="float16", **options)
    return scores[lengths[0]]


def _limit_of_length(most_words, part_seconds):
    trained = f"The network is trained on strings of up to {most_words} words."
    if part_seconds is None:
        return f"{trained} In longer ones, it leaves out words."
    return f"{trained} Recordings above {part_seconds:.3g} seconds are cut at pauses, or else within a word."


SIGNATURES = {
    "word errors": ("word errors (%)", "edit distance by words of the reference"),
    "exact": ("exact transcripts (%)", "all words equal"),
    "pointing": ("pointing (%)", "words whose mean time by attention is within the word"),
}
