"""Runs the server until it is told to stop."""

import signal
import socket
import sys
import warnings

import uvicorn

from keras_attention.errors import UserError
from keras_attention.serving.app import PATHS, make_app
from keras_attention.serving.metrics import ServerMetrics
from keras_attention.serving.protocol import guarded_protocol
from keras_attention.serving.served_models import load_models
from keras_attention.serving.server import Server

BACKLOG = 2048
# How long a connection stays open between requests: longer than clients keep one, or a request meets its closing.
KEEP_ALIVE_SECONDS = 75
# How long a thread may keep Python to itself while others want it: /health must not wait behind dozens of answers.
SWITCH_SECONDS = 0.0005


def bind(host, port):
    """A socket at that address, not listening yet.

    Args:
        host: str, a name or an address of this machine.
        port: int; 0 takes any that is free.

    Raises:
        UserError: if the address cannot be had.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"A port is a number from 0 to 65535. Received: {port}")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise UserError(f"{host}, port {port} cannot be used: {error}. Choose others with --host and --port.") from None
    return bound


def serve(names, settings, bound, say):
    """Loads models and answers requests until SIGTERM or SIGINT; what was accepted by then is finished.

    Args:
        names: list of str, models by name or folder.
        settings: ServerSettings.
        bound: socket, see `bind`.
        say: callable (list of str, str), told the names of the models and the URL as soon as one can connect.

    Returns:
        Dict from path to int, the requests that were answered.

    Raises:
        UserError: see `load_models`.
    """
    metrics = ServerMetrics(PATHS)
    models = load_models(names, settings, metrics.computed)
    warnings.simplefilter("ignore", UserWarning)  # of texts that were cut: the answers tell it
    server = Server(models, settings, metrics)
    config = uvicorn.Config(
        make_app(server),
        http=guarded_protocol(settings.seconds),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(2 * settings.seconds) + 1,
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    bound.listen(BACKLOG)
    host, port = bound.getsockname()[:2]
    say(list(models), f"http://{f'[{host}]' if ':' in host else host}:{port}")
    # uvicorn stops at the signal, and raises it once more when all is done.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.Server(config).run(sockets=[bound])
    return metrics.answers_by_path()
