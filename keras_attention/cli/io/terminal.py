"""Loads models without the noise of libraries, and prints without control characters of untrusted texts."""

import gc
import json
import logging
import os
import re
import shlex
import signal
import sys
from contextlib import contextmanager

from keras_attention.support.errors import JOINERS, MOST_QUOTED, UserError
from keras_attention.training.run import deferred_interrupts
from keras_attention.zoo.registry import default_model


@contextmanager
def silent_libraries(own_process=True):
    """Context manager for imports: discards everything written to stderr, also by C++ code.

    TensorFlow logs some lines before its log level takes effect. Ctrl-C is delayed until the end of the imports,
    because some of them would swallow it. In a command, TensorFlow and Keras are imported at once, see
    `import_frameworks`.

    Args:
        own_process: bool. Whether the process is a command of this package, not a user's program.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with deferred_interrupts() as interrupts, garbage_collector_paused(own_process):
            if own_process:
                import_frameworks()
                logging.getLogger("tensorflow").setLevel(logging.ERROR)  # after its import, which sets the level
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
    if interrupts.received:
        signal.raise_signal(signal.Signals[interrupts.received])


@contextmanager
def garbage_collector_paused(own_process):
    """Context manager for the first import of TensorFlow, which the garbage collector makes a quarter longer.

    It makes hundreds of thousands of objects, nearly all for the rest of the process.

    Args:
        own_process: bool. Whether the process is a command of this package: from then on, the collector passes over
            these objects. A user's process may have others at this time, so there it does not.
    """
    if "tensorflow" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if own_process:
            gc.freeze()
        gc.enable()


def import_frameworks():
    """Imports Keras, and TensorFlow if it is the backend, without packages that no command uses in this way.

    TensorFlow imports JAX where it is installed, to convert its models. Keras imports scikit-learn, for wrappers, and
    Matplotlib, for galleries of pictures. That would be a third of the time. All can be imported afterwards as usual;
    only `keras.wrappers` and `keras.visualization` do not work in this process.

    Only KERAS_BACKEND chooses another backend, not the configuration file of Keras: commands need TensorFlow.
    """
    if "keras" in sys.modules or "tensorflow" in sys.modules:
        return
    backend = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    with _hidden("sklearn", "matplotlib", *(["jax"] if backend == "tensorflow" else [])):
        import keras  # noqa: F401


@contextmanager
def _hidden(*names):
    """Context manager: these packages cannot be imported, unless they have been imported before."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules |= dict.fromkeys(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def load(entry, task=None):
    """Loads the pipeline of an entry, see `load_pipeline`; imports TensorFlow."""
    with silent_libraries():
        from keras_attention.pipelines.base import load_pipeline

    return load_pipeline(entry, task)


def set_default_model(arguments, task):
    """Without --model, chooses the zoo's best model for a task, which is named on stderr.

    Raises:
        UserError: if this model is not in the zoo.
    """
    if arguments.model is None:
        arguments.model = default_model(task)
        print(f"keras-attention: {arguments.model} answers; --model chooses another one.", file=sys.stderr)


class CompilingNote:
    """Tells a person at a terminal, on stderr, why the first answer takes long. Nothing is written to a pipe."""

    def __init__(self):
        self._shown = self._over = False

    def show(self):
        if not self._shown and not self._over and sys.stderr.isatty():
            self._shown = True
            sys.stderr.write("\rcompiling (once) ... \x1b[K")
            sys.stderr.flush()

    def clear(self, forever=False):
        """Clears the line, before an answer is printed; `forever` if the answer is printed in pieces of a line."""
        self._over = forever
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


compiling_note = CompilingNote()


def json_text(value, indent=None):
    r"""Returns `value` as JSON, with characters that are not printable written as "\uXXXX"."""
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise UserError("The answer contains NaN or infinity, which JSON cannot hold: leave out --json.") from error
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign == "\n" else json.dumps(sign)[1:-1] for sign in text)


def print_json(value, indent=1):
    """Writes `value` to standard output as JSON, see `print_whole`."""
    print_whole(json_text(value, indent))


def print_whole(text):
    """Writes a text and a line break to standard output in one piece: a redirected file is empty or whole."""
    sys.stdout.flush()
    stream, text = getattr(sys.stdout, "buffer", None), f"{text}\n"
    if stream is None:  # replaced by a test or a notebook
        sys.stdout.write(text)
        return
    raw = getattr(stream, "raw", stream)
    content = memoryview(text.encode(sys.stdout.encoding, "backslashreplace"))
    while content:
        content = content[raw.write(content) or 0 :]


CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def one_output_line(text, keep="\t"):
    """Replaces control characters, except those in `keep`, by spaces: a line of output stays one, and is obeyed by no
    terminal. All others stay, such as the no-break spaces of French."""
    return CONTROL.sub(lambda sign: sign[0] if sign[0] in keep else " ", text)


def command_line(command, model, text=""):
    """A command of `keras-attention` that a user can copy: the model's name or folder, and a text of one line.

    Args:
        command: str, such as "translate".
        model: str or Path.
        text: str, cut to MOST_QUOTED characters; "" for a command without a text.
    """
    text = safe(text)[:MOST_QUOTED]
    words = ["keras-attention", command, "--model", str(model), *["--"] * text.startswith("-"), *[text] * bool(text)]
    return shlex.join(words)


def print_file_model(folder, scores, command, kind):
    """Prints the scores of a trained model of files, and a command that tries it with an example of its entry.

    Args:
        folder: Path of the entry.
        scores: dict of floats by name.
        command: str, such as "classify".
        kind: the kind of input, such as `inputs.image.ImageInput`.
    """
    print(", ".join(f"{name} {value:.2f}" for name, value in scores.items()))
    example = folder / f"example_1{kind.example_suffix}"
    print(f"Saved to {folder}. Try: {command_line(command, folder, str(example))}")


def safe(text, keep=""):
    """Replaces each character that is not printable, except joiners and those in `keep`, by a space."""
    text, keep = str(text), keep + JOINERS
    return text if text.isprintable() else "".join(s if s.isprintable() or s in keep else " " for s in text)
