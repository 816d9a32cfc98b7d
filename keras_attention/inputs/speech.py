"""Recordings of speech as inputs: sounds that are read whole, however long they are, in parts if they are long."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_attention.inputs.sound import LOUDEST, Recording, SoundInput, as_samples, mono, resampled
from keras_attention.support.errors import UserError

if TYPE_CHECKING:
    import numpy as np

PADDING = -2.0  # the values of frames after the end, as `models.SpeechRecognizer` expects them
MULTIPLE = 4  # of the number of frames
PAUSE = 0.16  # seconds over which loudness is measured, to find pauses
LARGE_OFFSET = 0.5  # standard deviations; beside a larger one, softer sounds are not seen. Training had smaller ones
STEADY = 4  # times the power of its softest moment that the loudest of a part without speech has at most


class SpeechInput(SoundInput):
    """One recording, brought to the rate of a network, as a log-mel spectrogram with as many frames as it needs.

    It is read in the forms of `SoundInput`. Nothing is cut off: a longer recording than the network takes is refused. A
    large constant offset is taken away.

    Args:
        size: (frames, bands), the most frames of a recording, and the mel bands of the network's input.
        rate: int, samples per second.
        window: int, samples of a frame.
        hop: int, samples from frame to frame.
        part_seconds: float >= 1 or None. A longer recording is read in parts, see `parts`; with None, in one.

    Raises:
        ValueError: if an argument is out of range.
    """

    padding = {"values": PADDING}

    def __init__(
        self,
        size: Sequence[int],
        rate: int = 8_000,
        window: int = 256,
        hop: int = 80,
        part_seconds: float | None = None,
    ):
        super().__init__(size, rate, window, hop)
        if part_seconds is not None and not part_seconds >= 1:
            raise ValueError(f"`part_seconds` must be at least 1. Received: {part_seconds}")
        self.part_seconds = part_seconds
        if len(self.size) != 2 or self.size[0] % MULTIPLE:
            raise ValueError(f"`size` must be (frames, bands), frames a multiple of {MULTIPLE}. Received: {self.size}")

    def config_keys(self) -> dict[str, Any]:
        """The arguments other than the bands, for config.json: dict of JSON types."""
        parts = {} if self.part_seconds is None else {"part_seconds": self.part_seconds}
        return {**super().config_keys(), "frames": self.size[0], **parts}

    @property
    def seconds(self) -> float:
        """float > 0, the longest recording."""
        return self.length / self.rate

    def parts(self, value: Recording) -> list[tuple[int, Recording]]:
        """Cuts a long recording at pauses: a network that has only learned short strings ends too early in long ones.

        Returns:
            List of (frame at which a part begins, a multiple of MULTIPLE; Recording), in order. Each part but the last
            is between half of `part_seconds` and all of it long, and ends where the recording is softest. Parts that
            are evenly soft or loud, such as silence or noise, are left out; if all are, only the first is read.
        """
        import numpy as np

        if self.part_seconds is None or len(value.samples) <= self.part_seconds * self.rate:
            return [(0, value)]
        step = MULTIPLE * self.hop
        longest, width = max(2, int(self.part_seconds * self.rate / step)), max(1, round(PAUSE * self.rate / step))
        whole = value.samples[: len(value.samples) // step * step].astype("float64")
        power = np.square(whole - whole.mean())  # a constant offset is not loud
        loudness = np.convolve(power.reshape(-1, step).sum(axis=1), np.ones(width), "same")
        starts = [0]
        while len(loudness) - starts[-1] > longest:
            first = starts[-1] + longest // 2
            starts.append(first + int(np.argmin(loudness[first : starts[-1] + longest])))
        pieces, levels = np.split(value.samples, np.multiply(starts[1:], step)), np.split(loudness, starts[1:])
        parts = [(MULTIPLE * start, Recording(piece, False)) for start, piece in zip(starts, pieces, strict=True)]
        spoken = [level.max(initial=0) > STEADY * level.min(initial=np.inf) for level in levels]
        return [part for part, is_spoken in zip(parts, spoken, strict=True) if is_spoken] or parts[:1]

    def arrays(self, value: Recording) -> dict[str, "np.ndarray"]:
        """What the network reads of a recording: `values`, float32 (frames, bands)."""
        return {"values": self.batch([value.samples.astype("float32") / LOUDEST])[0]}

    def batch(self, waveforms: Sequence["np.ndarray"], total_multiple: int = 1) -> "np.ndarray":
        """The values (B, frames, bands) of waveforms at the network's rate, see `spectrogram.padded_log_mel`."""
        from keras_attention.data.sounds.spectrogram import MelSettings, padded_log_mel

        settings = MelSettings(self.rate, self.window, self.hop, 1, self.size[1])
        return padded_log_mel(waveforms, settings, PADDING, MULTIPLE, total_multiple)

    def drawn(self, value: Recording) -> "np.ndarray":
        """The spectrogram (frames, bands) of a recording that `read` has returned, from 0 (silence) to 1."""
        return (self.arrays(value)["values"] + 1) / 2

    def example_arrays(self, length: int = MULTIPLE) -> dict[str, "np.ndarray"]:
        """`arrays` of silence with `length` frames, to compile a network."""
        import numpy as np

        return {"values": np.full((length, self.size[1]), -1, "float32")}

    def _fitted(self, waveform, rate, name):
        seconds = len(waveform) / rate
        if seconds > self.seconds:
            raise UserError(
                f"{name} has {seconds:,.1f} seconds. This model reads up to {self.seconds:.3g}: divide the recording."
            )
        waveform = mono(waveform, name)
        offset = waveform.mean()  # of a cheap sound card
        if abs(offset) > LARGE_OFFSET * waveform.std():
            waveform = waveform - offset
        samples = resampled(waveform, rate, self.rate)[: self.length]  # some rates round to a few more
        return Recording(as_samples(samples), False)
