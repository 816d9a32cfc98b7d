"""Good and hostile clients at the same time, for a long time: does memory or the number of open files grow?"""

import asyncio
import contextlib
import itertools
import os
import socket
import tempfile
import threading
import time
from collections import Counter
from urllib.parse import urlsplit

import numpy as np
from serving_abuse import ABUSE, ROUTE, post, status_of, texts
from serving_load import Client, closed_loop, resident_megabytes, server

CLIENTS, PAUSE = 8, 0.02  # good ones, and seconds between an answer and their next request
SECONDS = 2  # the server's time limit, --seconds
WARM_SHARE = 0.2  # first part of the time, left out of the growth
TEXT = texts(texts=["A dog runs through the snow."] * 8)


def leave_unread(address, requests=20, seconds=0.1):
    """Pipelines requests, reads no answer, disconnects."""
    with socket.create_connection(address) as client:
        client.sendall(TEXT * requests)
        time.sleep(seconds)


def stay_unread(address):
    """Pipelines requests, reads no answer, stays connected longer than the server may wait."""
    leave_unread(address, 20, 3 * SECONDS)


def stay_silent(address):
    """Connects and sends nothing, for longer than the server may wait."""
    with socket.create_connection(address):
        time.sleep(2 * SECONDS)


def leave_early(address):
    """Sends half of a request, and resets the connection."""
    with socket.create_connection(address) as client:
        client.sendall(post(b"x" * 1000, line=ROUTE)[:500])
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


MISBEHAVIOUR = (leave_unread, stay_unread, stay_silent, leave_early)


class Soak:
    """The clients of one soak test, and what they measure of the server.

    Args:
        process: subprocess.Popen of the server.
        url: str.
        requests: list of (path, body), good ones.
        seconds: float.
    """

    def __init__(self, process, url, requests, seconds):
        self.process, self.url, self.requests = process, url, requests
        self.end, self.seconds = time.monotonic() + seconds, seconds
        self.good, self.wrong, self.abused = Counter(), Counter(), 0
        self.samples = []  # (seconds, MB, open files)

    def run(self):
        threads = [threading.Thread(target=self._abuse), *(self._misbehaving(how) for how in MISBEHAVIOUR)]
        threads.append(threading.Thread(target=self._watch))
        for thread in threads:
            thread.start()
        asyncio.run(self._ask())
        for thread in threads:
            thread.join()

    def growth(self):
        """Memory growth in percent per hour, by least squares, and growth of open files from first to last third."""
        warm = [sample for sample in self.samples if sample[0] >= WARM_SHARE * self.seconds]
        times, sizes, files = np.array(warm).T
        third = len(files) // 3
        slope = 100 * 3600 * np.polyfit(times, sizes, 1)[0] / sizes.mean()
        return slope, np.median(files[-third:]) - np.median(files[:third])

    async def _ask(self):
        async def one(first):
            client = Client(self.url)
            for request in itertools.islice(itertools.cycle(self.requests), first, None):
                if time.monotonic() > self.end:
                    break
                self.good[(await client.ask(*request)).status] += 1
                await asyncio.sleep(PAUSE)
            client.close()

        await asyncio.gather(*(one(number) for number in range(CLIENTS)))

    def _abuse(self):
        route = self.requests[0][0].encode()  # the model need not be a translator
        for name, (sent, right) in itertools.cycle(ABUSE.items()):
            if time.monotonic() > self.end:
                return
            status = status_of(self.url, sent.replace(b"/v1/translate", route), 10)
            self.abused += 1
            if status not in right | {503}:  # refused before it is read, while all workers are busy
                self.wrong[f"{name}: {status}"] += 1

    def _misbehaving(self, how):
        address = urlsplit(self.url).hostname, urlsplit(self.url).port

        def again_and_again():
            while time.monotonic() < self.end:
                with contextlib.suppress(ConnectionError):  # the server has closed it
                    how(address)
                self.abused += 1
                time.sleep(0.1)

        return threading.Thread(target=again_and_again)

    def _watch(self):
        began = time.monotonic()
        while time.monotonic() < self.end:
            self.samples.append((time.monotonic() - began, resident_megabytes(self.process.pid), self.open_files()))
            time.sleep(1)

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


def soak(models, requests, minutes, flags):
    """Runs a soak test; yields (whether the result is good, line of the report)."""
    with tempfile.TemporaryFile("w+") as log, server(models, *flags, "--seconds", SECONDS, log=log) as (process, url):
        asyncio.run(closed_loop(url, requests, CLIENTS))
        idle = Soak(process, url, requests, 0).open_files()
        soaked = Soak(process, url, requests, 60 * minutes)
        soaked.run()
        time.sleep(4 * SECONDS)
        (reply,), _ = asyncio.run(closed_loop(url, requests[:1], 1))
        left = soaked.open_files() - idle
        log.seek(0)
        text = log.read()
    slope, files = soaked.growth()
    answers = sum(soaked.good.values())
    yield set(soaked.good) <= {200, 503}, f"soak: {minutes:g} minutes, {answers:,} good requests, {dict(soaked.good)}"
    wrong = f"wrong statuses: {dict(soaked.wrong) or 'none'}"
    yield not soaked.wrong, f"soak: {soaked.abused:,} abusive connections, {wrong}"
    yield slope <= 1, f"soak: memory {soaked.samples[-1][1]:.0f} MB, {slope:+.2f} % an hour after the first fifth"
    yield files <= 2 and left <= 2, f"soak: open files {files:+.0f} from the first to the last third, {left:+d} at rest"
    yield "Traceback" not in text, f"soak: {len(text.splitlines())} lines of log, {text.count('Traceback')} tracebacks"
    yield reply.status == 200, f"soak: the last good request has status {reply.status}"
