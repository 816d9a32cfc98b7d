"""A zoo of one tiny model of each kind, and a server of them as a process."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import uvicorn
from zoo.tiny_bert import LABELS, TEXTS, task, tiny_classifier, tiny_mask_filler, write_tiny
from zoo.tiny_entry import write_tiny_entry

from keras_attention.pipelines.base import load_pipeline
from keras_attention.server import ServerSettings
from keras_attention.server.http_server import bind, make_app, paths
from keras_attention.server.metrics import ServerMetrics
from keras_attention.server.served_models import served_model
from keras_attention.server.server import Server

ROOT = Path(__file__).parents[2]


def write_tiny_zoo(folder):
    """Entries `words` (a translator), `moods` and `pairs` (classifiers), `gaps` (a filler of gaps)."""
    write_tiny_entry(folder / "words")
    example = [{"source": TEXTS[0], "output": LABELS["binary"][0]}]
    write_tiny(folder / "moods", tiny_classifier().model, example, task=task())
    write_tiny(folder / "pairs", tiny_classifier("multiclass", pair=True).model, task=task("multiclass", pair=True))
    write_tiny(folder / "gaps", tiny_mask_filler().model, [{"source": "A [MASK] runs.", "output": "A dog runs."}])


@contextlib.contextmanager
def running_server(zoo, *flags):
    """Starts a server of all models of a zoo; see `server_process`."""
    names = sorted(path.name for path in zoo.iterdir())
    models = [flag for name in names for flag in ("--model", name)]
    with server_process("serve", *models, *flags, KERAS_ATTENTION_ZOO=str(zoo)) as server:
        yield server


@contextlib.contextmanager
def server_process(*arguments, **environment):
    """Starts `keras-attention` with these arguments; gives (process, URL) once it is ready, and stops it at the end."""
    command = [sys.executable, "-m", "keras_attention", *arguments, "--port", "0", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(process.stderr.read())
        url = json.loads(line)["url"]
        while not is_ready(url):
            time.sleep(0.1)
        yield process, url
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def server_in_this_process(zoo, **settings):
    """The same models behind the same routes, without batches and what is compiled for them: gives (URL, models)."""
    pipelines = {path.name: load_pipeline(path) for path in sorted(zoo.iterdir())}
    models = {name: served_model(pipeline) for name, pipeline in pipelines.items()}
    bound = bind("127.0.0.1", 0)
    app = make_app(Server(models, ServerSettings(seconds=600, **settings), ServerMetrics(paths())))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    url = f"http://127.0.0.1:{bound.getsockname()[1]}"
    thread.start()
    try:
        while not server.started or not is_ready(url):
            time.sleep(0.05)
        yield url, pipelines
    finally:
        server.should_exit = True
        thread.join()


def is_ready(url):
    """Whether every shape is compiled."""
    try:
        return urllib.request.urlopen(f"{url}/ready").status == 200
    except urllib.error.HTTPError:
        return False
