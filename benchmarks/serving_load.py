"""A server on a core of its own, and clients that send it requests over HTTP/1.1."""

import asyncio
import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from typing import NamedTuple
from urllib.parse import urlsplit

from keras_attention.support.child_process import package_command, package_environment

CORES = os.sched_getaffinity(0)
CLIENT_CORE, SERVER_CORE = min(CORES), max(CORES)
PATHS = {"translate": "/v1/translate", "classify": "/v1/classify", "fill-mask": "/v1/fill-mask"}


class Reply(NamedTuple):
    """`status` is 0 if the connection ended without an answer; `seconds` count from the first byte sent."""

    status: int
    body: bytes
    seconds: float


class Client:
    """One connection that is kept open, and reopened after the server has closed it."""

    def __init__(self, url):
        self._address = urlsplit(url).hostname, urlsplit(url).port
        self._streams = None

    async def ask(self, path, body=None):
        """Sends a GET, or with a body a POST; returns a Reply."""
        began = time.perf_counter()
        if self._streams and self._streams[0].at_eof():  # the server closes idle connections
            self.close()
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(*self._address)
            status, answer = await self._exchange(path, body)
        except (OSError, asyncio.IncompleteReadError):
            self.close()
            status, answer = 0, b""
        return Reply(status, answer, time.perf_counter() - began)

    async def _exchange(self, path, body):
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nhost: localhost\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        answer_head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer_head.split(b"content-length: ")[1].split(b"\r\n")[0])
        answer = await reader.readexactly(length)
        if b"connection: close" in answer_head:
            self.close()
        return int(answer_head.split(b" ", 2)[1]), answer

    def close(self):
        if self._streams:
            self._streams[1].close()
            self._streams = None


@contextlib.contextmanager
def server(models, *flags, log=None):
    """Starts `keras-attention serve` on its core; yields (process, URL) once every shape is compiled.

    `log` is an open file for its standard error.
    """
    command = package_command("serve", "--port", "0", "--json", *map(str, flags))
    command += [flag for name in models for flag in ("--model", name)]
    environment = {
        **package_environment(),
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
    os.sched_setaffinity(process.pid, CORES)  # all cores while it compiles, one of them from then on
    try:
        url = json.loads(process.stdout.readline())["url"]
        while not is_ready(url):
            time.sleep(0.2)
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            os.sched_setaffinity(int(thread), {SERVER_CORE})
        yield process, url
    finally:
        process.terminate()
        process.wait()


def is_ready(url):
    """Whether every shape is compiled."""
    try:
        return urllib.request.urlopen(f"{url}/ready").status == 200
    except urllib.error.HTTPError:
        return False


async def closed_loop(url, requests, clients):
    """Sends all requests [(path, body)] from `clients` clients; each waits for an answer before its next request.

    Returns:
        (list of Reply in the order of the requests, total seconds).
    """
    waiting = iter(enumerate(requests))
    replies = [None] * len(requests)

    async def one():
        client = Client(url)
        for position, request in waiting:
            replies[position] = await client.ask(*request)
        client.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    return replies, time.perf_counter() - began


async def open_loop(url, requests, rate, seconds):
    """Sends requests in turn, `rate` per second, without waiting for answers; returns a list of Reply."""
    idle, tasks = [], []

    async def one(request):
        client = idle.pop() if idle else Client(url)
        reply = await client.ask(*request)
        idle.append(client)
        return reply

    began = time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0, began + number / rate - time.perf_counter()))
        tasks.append(asyncio.create_task(one(requests[number % len(requests)])))
    replies = await asyncio.gather(*tasks)
    for client in idle:
        client.close()
    return replies


def watch(url, pid, seconds, results):
    """Polls /health and the server's memory ten times per second; runs in a process of its own.

    Sends (list of seconds, infinite without status 200; list of (seconds since the start, MB)) to `results`.
    """
    health, memory, began = [], [], time.perf_counter()
    while time.perf_counter() < began + seconds:
        asked, healthy = time.perf_counter(), False
        with contextlib.suppress(OSError):
            healthy = urllib.request.urlopen(f"{url}/health", timeout=10).status == 200
        health.append(time.perf_counter() - asked if healthy else float("inf"))
        memory.append((asked - began, resident_megabytes(pid)))
        time.sleep(0.1)
    results.send((health, memory))


def resident_megabytes(pid):
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
