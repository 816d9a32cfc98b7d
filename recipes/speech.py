"""Write what is said: speech recognition with location-aware attention (Chorowski et al. 2015).

    python recipes/speech.py                                   # tones of a telephone's keys, no download
    python recipes/speech.py --data recordings                 # wav files of single digits: 7_theo_3.wav or 7/any.wav
    python recipes/speech.py --data recordings --attention content
    python recipes/speech.py --smoke                           # a few steps, end to end

Recordings of single words are joined to strings with pauses and noise, new ones in each epoch. A folder has the
label of a recording, one character, as a sub-folder or at the beginning of a name, as in the Free Spoken Digit Dataset
(https://github.com/Jakobovski/free-spoken-digit-dataset). No recording of the training is in a string of the test.
"""

from dataclasses import asdict, dataclass
from pathlib import Path

from keras_attention.cli.io.terminal import print_file_model, silent_libraries

with silent_libraries():
    import keras

from keras_attention.cli.main import run_recipe
from keras_attention.data.batches import check_tokens_at_once
from keras_attention.data.drawn_batches import DrawnBatches
from keras_attention.data.sounds.spoken_strings import TONES, TRAINING, joined, load_speech_data
from keras_attention.inputs.sound import LOUDEST, SUFFIXES
from keras_attention.inputs.speech import SpeechInput
from keras_attention.models.speech_recognizer import CHOICES, SETTINGS, SpeechRecognizer
from keras_attention.support.flags import parse_config, setting
from keras_attention.tokenizers import CharacterTokenizer
from keras_attention.training.losses import token_cross_entropy
from keras_attention.training.optim import make_schedule
from keras_attention.training.run import RunSettings
from keras_attention.training.session import Session
from keras_attention.zoo.registry import check_free, claim_entry
from keras_attention.zoo.warm_start import load_start, start_settings, take_weights

RATE, WINDOW, HOP = 8_000, 256, 80  # samples per second, of a frame, and from frame to frame
FRAMES = 6_000  # of the longest recording: a minute
SAMPLE = 32  # strings whose longest one tells the frames of a batch


@dataclass(frozen=True)
class Config(RunSettings):
    data: str = setting(TONES, f"{TONES}, or a folder with recordings of single words")
    validation_split: float = setting(0.06, "share of the recordings for validation")
    start_from: str = setting("", "start from this trained model, with its settings", name="from")
    train_size: int = setting(6_400, "strings of an epoch; each epoch draws new ones")
    most_words: int = setting(8, "words of the longest string in training")
    test_strings: int = setting(500, "strings of the test, for each range of lengths")
    attention: str = setting("location", "by place and content, or by content alone", CHOICES["attention"])
    num_bands: int = setting(40, "mel bands of the spectrogram")
    convolution_dim: int = setting(96, "width of the convolutions")
    encoder_dim: int = setting(96, "width of the GRU in each direction")
    embedding_dim: int = setting(32, "width of the embeddings of words")
    hidden_dim: int = setting(128, "width of the LSTM and of the attention's score function")
    dropout: float = setting(0.2, "share of units dropped")
    label_smoothing: float = setting(0.1, "share of the probability that the targets give to all words")
    epochs: int = setting(16, "passes over new strings")
    rows_per_batch: int = setting(32, "strings of a batch")
    learning_rate: float = setting(2e-3, "peak learning rate of Adam")
    warmup_steps: int = setting(200, "updates until the peak")
    ema_decay: float | None = setting(0.998, "exponential average of the weights; none: the last weights")
    jit_compile: bool | None = setting(False, "compile whole steps with XLA")
    beam_size: int = setting(4, "beams of the search")


SMOKE = {"train_size": 16, "test_strings": 8, "epochs": 1, "rows_per_batch": 8, "convolution_dim": 8, "encoder_dim": 8,
         "embedding_dim": 8, "hidden_dim": 8, "beam_size": 1}  # fmt: skip


def presets(config):
    """The defaults that depend on other flags."""
    return (SMOKE if config.smoke else {}) | start_settings(config.start_from, config)


def main(arguments=None):
    config = parse_config(Config, __doc__, arguments, presets)
    out = config.folder(f"speech_{Path(config.data).name}_{config.attention}")
    session = Session.start(config, out, unit="words", check_out=check_free)
    config, start = session.config, load_start(config.start_from)

    kind = SpeechInput((FRAMES, config.num_bands), RATE, WINDOW, HOP)

    def read(path):
        return kind.read(path).samples / LOUDEST

    data = load_speech_data(config.data, RATE, read, SUFFIXES, config.validation_split)
    # Longer recordings are read in parts that, even without pauses, have no more words than the longest in training.
    kind.part_seconds = max(1.0, round(config.most_words * data.train.mean_seconds(RATE), 1))
    lengths = 1, config.most_words
    tokenizer = start.tokenizers["text"] if start else CharacterTokenizer(data.characters)

    def draw(count, seed):
        strings = joined(data.train, count, seed, RATE, TRAINING._replace(words=lengths))
        return kind.batch([one.waveform for one in strings], total_multiple=64), [one.text for one in strings]

    # "values" (B, frames, bands): log-mel spectrograms from -1 to 1, then padding; "labels" (B, T) = y_1 y_2 ... END,
    # and "target_ids" (B, T), the labels shifted to the right: each word is predicted from the true words before it.
    sizes = config.train_size, config.rows_per_batch, config.most_words + 1
    batches = DrawnBatches(draw, tokenizer.encode, *sizes, config.seed)
    spectrograms, _ = draw(min(config.rows_per_batch, SAMPLE), [config.seed])
    check_tokens_at_once(config.rows_per_batch, spectrograms.shape[1], config.accumulate, "frames")
    settings = {name: value for name, value in asdict(config).items() if name in SETTINGS}
    model = SpeechRecognizer(tokenizer.vocabulary_size, **settings)
    model.build()
    if start:
        take_weights(model, start.model)
    if scored := keras.backend.backend() == "tensorflow":
        from keras_attention.publishing import speech_entries

        claim_entry(session.out, config.overwrite)
        examples = speech_entries.spoken_strings(data.test, speech_entries.EXAMPLES, 4, RATE, lengths)
        transcriber = speech_entries.transcriber_of(model, tokenizer, kind, examples, config.beam_size)
        held = speech_entries.spoken_strings(data.validation, 16 if config.smoke else 256, 1, RATE, lengths)

    total_steps = config.epochs * len(batches.epoch(0))
    print(f"{data.summary}, {model.count_params():,} parameters, {total_steps:,} updates")
    print(session.description)
    rate = make_schedule("cosine", config.learning_rate, min(config.warmup_steps, total_steps // 2), total_steps)
    optimizer = keras.optimizers.Adam(rate)

    def objective(model, inputs, labels):
        """-log p of each word, smoothed: its probability is 1 - s, and s is shared among all words."""
        return token_cross_entropy(labels, model(inputs, training=True), label_smoothing=config.label_smoothing)

    update = session.compile(model, optimizer, objective, clip_norm=1.0, ema_decay=config.ema_decay)
    with session:  # checkpoints, resume, Ctrl-C
        for epoch in session.epochs(batches, config.epochs, monitor="val_exact"):
            for batch in epoch:
                epoch.record(update(batch))  # gradient of the mean loss, clipped; a step of Adam
            if scored:
                with session.averaged_weights():
                    scores = speech_entries.transcription_scores(transcriber, held, beam_size=1)
                session.report(**{f"val_{name.split()[0]}": value for name, value in scores.items()})

    if session.finish(weights_only=not scored):  # only in the chief worker
        session.outcome["settings"] |= {"data": Path(config.data).name, "out": session.out.name}
        scores = speech_entries.write_transcriber(session.out, transcriber, data, **session.outcome)
        session.clean_up()
        print_file_model(session.out, scores, "transcribe", kind)


if __name__ == "__main__":
    run_recipe(main, __file__)
