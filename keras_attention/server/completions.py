"""Text generation over HTTP: /v1/completions in the format of OpenAI's API."""

import json
import secrets
import time
from contextlib import aclosing
from itertools import chain
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.responses import JSONResponse, StreamingResponse

from keras_attention.server.gate import Refusal
from keras_attention.support.errors import UserError, quoted

ROUTE = "/v1/completions"
MAX_ALTERNATIVES, MAX_ANSWERS = 5, 32
Texts = Annotated[list[str], Field(min_length=1)]
# Unsupported fields of OpenAI's API, with the values that have no effect and are accepted.
NEUTRAL = {
    "best_of": (None, 1),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logit_bias": (None, {}),
    "suffix": (None, ""),
}
FINISH = {"end": "stop", "stop": "stop", "length": "length", "": None}


class StreamOptions(BaseModel):
    """Options for additional events of a stream."""

    model_config = ConfigDict(extra="forbid", strict=True)

    include_usage: bool = False


class CompletionsRequest(BaseModel):
    """Prompts to continue, in the format of OpenAI's API; `top_k` and `repetition_penalty` are additional fields.

    As in that API, null stands for the default of a field.
    """

    model_config = ConfigDict(extra="allow", strict=True)  # unsupported fields get status 400, see `check`

    model: str | None = Field(
        None, description="A name from `GET /v1/models`, which marks the default, or a unique part of it."
    )
    prompt: str | Texts = Field("", description="One text to continue, or several.", examples=["Once upon a time"])
    max_tokens: int = Field(16, ge=1, le=4096, description="Maximum number of new tokens.")
    temperature: float = Field(1.0, ge=0, le=100, description="0: always the most probable token.")
    top_p: float = Field(
        1.0, gt=0, le=1, description="Sample from the most probable tokens with this total probability."
    )
    top_k: int = Field(0, ge=0, le=1_000_000, description="Sample from this many most probable tokens; 0: from all.")
    repetition_penalty: float = Field(1.0, ge=0.01, le=100, description="Above 1: makes earlier tokens less probable.")
    n: int = Field(1, ge=1, le=MAX_ANSWERS, description="Number of answers to each prompt.")
    stop: str | list[str] | None = Field(None, description="One or several texts; an answer ends before them.")
    seed: int | None = Field(
        None, ge=0, lt=2**31, description="The same seed gives the same answer; default: a new one."
    )
    logprobs: int | None = Field(
        None, ge=0, le=MAX_ALTERNATIVES, description="Log probabilities of the tokens, and of this many alternatives."
    )
    echo: bool = Field(False, description="Whether each answer begins with its prompt.")
    stream: bool = Field(False, description="Whether to send the answers in pieces, as server-sent events.")
    stream_options: StreamOptions | None = Field(None, description="Only with `stream`.")
    user: str | None = Field(None, description="Accepted and ignored.")

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, fields):
        """The fields without those that are null."""
        if not isinstance(fields, dict):
            return fields
        return {name: value for name, value in fields.items() if value is not None or name not in cls.model_fields}

    @property
    def prompts(self):
        """list of str."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt


class Logprobs(BaseModel):
    """The tokens of a text, with their natural log probabilities under the model itself."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int] = Field(
        description="Where each token begins, counted in characters from the start of the prompt."
    )


class Choice(BaseModel):
    """One answer, or in a stream its next piece."""

    text: str
    index: int = Field(
        description="Number of the answer, from 0: `n` for the first prompt, then `n` for the second ..."
    )
    logprobs: Logprobs | None
    finish_reason: str | None = Field(
        description="stop: the text ended; length: `max_tokens` was reached; null: more follows."
    )


class Usage(BaseModel):
    """The numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionsReply(BaseModel):
    """The answers. With `stream`, each event contains such an object, except the last, which is [DONE]."""

    id: str
    object: str
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


def check(request):
    """Raises Refusal: 400 for an unsupported field or value, 422 for a prompt with half a surrogate pair."""
    for prompt in request.prompts:
        if prompt.encode("utf-8", "ignore").decode() != prompt:
            raise Refusal(422, f"A prompt is not valid UTF-8: {quoted(prompt)}")
    for name, value in (request.model_extra or {}).items():
        if name not in NEUTRAL:
            raise Refusal(400, f"{quoted(name)} is not supported. Leave it out.")
        if not any(value == neutral for neutral in NEUTRAL[name]):
            raise Refusal(400, f"{name}={quoted(value)} is not supported. Leave it out, or send null.")
    if request.echo and request.logprobs is not None:
        raise Refusal(400, "echo with logprobs is not supported: leave one of them out.")
    if request.stream_options and not request.stream:
        raise Refusal(400, "stream_options is for stream=true only.")


def pieces(generator, request):
    """Yields (None, number of tokens of the prompts), then (Choice as a dict, number of its tokens) for each piece."""
    prompts = request.prompts
    yield None, sum(map(len, generator.tokenizer.encode(prompts)))
    stop = [request.stop] if isinstance(request.stop, str) else request.stop or []
    sampling = {name: getattr(request, name) for name in ("max_tokens", "top_k", "top_p", "repetition_penalty", "n")}
    sampling |= {"temperature": request.temperature, "stop": [text for text in stop if text]}
    sampling |= {"seed": secrets.randbelow(2**31) if request.seed is None else request.seed}
    generated = generator.pieces(prompts, details=request.logprobs is not None, **sampling)
    first = next(generated)  # raises an error about a setting, before the echo begins a stream
    if request.echo:
        for index in range(len(prompts) * request.n):
            yield _choice(prompts[index // request.n], index), 0
    for piece in chain([first], generated):
        logprobs = None if request.logprobs is None else _logprobs(piece, prompts, request)
        yield _choice(piece.text, piece.number, logprobs, FINISH[piece.finish]), piece.tokens


def _choice(text, index, logprobs=None, finish_reason=None):
    return {"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish_reason}


def _logprobs(piece, prompts, request):
    offset = len(prompts[piece.number // request.n])
    tops = [_by_text(token.alternatives[: request.logprobs]) for token in piece.details]
    return {
        "tokens": [token.text for token in piece.details],
        "token_logprobs": [token.log_prob for token in piece.details],
        "top_logprobs": tops if request.logprobs else None,
        "text_offset": [offset + token.start for token in piece.details],
    }


def _by_text(alternatives):
    """Dict from text to log probability; among tokens with the same text, the most probable one counts."""
    log_probs = {}
    for text, log_prob in alternatives:
        log_probs.setdefault(text, log_prob)
    return log_probs


async def answer(name, pieces, request):
    """The response to a request.

    Args:
        name: str, the model.
        pieces: asynchronous generator of the pairs that `pieces` yields.
        request: CompletionsRequest.

    Returns:
        JSONResponse, or a StreamingResponse of server-sent events whose first piece has already been generated.
    """
    facts = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time.time())}
    facts["model"] = name
    if request.stream:
        _, prompt_tokens = await anext(pieces)
        first = await anext(pieces)
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        lines = _events(facts, prompt_tokens, first, pieces, request)
        return StreamingResponse(lines, media_type="text/event-stream", headers=headers)
    async with aclosing(pieces):
        _, prompt_tokens = await anext(pieces)
        completion_tokens, choices = 0, {}
        async for choice, tokens in pieces:
            completion_tokens += tokens
            _extend(choices, choice)
    ordered = [choices[index] for index in sorted(choices)]
    return JSONResponse({**facts, "choices": ordered, "usage": _usage(prompt_tokens, completion_tokens)})


def _extend(choices, piece):
    """Appends a piece to the earlier pieces of the same answer."""
    choice = choices.setdefault(piece["index"], piece)
    if choice is piece:
        return
    choice["text"] += piece["text"]
    choice["finish_reason"] = piece["finish_reason"]
    if choice["logprobs"]:
        for name, values in piece["logprobs"].items():
            if values is not None:
                choice["logprobs"][name] += values


def _usage(prompt, completion):
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


async def _events(facts, prompt_tokens, first, pieces, request):
    """The lines of server-sent events; an error after the first piece is sent as an event, too."""
    completion_tokens = 0
    async with aclosing(pieces):  # stops the generation, also if the client disconnects
        try:
            choice, tokens = first
            while True:
                completion_tokens += tokens
                yield _event({**facts, "choices": [choice]})
                choice, tokens = await anext(pieces)
        except StopAsyncIteration:
            if request.stream_options and request.stream_options.include_usage:
                yield _event({**facts, "choices": [], "usage": _usage(prompt_tokens, completion_tokens)})
            yield "data: [DONE]\n\n"
        except (Refusal, UserError) as error:
            refusal = error if isinstance(error, Refusal) else Refusal(422, str(error))
            yield _event({"error": refusal.as_json(ROUTE)})
        except Exception:
            yield _event({"error": Refusal(500, "Internal server error; see the log.").as_json(ROUTE)})
            raise


def _event(value: dict[str, Any]):
    return f"data: {json.dumps(value, allow_nan=False)}\n\n"
