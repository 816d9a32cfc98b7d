"""Loads entries one after another and writes down what each did: run as a program of its own.

    python watched_loading.py SOUND HOSTILE

Loads every entry of the folder SOUND and lets it answer, then every entry of the folder HOSTILE, each watched by an
audit hook. Prints one JSON object a line: {"name", "kind": class of the error or None, "told", "seconds",
"processor_seconds", "megabytes", "events"}; "events" are code that was run, files that were opened and anything else
that a load has no business with.
"""

import importlib
import json
import os
import pickle
import socket
import sys
import time
import warnings
from pathlib import Path

TRUSTED = [os.path.realpath(folder) for folder in sys.path if folder]
SUSPICIOUS = ("exec", "compile", "import", "socket.", "subprocess.", "os.", "pickle.", "marshal.", "ctypes.", "shutil.")
HARMLESS = ("os.listdir", "os.scandir", "os.walk", "os.fwalk")


class Watch:
    """Notes what the running process does; `inside` is the folder whose files may be read."""

    def __init__(self):
        self.inside, self.events = None, []
        sys.addaudithook(self._note)

    def _note(self, event, arguments):
        if self.inside is None:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or (mode or "r")[0] not in "r"
            path = path if isinstance(path, int) else os.path.realpath(os.fsdecode(path))
            trusted = [self.inside, *TRUSTED]
            if writes or not (isinstance(path, int) or any(path.startswith(f"{folder}/") for folder in trusted)):
                self.events.append(f"open {path}")
        elif event.startswith(SUSPICIOUS) and event not in HARMLESS:
            self.events.append(f"{event} {arguments!r:.100}")


def megabytes(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def watched(watch, name, folder, use):
    """Prints what came of `use(folder)`."""
    Path("/proc/self/clear_refs").write_text("5")
    before, begun, worked = megabytes("VmRSS"), time.perf_counter(), time.process_time()
    watch.inside, watch.events = os.path.realpath(folder), []
    kind = message = None
    try:
        use(folder)
    except BaseException as error:
        kind, message = type(error).__name__, str(error)
    watch.inside = None
    times = {"seconds": time.perf_counter() - begun, "processor_seconds": time.process_time() - worked}
    report = {"name": name, "kind": kind, "told": message, "events": watch.events, **times}
    print(json.dumps(report | {"megabytes": max(0.0, megabytes("VmHWM") - before)}), flush=True)


def misbehave(folder):
    """All that a load must not do, so that a test can see that the watch sees it."""
    exec("pass")
    socket.socket().close()
    pickle.loads(pickle.dumps(Path))
    (folder / "manifest.json").open("a").close()


def answer(folder):
    """Loads an entry and asks it."""
    pipeline = keras_attention.load(folder)
    if hasattr(pipeline, "fill_mask"):
        pipeline.fill_mask("a [MASK]")
        pipeline.encode("a")
    elif hasattr(pipeline, "classify"):
        pipeline.classify("a")
    elif hasattr(pipeline, "score"):
        pipeline.score("a")
    else:
        pipeline.translate("A dog runs.")


def refuse(folder):
    """Loads what should be refused: an entry, or a published checkpoint."""
    if (folder / "manifest.json").exists():
        keras_attention.load(folder)
    else:
        load_checkpoint(folder)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import keras_attention
    from keras_attention.convert import load_checkpoint

    for reader in ("hugging_face", "published", "tensorflow_bert"):  # before the watch begins
        importlib.import_module(f"keras_attention.convert.{reader}")

    sound, hostile = map(Path, sys.argv[1:])
    for folder in sound.iterdir():  # once before the watch begins: what is imported and traced is not theirs
        answer(folder)
    watch = Watch()
    for folder in sorted(sound.iterdir()):
        watched(watch, folder.name, folder, answer)
    watched(watch, "misbehaved", folder, misbehave)
    for folder in sorted(hostile.iterdir()):
        watched(watch, folder.name, folder, refuse)
