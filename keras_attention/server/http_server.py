"""The HTTP server: its routes, and running it until it is stopped, with limits on time and size of request headers."""

import asyncio
import os
import signal
import socket
import sys
import threading
import warnings
from contextlib import asynccontextmanager
from importlib.resources import files

import uvicorn
from fastapi.exceptions import RequestValidationError
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from keras_attention import __version__
from keras_attention.pipelines.text_encoder import TextEncoder
from keras_attention.server import completions
from keras_attention.server.access import Access, CrossOrigin
from keras_attention.server.gate import Gate, Refusal
from keras_attention.server.guarded_protocol import guarded_protocol
from keras_attention.server.metrics import CONTENT_TYPE, ServerMetrics
from keras_attention.server.origins import Origins
from keras_attention.server.requests import (
    AlternativesReply,
    AlternativesRequest,
    AttentionReply,
    AttentionRequest,
    EmbeddingsReply,
    EmbeddingsRequest,
    Error,
    ExplainReply,
    ExplainRequest,
    SimilarReply,
    SimilarRequest,
    WordEffectsReply,
    WordEffectsRequest,
    ZeroShotReply,
    ZeroShotRequest,
    alternatives,
    attention_view,
    embeddings,
    explain,
    similar,
    word_effects,
    zero_shot,
)
from keras_attention.server.served_models import activities_of, known_models, load_models
from keras_attention.server.server import WARM_SECONDS, Server
from keras_attention.server.task_forms import FORM, forms_of, reply_model, request_type
from keras_attention.support.errors import UserError
from keras_attention.support.moved import moved_name
from keras_attention.zoo.schema import ARCHITECTURES

PAGES = ("/", "/attention", "/ticket", "/health", "/ready", "/metrics")
QUESTIONS = (
    *("/v1/attention", "/v1/alternatives", "/v1/explain", "/v1/word-effects", "/v1/embeddings", "/v1/similar"),
    *("/v1/zero-shot", "/v1/completions", "/v1/models"),
)
ERRORS = {
    code: {"model": Error, "description": description}
    for code, description in (
        (400, "Invalid JSON, or a field that is not supported"),
        (401, "No key, or one that is not known"),
        (404, "Unknown model"),
        (408, "The request did not arrive in time"),
        (413, "Body too large"),
        (415, "Not uncompressed JSON"),
        (422, "Invalid field or limit exceeded"),
        (429, "The quota of the key is used up: try again after the seconds of Retry-After"),
        (503, "Not ready, all workers busy, or no answer in time: try again"),
    )
}
SCRIPTS = (
    "api",
    "inputs",
    "series",
    "sound",
    "drawing",
    "translation",
    "looks",
    "explanation",
    "writing",
    "table",
    "answers",
    "demo",
)
DEMO = {"demo.css": "text/css", **{f"{name}.js": "text/javascript" for name in SCRIPTS}}
DEMO_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-src 'self'; img-src data:; "
    "media-src data:"
)


def tasks():
    """Dict from each task that the server can offer to the list of its Forms, one for each kind of JSON form."""
    return forms_of(architecture.task for architecture in ARCHITECTURES.values())


def paths():
    """The paths of all routes."""
    return (*(f"/v1/{task}" for task in tasks()), *QUESTIONS, *PAGES)


def make_app(server, address="127.0.0.1"):
    """The ASGI application of a Server at an IP address."""

    @asynccontextmanager
    async def lifespan(_):
        warming = threading.Thread(target=server.warm, name="warm", daemon=True)
        warming.start()
        yield
        server.state = "stopping"
        await asyncio.to_thread(server.close)
        await asyncio.to_thread(warming.join)

    app = FastAPIOffline(title="keras_attention", version=__version__, lifespan=lifespan)
    settings = server.settings
    access = Access(settings.keys, settings.quota)
    app.add_middleware(Origins, address=address, more=settings.allow_hosts, origins=settings.allow_origins)
    app.add_middleware(
        Gate,
        settings=settings,
        metrics=server.metrics,
        workers=server.workers,
        body_bytes=server.body_bytes,
        check_access=access.check,
    )
    app.add_middleware(CrossOrigin, origins=settings.allow_origins)
    _add_errors(app)
    _add_api(app, server)
    _add_pages(app, server, access)
    return app


def _add_api(app, server):
    for task, forms in tasks().items():
        _add_task(app, server, task, forms)
    _add_questions(app, server)

    @app.get("/v1/models")
    async def models():
        """The models and the limits of a request; `data` lists the models in the format of OpenAI's API."""
        limits = {name: getattr(server.settings, name) for name in ("items", "characters", "tokens", "body_bytes")}
        data = [_as_openai(name) for name in server.models]
        models, translations = server.about(), server.router.language_pairs()
        facts = {"models": models, "activities": activities_of(models, translations)}
        facts |= {"translations": translations, "limits": limits}
        return JSONResponse({"object": "list", "data": data, **facts})

    @app.get("/v1/models/{name}", responses=ERRORS)
    async def one_model(name: str):
        """One model, in the format of OpenAI's API."""
        return JSONResponse(_as_openai(server.router.model_named(name).name))

    @app.get("/health")
    async def health():
        """200 while the server runs."""
        return JSONResponse({"status": "ok"})

    @app.get("/ready")
    async def ready():
        """200 once every model is ready, else 503 with the number of ready models."""
        if server.state != "ready":
            raise Refusal(503, f"{server.state}: {server.progress()} models are ready", retry=WARM_SECONDS)
        return JSONResponse({"status": "ready"})

    @app.get("/metrics")
    async def metrics():
        """Metrics in the Prometheus format."""
        return Response(server.metrics.text(), media_type=CONTENT_TYPE)


def _as_openai(name):
    return {"id": name, "object": "model", "created": 0, "owned_by": "keras_attention"}


def _add_questions(app, server):
    """Routes that are independent of a model's own task."""

    @app.post("/v1/attention", response_model=AttentionReply, responses=ERRORS)
    async def attention_weights(request: AttentionRequest):
        """Returns the attention weights of every layer and head."""
        name, view = await server.answer(attention_view, request)
        return JSONResponse({"model": name, **view.data})

    @app.post("/v1/explain", response_model=ExplainReply, responses=ERRORS)
    async def words(request: ExplainRequest):
        """Returns how much the probability of a label falls when each word is left out."""
        name, explanation = await server.answer(explain, request, "classify")
        return JSONResponse({"model": name, **explanation.as_json()})

    @app.post("/v1/word-effects", response_model=WordEffectsReply, responses=ERRORS)
    async def deciding_words(request: WordEffectsRequest):
        """Returns how much the probability of each word of an answer falls when a word of the text is left out."""
        name, explanation = await server.answer(word_effects, request, None if request.model else "translate")
        return JSONResponse({"model": name, **explanation.as_json()})

    @app.post("/v1/alternatives", response_model=AlternativesReply, responses=ERRORS)
    async def other_words(request: AlternativesRequest):
        """Returns other words at a place of a translation, and the translation to which each leads."""
        name, alternatives_found = await server.answer(alternatives, request, "translate")
        return JSONResponse({"model": name, "alternatives": alternatives_found})

    @app.post("/v1/embeddings", response_model=EmbeddingsReply, responses=ERRORS)
    async def vectors(request: EmbeddingsRequest):
        """Returns the vectors of texts, in the format of OpenAI's API."""
        name, reply = await server.answer(embeddings, request, "encode", allow_secondary_task=True)
        return JSONResponse({**reply, "model": name})

    @app.post("/v1/similar", response_model=SimilarReply, responses=ERRORS)
    async def nearest(request: SimilarRequest):
        """Returns the texts that are most similar to a query."""
        name, answers = await server.answer(similar, request, "encode", allow_secondary_task=True)
        return JSONResponse({"model": name, "answers": answers})

    @app.post("/v1/zero-shot", response_model=ZeroShotReply, responses=ERRORS)
    async def nearest_labels(request: ZeroShotRequest):
        """Returns the label that is most similar to each text, without training."""
        name, answers = await server.answer(zero_shot, request, "encode", allow_secondary_task=True)
        return JSONResponse({"model": name, "answers": answers})

    @app.post("/v1/completions", response_model=completions.CompletionsReply, responses=ERRORS)
    async def complete(request: completions.CompletionsRequest):
        """Continues prompts, in the format of OpenAI's API; also as a stream."""
        completions.check(request)
        name, pieces = await server.stream(completions.pieces, request, "generate")
        return await completions.answer(name, pieces, request)


def _add_task(app, server, task, forms):
    """The route of a task; pipelines and their kinds of input define its requests and its answer."""
    body_type = request_type(task, forms, server.router.input_field_of)
    answers = forms[0]._replace(answer_fields={name: f for form in forms for name, f in form.answer_fields.items()})
    options = {"response_model": reply_model(task, answers), "responses": ERRORS, "name": task}

    def reply(pipeline, request):
        if task == "encode":  # also by a pipeline whose main task is another one
            return {"answers": TextEncoder.reply(pipeline, request.texts)}
        names = pipeline.request_fields_for(pipeline.input)
        answers = pipeline.reply(**{name: getattr(request, name) for name in names})
        return {**{name: getattr(pipeline, name) for name in pipeline.reply_fields}, "answers": answers}

    @app.post(f"/v1/{task}", **options, description=forms[0].meaning)
    async def answer(request: body_type):
        name, replies = await server.answer(reply, request, task, allow_secondary_task=task == "encode")
        return JSONResponse({"model": name, **replies})


def _add_pages(app, server, access):
    folder = files("keras_attention.server").joinpath("demo")

    @app.get("/", include_in_schema=False)
    async def demo():
        page = folder.joinpath("index.html").read_text(encoding="utf-8")
        return HTMLResponse(page, headers={"content-security-policy": DEMO_POLICY})

    @app.get("/demo/{name}", include_in_schema=False)
    async def demo_file(name: str):
        if name not in DEMO:
            raise Refusal(404, "There is no such file.")
        return Response(folder.joinpath(name).read_bytes(), media_type=DEMO[name])

    @app.get("/ticket", include_in_schema=False)
    async def ticket(request: Request):
        """What the page puts into the address of a frame, to which a browser sends no key."""
        return JSONResponse({"ticket": access.ticket(request.scope)}, headers={"cache-control": "no-store"})

    @app.get("/attention", include_in_schema=False)
    async def attention_page(model: str, text: str, text_b: str | None = None, target: str | None = None):
        request = AttentionRequest(model=model, text=text, text_b=text_b, target=target)
        _, view = await server.answer(attention_view, request)
        return HTMLResponse(view.html)


def _add_errors(app):
    """Every error is JSON and reveals no internals."""

    @app.exception_handler(Refusal)
    async def refused(request, error):
        return error.response(request.url.path)

    @app.exception_handler(UserError)
    async def unusable(request, error):
        return Refusal(422, str(error)).response(request.url.path)

    @app.exception_handler(RequestValidationError)
    async def invalid(request, error):
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if not str(part).startswith(FORM))
        status = 400 if first["type"] == "json_invalid" else 422
        return Refusal(status, f"{where}: {first['msg']}").response(request.url.path)

    @app.exception_handler(HTTPException)
    async def http_error(request, error):
        response = Refusal(error.status_code, str(error.detail)).response(request.url.path)
        response.headers.update(error.headers or {})  # such as Allow with status 405
        return response

    @app.exception_handler(Exception)
    async def unexpected(request, error):
        return Refusal(500, "Internal server error; see the log of the server.").response(request.url.path)


BACKLOG = 2048
END_SECONDS = 5  # from the last answer to the end of the process
FREEING_SECONDS = 2  # of them, for the system to free the memory of the process while other processes compute
# Seconds that an idle connection stays open: longer than clients keep theirs, so that none is closed during a request.
KEEP_ALIVE_SECONDS = 75
# Seconds after which Python switches threads: /health must not wait for dozens of answers.
SWITCH_SECONDS = 0.0005


def bind(host, port):
    """A socket bound to the address, not yet listening.

    Args:
        host: str, a name or an address of this machine.
        port: int; 0 chooses a free port.

    Raises:
        UserError: if the address is not available.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"A port is a number from 0 to 65535. Received: {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, UnicodeError) as error:  # UnicodeError: no valid host name
        raise UserError(f"{host}, port {port} cannot be used: {error}. Choose others with --host and --port.") from None
    return bound


class EndingServer(uvicorn.Server):
    """uvicorn's server, whose process ends within `grace_seconds` after SIGTERM or SIGINT.

    A computation inside TensorFlow, such as compiling a program, cannot be stopped. If one lasts longer, the process
    ends without it.

    Args:
        config: uvicorn.Config.
        settings: ServerSettings.
        end: callable(), called before the process ends in this way.
    """

    def __init__(self, config, settings, end):
        super().__init__(config)
        self._settings, self.end, self._timer = settings, end, None

    def handle_exit(self, sig, frame):
        if self._timer is None:
            self._timer = threading.Timer(grace_seconds(self._settings) - FREEING_SECONDS, self._end_now)
            self._timer.daemon = True
            self._timer.start()
        super().handle_exit(sig, frame)

    def _end_now(self):
        try:
            self.end()
            sys.stdout.flush()
        finally:
            os._exit(0)


def grace_seconds(settings):
    """The most seconds from SIGTERM to the end of the process: answers in progress have their time limit."""
    return 2 * settings.seconds + END_SECONDS


def serve(names, settings, bound, report, notify, end=lambda answered: None):
    """Answers requests until SIGTERM or SIGINT, then finishes the accepted requests.

    The process ends at most `grace_seconds` after the signal.

    Args:
        names: list of str, models by name or folder, which are loaded before clients can connect; None for all models
            of `list_models`, each loaded at its first request.
        settings: ServerSettings.
        bound: socket, see `bind`.
        report: callable (list of str, str), called with the model names and the URL as soon as clients can connect.
        notify: callable (str), called with a message for each model that is loaded, becomes ready or is damaged.
        end: callable (dict), called with what this function returns before the process is ended because a computation
            does not end in time.

    Returns:
        Dict from path to int, the requests that were answered.

    Raises:
        UserError: see `load_models`.
    """
    metrics = ServerMetrics(paths())
    if names is None:
        models = known_models(settings, metrics.computed, notify)
    else:
        models = load_models(names, settings, metrics.computed)
    warnings.simplefilter("ignore", UserWarning)  # about truncated texts: the answers report them
    server = Server(models, settings, metrics, notify)
    config = uvicorn.Config(
        make_app(server, bound.getsockname()[0]),
        http=guarded_protocol(settings.seconds, notify),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, int(2 * settings.seconds)),
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    bound.listen(BACKLOG)
    host, port = bound.getsockname()[:2]
    report(list(models), f"http://{f'[{host}]' if ':' in host else host}:{port}")
    # uvicorn stops at the signal and raises it again afterwards.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn_server = EndingServer(config, settings, lambda: end(metrics.answers_by_path()))
    uvicorn_server.run(sockets=[bound])
    uvicorn_server.end = lambda: None  # the caller tells it
    return metrics.answers_by_path()


def __getattr__(name):
    return moved_name(__name__, name)
