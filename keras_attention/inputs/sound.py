"""Sounds as inputs: files that libsndfile reads, arrays, and base64 in JSON."""

import base64
import binascii
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from keras_attention.inputs import Field
from keras_attention.inputs.media_files import file_content
from keras_attention.support.errors import UserError, counted, one_line, quoted

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff")
KINDS = "Sounds are WAV, FLAC, OGG, MP3 or AIFF files."
MAX_FILE_BYTES = 128 << 20
MAX_SECONDS = 600
MAX_WINDOW = 1 << 11  # samples of a frame; the matrix of its Fourier transform grows with the square
MAX_SAMPLES = 64_000_000  # of all channels
RATES = (1_000, 768_000)  # samples per second of a file
MAX_CHANNELS = 32
LONGEST_SIDE = 1_000  # the greatest denominator of a ratio of rates
LOUDEST = 32767
WARP = {"shift": (0.15, 0.04), "scale": (0.12, 0.06), "erase": ((0.2, 1.0), (1.0, 0.2)), "background": -1.0}
_DECODING = threading.BoundedSemaphore(2)  # each may take 500 MB


@dataclass(frozen=True, eq=False)
class Recording:
    """A sound that `SoundInput.read` has brought to the rate and the length of a network.

    Attributes:
        samples: int16 array (L,), one channel; the loudest sample is +-32767.
        truncated: bool. Whether the sound was longer, and its loudest part was taken.
    """

    samples: "np.ndarray"
    truncated: bool


class SoundInput:
    """One sound, brought to the rate and length that a network reads, as a log-mel spectrogram.

    A sound is the name of a file (WAV, FLAC, OGG, MP3, AIFF), its content as bytes, a waveform at the network's rate
    (L,) or (L, channels), the pair of a waveform and its rate, or a dict with `array` and `sampling_rate`. Channels are
    averaged. Of a longer sound, the part with the most energy is read; a shorter one gets silence at both ends. The
    volume has no effect: see `data.sounds.spectrogram.log_mel`.

    Args:
        size: (frames, bands, 1) or (frames, bands) of the network's input.
        rate: int, samples per second.
        window: int, samples of a frame.
        hop: int, samples from frame to frame.

    Raises:
        ValueError: if an argument is out of range.
    """

    name = "sound"
    fields = {"sounds": Field(list[str], "Sounds (WAV, FLAC, OGG, MP3, AIFF) in base64, also as `data:` URLs.", low=1)}
    widget = "sound"
    noun = "sound"
    question = "What do you hear?"
    instruction = "Choose a sound, record one, or try an example."
    is_file = True
    suffixes = SUFFIXES
    plural, simple_model = "sounds", "logistic regression on MFCC"
    drawing = "spectrogram"
    body_bytes = 16_000_000  # a minute in CD quality in base64
    example_suffix, max_example_bytes = ".flac", 512 << 10
    padding: dict = {}  # no axis varies
    exported_shapes = {"waveforms": (None,)}

    def __init__(self, size: Sequence[int], rate: int = 16_000, window: int = 400, hop: int = 160):
        self.size, self.rate, self.window, self.hop = tuple(size), rate, window, hop
        if len(self.size) not in (2, 3) or self.size[2:] not in ((), (1,)) or min(self.size) < 1:
            raise ValueError(f"`size` must be (frames, bands) or (frames, bands, 1). Received: size={self.size}")
        if not (RATES[0] <= rate <= RATES[1] and 1 < window <= MAX_WINDOW and 0 < hop <= 1 << 14):
            raise ValueError(f"`rate`, `window` or `hop` is out of range. Received: {rate}, {window}, {hop}")
        if self.length > MAX_SECONDS * rate:
            raise ValueError(f"A sound has at most {MAX_SECONDS} seconds. Received: {self.length} samples")

    @property
    def length(self) -> int:
        """int > 0, the samples L of a waveform that fills the network's input."""
        return self.window + (self.size[0] - 1) * self.hop

    @classmethod
    def for_sources(cls, sources: Sequence) -> Self:
        """A kind of input that suits most of the sounds: for a network that is trained on them.

        Args:
            sources: sequence of sounds; some of them, equally spaced, are looked at.
        """
        import numpy as np

        some = sources[:: max(1, len(sources) // SOUNDS_TO_READ)]
        rates_and_seconds = [_rate_and_seconds(each) for each in some] or [(16_000, 1.0)]
        rates, seconds = zip(*rates_and_seconds, strict=True)
        rate = int(min(np.median(rates), HIGHEST_RATE))
        length = float(np.clip(np.quantile(seconds, 0.98), *SECONDS))
        hop = max(0.01, length / MOST_FRAMES)  # seconds
        window = max(0.032, 1.6 * hop)
        frames = 8 * max(1, round((length - window) / hop / 8 + 0.5))
        return cls((frames, BANDS, 1), rate, round(window * rate), round(hop * rate))

    @classmethod
    def fits(cls, source: Any) -> bool:
        """Whether a source looks like a sound: by the end of its name, or its type."""
        if isinstance(source, (str, os.PathLike)):
            return str(source).lower().endswith(SUFFIXES)
        return isinstance(source, (tuple, Mapping)) or len(getattr(source, "shape", ())) == 1

    def config_keys(self) -> dict[str, Any]:
        """The arguments other than the size, for config.json: dict of JSON types."""
        return {"rate": self.rate, "window": self.window, "hop": self.hop}

    def signature(self) -> dict[str, tuple[str, str]]:
        """The inputs of an exported model; B is the number of sounds."""
        seconds = self.length / self.rate
        meaning = (
            f"one channel at {self.rate:,} Hz, any volume; of long sounds, the loudest {seconds:.2f} s are read, and "
            "silence fills short ones up"
        )
        return {"waveforms": ("float32 (B, samples)", meaning)}

    def as_list(self, sounds: Any) -> tuple[list, bool]:
        """Converts sounds of any type into a list.

        Returns:
            Pair of the list, and whether `sounds` was a single sound.

        Raises:
            UserError: if it is neither a sound nor an iterable.
        """
        if isinstance(sounds, (str, os.PathLike, bytes, bytearray, Mapping, Recording)) or _is_pair(sounds):
            return [sounds], True
        shape = getattr(sounds, "shape", None)
        if shape is not None and (len(shape) == 1 or (len(shape) == 2 and shape[1] <= 8 < shape[0])):
            return [sounds], True
        if not isinstance(sounds, Iterable):
            raise UserError(
                "Expected a sound (name of a file, bytes, waveform, or pair of waveform and rate), or a list of "
                f"sounds. Received: {type(sounds).__name__}"
            )
        return list(sounds), False

    def read(self, sound: Any) -> Recording:
        """Reads one sound.

        Raises:
            UserError: if the file does not exist, is no sound, is damaged, empty or too long, or the array has another
                shape or type, or numbers that are not finite.
        """
        if isinstance(sound, Recording):
            return sound
        if isinstance(sound, (str, os.PathLike)):
            return self._decoded(file_content(sound, MAX_FILE_BYTES, "sound"), str(sound))
        if isinstance(sound, (bytes, bytearray)):
            return self._decoded(bytes(sound), "The sound")
        waveform, rate = _waveform_and_rate(sound, self.rate)
        return self._fitted(waveform, rate, "The sound")

    def check_file(self, number: int, path: str) -> None:
        """Raises UserError unless there is a file with the header of a sound; decodes nothing. `number` is unused."""
        with _opened(file_content(path, MAX_FILE_BYTES, "sound"), path):
            pass

    def from_json(self, item: str) -> Recording:
        """Reads a sound of a request, in base64; see `read`.

        Raises:
            UserError: also if it is not valid base64.
        """
        head, comma, content = item.partition(",")
        encoded = "".join((content if comma and head.startswith("data:") else item).split())
        try:
            content = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise UserError(f"A sound must be base64 of a file. Received: {quoted(item, 40)}") from None
        return self._decoded(content, "The sound")

    def file_as_json(self, path: Path) -> str:
        """The sound in a file as an item of a request: base64 of its content."""
        return base64.b64encode(path.read_bytes()).decode()

    def arrays(self, value: Recording) -> dict[str, "np.ndarray"]:
        """What the network reads of a sound: `values`, float32 of the network's size, see `values_of`."""
        import numpy as np

        return {"values": np.asarray(self.values_of(value.samples[None].astype("float32") / LOUDEST))[0]}

    def drawn(self, value: Recording) -> "np.ndarray":
        """The spectrogram (frames, bands) of a sound that `read` has returned, from 0 (silence) to 1."""
        return (self.arrays(value)["values"].reshape(self.size[:2]) + 1) / 2

    def values_of(self, waveforms: Any) -> Any:
        """The values (B, *size) of waveforms (B, L) from -1 to 1, array or tensor."""
        from keras import ops

        from keras_attention.data.sounds.spectrogram import MelSettings, log_mel

        frames, bands = self.size[:2]
        values = log_mel(waveforms, MelSettings(self.rate, self.window, self.hop, frames, bands))
        return values if len(self.size) == 2 else ops.expand_dims(values, -1)

    def features(self, values: Any) -> Any:
        """What a simple model reads of values (B, *size): tensor (B, D), see `spectrogram.cepstral_statistics`."""
        from keras_attention.data.sounds.spectrogram import cepstral_statistics

        return cepstral_statistics(values if len(self.size) == 2 else values[..., 0])

    def augmented(self, arrays: dict[str, "np.ndarray"], numbers: "np.ndarray", flip: bool) -> dict[str, "np.ndarray"]:
        """`arrays` of a sound for training: moved and scaled in time and pitch, frames and bands erased at random.

        Erased frames and bands: Park et al. (2019), SpecAugment, https://arxiv.org/abs/1904.08779. `flip` is for
        pictures.
        """
        from keras_attention.data.augmentation import Warp, warped

        values = arrays["values"].reshape(*self.size[:2], -1)
        return {"values": warped(values, numbers, Warp(**WARP)).reshape(self.size)}

    def example_arrays(self, length: int = 1) -> dict[str, "np.ndarray"]:
        """`arrays` of silence, to compile a network; `length` is unused, because no axis varies."""
        import numpy as np

        return {"values": np.full(self.size, -1, "float32")}

    def exported_arrays(self) -> dict[str, "np.ndarray"]:
        """One input of an exported model, by the names of `signature`."""
        import numpy as np

        return {"waveforms": np.zeros(self.length, "float32")}

    def from_exported(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """What the network reads, tensors (B, ...), from the inputs of an exported model, in a TensorFlow graph."""
        import tensorflow as tf
        from keras import ops

        waveforms = tf.debugging.check_numerics(inputs["waveforms"], "Expected: finite samples")
        length = self.length
        for most in (2 * length, length):  # as in `_fitted`
            waveforms = _loudest_parts(waveforms, tf.minimum(most, tf.shape(waveforms)[1]))
        missing = length - tf.shape(waveforms)[1]
        waveforms = ops.pad(waveforms, [[0, 0], [missing // 2, missing - missing // 2]])
        loudest = tf.reduce_max(tf.abs(waveforms), axis=1, keepdims=True)  # (B, 1)
        waveforms = tf.ensure_shape(waveforms / tf.maximum(loudest, 1e-20), (None, length))
        return {"values": self.values_of(waveforms)}

    def write_example(self, value: Recording, path: Path) -> None:
        """Writes a sound that `read` has returned as FLAC; `read` gives the same samples again."""
        import soundfile

        soundfile.write(path, value.samples, self.rate, format="FLAC", subtype="PCM_16")

    def _decoded(self, content, name):
        with _DECODING, _opened(content, name) as file:
            try:
                # The number of frames is needed where libsndfile cannot seek, as in GSM 6.10.
                waveform = file.read(file.frames, dtype="float32", always_2d=True)
            except Exception as error:  # libsndfile's decoders raise many types for damaged files
                raise UserError(f"{name} is damaged: {one_line(error) or type(error).__name__}") from error
            return self._fitted(waveform, file.samplerate, name)

    def _fitted(self, waveform, rate, name):
        """The Recording of a waveform (samples, channels)."""
        import numpy as np

        waveform, length = mono(waveform, name), self.length
        cut = len(waveform) > 2 * length * rate / self.rate
        if cut:  # only the part that is read is worth a good filter
            waveform = _loudest_part(waveform, int(2 * length * rate / self.rate))
        waveform = resampled(waveform, rate, self.rate)
        cut = cut or len(waveform) > length
        if len(waveform) > length:
            waveform = _loudest_part(waveform, length)
        missing = length - len(waveform)
        return Recording(as_samples(np.pad(waveform, (missing // 2, missing - missing // 2))), cut)


def mono(waveform: "np.ndarray", name: str) -> "np.ndarray":
    """One channel (samples,), the mean of a waveform (samples, channels) whose largest number becomes 1.

    Raises:
        UserError: if it has no samples, or a number is not finite.
    """
    import numpy as np

    if not len(waveform):
        raise UserError(f"{name} has no samples. {KINDS}")
    if not np.isfinite(waveform).all():
        raise UserError(f"{name} holds NaN or infinity. Expected: finite samples.")
    largest = float(np.abs(waveform).max())
    return (waveform / (largest or 1.0)).mean(axis=1, dtype="float64")


def resampled(waveform: "np.ndarray", rate: int, new_rate: int) -> "np.ndarray":
    """A waveform (samples,) at another rate."""
    if rate == new_rate:
        return waveform
    from scipy.signal import resample_poly

    ratio = Fraction(new_rate, int(rate)).limit_denominator(LONGEST_SIDE)
    return resample_poly(waveform, max(1, ratio.numerator), ratio.denominator)


def as_samples(waveform: "np.ndarray") -> "np.ndarray":
    """int16 array of a waveform; the loudest sample becomes +-32767."""
    import numpy as np

    return np.rint(LOUDEST * waveform / (np.abs(waveform).max() or 1.0)).astype("int16")


SOUNDS_TO_READ = 200
HIGHEST_RATE = 22_050
SECONDS = (0.4, 10.0)  # of the sounds for a new network
MOST_FRAMES, BANDS = 192, 64


def _loudest_part(waveform, length):
    """The `length` samples in a row with the most energy."""
    import numpy as np

    energy = np.concatenate([[0.0], np.cumsum(np.square(waveform))])
    start = int(np.argmax(energy[length:] - energy[:-length]))
    return waveform[start : start + length]


def _loudest_parts(waveforms, length):
    """The same as `_loudest_part` in a graph: tensor (B, length) of waveforms (B, L)."""
    import tensorflow as tf

    energy = tf.cumsum(tf.square(tf.cast(waveforms, tf.float64)), axis=1)
    energy = tf.pad(energy, [[0, 0], [1, 0]])
    starts = tf.argmax(energy[:, length:] - energy[:, : tf.shape(energy)[1] - length], axis=1, output_type=tf.int32)
    return tf.gather(waveforms, starts[:, None] + tf.range(length), batch_dims=1)


def _rate_and_seconds(source):
    """Rate and duration of a sound, from the header of its file or from its array."""
    if isinstance(source, (str, os.PathLike, bytes, bytearray)):
        inside = isinstance(source, (bytes, bytearray))
        name = "The sound" if inside else str(source)
        with _opened(bytes(source) if inside else file_content(source, MAX_FILE_BYTES, "sound"), name) as file:
            return file.samplerate, file.frames / file.samplerate
    waveform, rate = _waveform_and_rate(source, 16_000)
    return rate, len(waveform) / rate


def _is_pair(sound):
    """Whether it is a pair of a waveform and its rate."""
    return isinstance(sound, tuple) and len(sound) == 2 and any(_is_whole(part) for part in sound)


def _is_whole(part):
    if isinstance(part, bool) or getattr(part, "shape", ()) != ():
        return False
    return hasattr(part, "__index__") or (isinstance(part, float) and part.is_integer())


def _waveform_and_rate(sound, rate):
    """A waveform (samples, channels) in floats, and its rate; `rate` for a waveform alone."""
    import numpy as np

    if isinstance(sound, Mapping):
        if not {"array", "sampling_rate"} <= set(sound):
            raise UserError("A sound as a dict must have `array` and `sampling_rate`.")
        if not _is_whole(sound["sampling_rate"]):
            raise UserError(
                f"The rate of a sound must be a whole number. Received: {quoted(sound['sampling_rate'], 40)}"
            )
        sound = sound["array"], sound["sampling_rate"]
    if _is_pair(sound):
        first, second = sound
        waveform, rate = (second, first) if _is_whole(first) else (first, second)
        if not RATES[0] <= int(rate) <= RATES[1]:
            raise UserError(f"The rate of a sound must be from {RATES[0]:,} to {RATES[1]:,} Hz. Received: {rate}")
    else:
        waveform = sound
    try:
        array = np.asarray(waveform)
    except Exception as error:  # any object that a user passes
        raise UserError(f"A sound cannot be a {type(sound).__name__}.") from error
    if array.ndim not in (1, 2) or array.dtype.kind not in "iuf" or not array.size:
        raise UserError(
            "A sound must be an array of numbers (samples) or (samples, channels). "
            f"Received: {type(sound).__name__} with the shape {array.shape}"
        )
    if array.ndim == 2 and array.shape[1] > MAX_CHANNELS:
        raise UserError(f"A sound has at most {MAX_CHANNELS} channels. Received: the shape {array.shape}")
    if array.size > MAX_SAMPLES or len(array) > MAX_SECONDS * rate:
        raise UserError(f"A sound has at most {MAX_SECONDS} seconds. Received: {len(array) / rate:,.0f}")
    if array.dtype == "uint8":  # as in WAV files of 8 bits
        array = array.astype("float32") - 128
    array = array.astype("float64") if array.dtype.itemsize > 4 else array.astype("float32")
    return array.reshape(len(array), -1), int(rate)


def _looks_like_sound(content):
    """Whether the first bytes are those of a known format, so that no other parser of libsndfile runs."""
    head, form = content[:4], content[8:12]
    if head in (b"RIFF", b"RIFX", b"RF64"):
        return form == b"WAVE"
    if head == b"FORM":
        return form in (b"AIFF", b"AIFC")
    mp3 = content[:3] == b"ID3" or (len(content) > 1 and content[0] == 0xFF and content[1] & 0xE0 == 0xE0)
    return head in (b"fLaC", b"OggS") or mp3


def _opened(content, name):
    """The sound in a file's content; only its header is read."""
    import soundfile

    if not content:
        raise UserError(f"{name} is empty. {KINDS}")
    if not _looks_like_sound(content):
        raise UserError(f"{name} is not a sound that can be read. {KINDS}")
    try:
        file = soundfile.SoundFile(BytesIO(content))
    except Exception as error:  # libsndfile's parsers raise many types for damaged files
        reason = one_line(getattr(error, "error_string", error))  # without the name of an object
        raise UserError(f"{name} is not a sound that can be read ({reason}). {KINDS}") from error
    try:
        _check_size(file, name)
    except UserError:
        file.close()
        raise
    return file


def _check_size(file, name):
    if not RATES[0] <= file.samplerate <= RATES[1]:
        raise UserError(f"{name} has {file.samplerate:,} samples a second. Allowed: {RATES[0]:,} to {RATES[1]:,}")
    if file.channels > MAX_CHANNELS:
        raise UserError(f"{name} has {file.channels:,} channels. Allowed: {MAX_CHANNELS}")
    if file.frames <= 0:
        raise UserError(f"{name} has no samples. {KINDS}")
    if file.frames > MAX_SECONDS * file.samplerate or file.frames * file.channels > MAX_SAMPLES:
        raise UserError(
            f"{name} has {counted(round(file.frames / file.samplerate), 'second')}. Allowed: up to {MAX_SECONDS}."
        )
