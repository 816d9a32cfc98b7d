"""`keras-attention launch`: trains in several processes, and restarts them if one dies."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

from keras_attention.support.child_process import package_command, package_environment
from keras_attention.support.cores import available_cores
from keras_attention.support.errors import UserError

TRY_AGAIN = 75  # exit code of a worker after another worker has stopped
GRACE_SECONDS = 60  # time for the other workers to notice a failure and to save
LOOK_SECONDS = 0.2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def launch(arguments):
    """Starts the workers, and restarts all of them from the last checkpoint if one dies.

    Returns:
        int, see `run_workers`; or 128 plus the number of the signal that the launcher received and forwarded.

    Raises:
        UserError: if a number is out of range.
    """
    if arguments.workers < 1 or arguments.max_restarts < 0:
        raise UserError("--workers must be at least 1, and --max-restarts at least 0.")
    command = python_command(arguments.command)
    environment = os.environ if is_script(arguments.command[0]) else package_environment()
    signals = []
    before = {number: signal.signal(number, lambda number, _: signals.append(number)) for number in _SIGNALS}
    try:
        for restarts_left in range(arguments.max_restarts, -1, -1):
            code = run_workers(command, arguments.workers, signals, environment)
            if code != TRY_AGAIN or signals or not restarts_left:
                break
            print(f"Restarting all workers (at most {restarts_left} more times).", file=sys.stderr, flush=True)
            command = resuming(command)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 128 + signals[0] if signals else code


def python_command(words):
    """The command line of a recipe, or of one of our own commands.

    A script imports from its own folder, as usual, and our commands from no folder but the installed ones.
    """
    return [sys.executable, *words] if is_script(words[0]) else package_command(*words)


def is_script(word):
    """Whether a word of the command names a Python file, such as a recipe, and not a command of this package."""
    return word.endswith(".py")


def resuming(command):
    """The command that resumes `command`."""
    return [word for word in command if word not in ("--restart", "--resume")] + ["--resume"]


def run_workers(command, count, signals, environment=os.environ):
    """Runs the command in `count` processes that form a cluster through TF_CONFIG.

    Args:
        command: list of str.
        count: int > 0.
        signals: list, to which a handler appends signal numbers; they are forwarded to all workers.
        environment: dict of str, the variables of the processes; those of the cluster are added.

    Returns:
        int: 0; the exit code of a worker that failed by itself; or 75 if a worker was killed or hung.
    """
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(count)]}
    threads = str(max(1, available_cores() // count))
    shared = {"OMP_NUM_THREADS": threads, "TF_NUM_INTRAOP_THREADS": threads, **environment}
    workers = []
    for index in range(count):
        task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        # A separate session, so that each worker receives Ctrl-C only once, from the launcher.
        variables = {**shared, "TF_CONFIG": json.dumps(task)}
        workers.append(subprocess.Popen(command, env=variables, start_new_session=True))
    try:
        return _wait(workers, signals)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def free_ports(count):
    """Numbers of free TCP ports."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait(workers, signals):
    """Waits for all workers, but at most `GRACE_SECONDS` after a failure; returns the exit code for `run_workers`."""
    codes, deadline, passed_on = [None] * len(workers), float("inf"), 0
    while None in codes and time.monotonic() < deadline:
        for number in signals[passed_on:]:
            for worker in workers:
                worker.send_signal(number)
        passed_on = len(signals)
        time.sleep(LOOK_SECONDS)
        for index, worker in enumerate(workers):
            if codes[index] is None and worker.poll() is not None:
                codes[index] = worker.returncode
                if worker.returncode:
                    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
                    ending = _ending(worker.returncode)
                    print(f"Worker {index} of {len(workers)} {ending}.", file=sys.stderr, flush=True)
    mistakes = [code for code in codes if code is not None and code > 0 and code != TRY_AGAIN]
    return mistakes[0] if mistakes else TRY_AGAIN if any(code != 0 for code in codes) else 0


def _ending(code):
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
