"""Transcripts: networks that hear a recording and write what is said."""

from keras_attention.catalog.common import FROM_FILE, LOW_SCORE_DEFAULTS, TEXT_TOKENIZER, VOCABULARY, with_search
from keras_attention.inputs.sound import MAX_WINDOW
from keras_attention.inputs.speech import SpeechInput
from keras_attention.zoo.schema import OBJECT, Activity, Architecture, Task, choice, number, register, whole

SOUND = {
    "rate": whole(1_000, 768_000),
    "window": whole(2, MAX_WINDOW),
    "hop": whole(1, 1 << 14),
    "frames": whole(4, 1 << 16),
    "part_seconds": number(1, 600),
}


def _input_of(config):
    settings = dict(config["sound"])
    return SpeechInput((settings.pop("frames"), config["model"]["num_bands"]), **settings)


def _check(config, where):
    return with_search(config, where, "sound", SOUND, _input_of, optional=("part_seconds",))


TRANSCRIPTION = Task(
    tasks=("transcribe",),
    pipeline="keras_attention.pipelines.media.transcriber:Transcriber",
    method="transcribe",
    inputs=(SpeechInput,),
    input_of=_input_of,
    tokenizers=TEXT_TOKENIZER,
    tokenizer_kinds=("characters",),
    keys={"sound": OBJECT, **FROM_FILE},
    defaults=LOW_SCORE_DEFAULTS,
    title=lambda config: f"speech to {config['language']}",
    reads=lambda config: f"Recordings of speech; transcripts in the language {config['language']}",
    check=_check,
    activity=lambda config: Activity("Write down what is said", SpeechInput.instruction, "Recording of speech"),
)


def _parameters(model):
    bands, convolution, hidden = model["num_bands"], model["convolution_dim"], model["hidden_dim"]
    read, embedding, vocabulary = 2 * model["encoder_dim"], model["embedding_dim"], model["vocabulary_size"]
    convolutions = (5 * bands + 1) * convolution + (5 * convolution + 1) * convolution
    encoder = 3 * read * (convolution + model["encoder_dim"] + 2)
    attention = hidden * (hidden + read + 1 + model["num_filters"]) + model["num_filters"] * model["filter_width"]
    decoder = 4 * hidden * (embedding + read + hidden + 1)
    return convolutions + encoder + attention + decoder + vocabulary * (embedding + hidden + read + 1)


register(
    Architecture(
        name="SpeechRecognizer",
        model="keras_attention.models.speech_recognizer:SpeechRecognizer",
        settings={
            "vocabulary_size": VOCABULARY,
            "num_bands": whole(1, 1024),
            "convolution_dim": whole(1, 8192),
            "encoder_dim": whole(1, 8192),
            "embedding_dim": whole(1, 8192),
            "hidden_dim": whole(1, 8192),
            "attention": choice("location", "content"),
            "num_filters": whole(1, 1024),
            "filter_width": whole(1, 1023),
            "dropout": number(0, 0.99),
        },
        parameters=_parameters,
        task=TRANSCRIPTION,
        detail=lambda settings: f" with attention by {'place and ' * (settings['attention'] == 'location')}content",
    )
)
