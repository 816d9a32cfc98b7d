"""What a server allows its clients."""

from typing import NamedTuple

from keras_attention.errors import UserError


class ServerSettings(NamedTuple):
    """The limits of a server. Whatever goes beyond them is refused, and nothing is cut silently.

    Attributes:
        concurrency: int > 0, requests answered at a time; who comes then is sent away with 503.
        max_batch: int, a power of two: rows of different requests that are computed together.
        items: int > 0, texts in a request.
        characters: int > 0, in a text.
        body_bytes: int > 0, of a request; no more than that is ever read.
        seconds: float > 0, until a request must have arrived, and again until its answer is there.
        beam: int > 0 or None, beam size of the translators; None for each model's own.
    """

    concurrency: int = 64
    max_batch: int = 8
    items: int = 64
    characters: int = 2000
    body_bytes: int = 1_000_000
    seconds: float = 10.0
    beam: int | None = None

    def checked(self):
        """The settings; raises UserError if one is out of range."""
        for name, value in self._asdict().items():
            if value is not None and not 0 < value <= 1_000_000:
                raise UserError(f"`{name}` must lie above 0, and at 1,000,000 at most. Received: {name}={value}")
        if self.max_batch & (self.max_batch - 1):
            raise UserError(f"`max_batch` must be a power of two. Received: max_batch={self.max_batch}")
        return self

    @property
    def batch_sizes(self):
        """list of int, the powers of two up to `max_batch`: batches of other sizes are filled up."""
        return [1 << power for power in range(self.max_batch.bit_length())]
