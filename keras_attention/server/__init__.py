"""HTTP server for the pipelines, with limits, metrics and a demo page."""

from typing import NamedTuple

from keras_attention.support.errors import UserError


class ServerSettings(NamedTuple):
    """The limits of the server. Requests beyond a limit are refused; nothing is truncated silently.

    Attributes:
        concurrency: int > 0, requests in progress; further requests get status 503.
        max_batch: int, a power of two: maximum number of sequences in a batch across requests.
        items: int > 0, texts per request.
        characters: int > 0, characters per text.
        tokens: int > 0, new tokens per request: prompts x answers to each x `max_tokens`.
        memory_mb: int > 0, MB of key/value caches and activations of all answers in progress; more work waits.
        body_bytes: int > 0, maximum size of a request body.
        seconds: float > 0, time limit for receiving a request, and again for answering it.
        allow_hosts: sequence of str, names of the server in addition to the local ones, see `origins.Origins`.
        allow_origins: tuple of str, origins of pages of other sites that may use the API, see `access.checked_origins`.
        keys: tuple of bytes, the SHA-256 of each key, see `access.read_keys`; empty: no key is needed.
        quota: int > 0 or None, requests that compute, per minute and key.
        beam: int > 0 or None, beam size of the translators; None takes it from each model.
        engine: str, the engine that computes translations, "keras" or another one, see `Pipeline.use_engine`.
        compute_type: str or None, an option of that engine.
    """

    concurrency: int = 64
    max_batch: int = 8
    items: int = 64
    characters: int = 1_000_000
    tokens: int = 32_768
    memory_mb: int = 512
    body_bytes: int = 1_000_000
    seconds: float = 10.0
    allow_hosts: tuple = ()
    allow_origins: tuple = ()
    keys: tuple = ()
    quota: int | None = None
    beam: int | None = None
    engine: str = "keras"
    compute_type: str | None = None

    def checked(self):
        """The settings; raises UserError if one is out of range."""
        for name, value in self._asdict().items():
            if isinstance(value, (int, float)) and not 0 < value <= 1_000_000:
                raise UserError(f"`{name}` must be greater than 0 and at most 1,000,000. Received: {name}={value}")
        if self.quota and not self.keys:
            raise UserError("`--quota` counts the requests of each key. Use it with --api-key-file.")
        if self.max_batch & (self.max_batch - 1):
            raise UserError(f"`max_batch` must be a power of two. Received: max_batch={self.max_batch}")
        return self

    @property
    def batch_sizes(self):
        """list of int, the powers of two up to `max_batch`; batches of other sizes are padded."""
        return [1 << power for power in range(self.max_batch.bit_length())]
