"""What `keras-attention serve` does under load: the server on one core, the clients on another.

    python benchmarks/serving.py --model NAME [--model NAME ...]                # all of it, some ten minutes
    python benchmarks/serving.py --model NAME --only latency batching --seconds 10
    python benchmarks/serving.py --model NAME --soak [MINUTES]                   # 30 minutes of good and bad clients

    equal     mixed requests of 64 clients get the same answers as each request alone
    latency   one client: median and 95th percentile from the first byte sent to the last one read, each model
    batching  32 clients: answers per second with batches and with --max-batch 1, each model
    overload  three times the measured capacity: statuses, /health, memory, and the time until latency is normal again
    abuse     30 malformed or hostile requests to a translator: statuses, and whether the server still runs
    sigterm   SIGTERM under load: whether every request that the server accepted got its answer
    --soak    good, hostile and disconnecting clients together: memory per hour, open files, tracebacks in the log

A line that starts with "!" reports a result that is not as required. Needs `pip install .[serve]`.
"""

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import time
from collections import Counter

import numpy as np
from serving_abuse import ABUSE, status_of
from serving_load import CLIENT_CORE, PATHS, Client, closed_loop, open_loop, server, watch
from serving_soak import soak

from keras_attention.zoo.entry import read_entry
from keras_attention.zoo.registry import find_entry

ALLOWED_UNDER_LOAD = {200, 429, 503}
MOST_WARM_UPS = 8


def requests_for(name):
    """One request for each example of a model: a list of (path, body)."""
    entry = read_entry(find_entry(name))
    task, model = entry.architecture.task.name, entry.folder.name
    bodies = [{"model": model, "texts": [example["source"]]} for example in entry.metrics["examples"]]
    for body, example in zip(bodies, entry.metrics["examples"], strict=True):
        if "source_b" in example:
            body["texts_b"] = [example["source_b"]]
    return [(PATHS[task], body) for body in bodies]


def print_result(good, text):
    """One line of the report."""
    print(text if good else f"! {text}", flush=True)


def equal(models, seconds, flags):
    """Mixed requests of 64 clients: 2,000, or fewer if `seconds` is short."""
    draw = random.Random(1)
    every = [request for name in models for request in requests_for(name)]
    count = min(2000, int(100 * seconds))
    several = [mixed(draw, every) for _ in range(count)]
    with server(models, *flags) as (_, url):
        distinct = {json.dumps(request): request for request in several}
        alone, _ = asyncio.run(closed_loop(url, list(distinct.values()), 1))
        expected = dict(zip(distinct, alone, strict=True))
        replies, taken = asyncio.run(closed_loop(url, several, 64))
    pairs = [(reply, expected[json.dumps(request)]) for request, reply in zip(several, replies, strict=True)]
    other = sum(reply.status != 200 or not same(json.loads(reply.body), json.loads(one.body)) for reply, one in pairs)
    print_result(
        not other, f"equal: {count:,} requests of 64 clients in {taken:.1f} s, {other} unlike the answers alone"
    )


def mixed(draw, every):
    """A request with the texts of one to three requests to the same model."""
    path, body = draw.choice(every)
    others = [other for _, other in every if other["model"] == body["model"]]
    chosen = [body, *draw.sample(others, draw.randrange(min(3, len(others))))]
    return path, {**body, **{name: [one[name][0] for one in chosen] for name in body if name.startswith("texts")}}


def same(one, other):
    """Whether two answers are equal, except for rounding, which depends on the batch size."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return abs(one - other) < 1e-3 if isinstance(one, float) else one == other


def latency(models, seconds, flags):
    """One client that sends one request after the other."""
    with server(models, *flags) as (_, url):
        for name in models:
            replies = asyncio.run(ask_for(url, requests_for(name), seconds))
            times = sorted(1000 * reply.seconds for reply in replies)
            median, late = statistics.median(times), times[int(0.95 * len(times))]
            print_result(median <= 10, f"latency: {name} p50 {median:.1f} ms, p95 {late:.1f} ms, {len(times)} requests")


async def ask_for(url, requests, seconds):
    """The replies to one client for some seconds, after each request was sent once."""
    client, replies = Client(url), []
    for request in requests:
        await client.ask(*request)
    end = time.perf_counter() + seconds
    for request in itertools.cycle(requests):
        replies.append(await client.ask(*request))
        if time.perf_counter() > end:
            break
    client.close()
    return replies


def batching(models, seconds, flags):
    """32 clients, with batches and without."""
    rates = {}
    for size in ("8", "1"):
        with server(models, *flags, "--max-batch", size) as (_, url):
            for name in models:
                rates[name, size] = capacity(url, requests_for(name), seconds)
    for name in models:
        together, alone = rates[name, "8"], rates[name, "1"]
        text = f"batching: {name} {together:.0f}/s in batches, {alone:.0f}/s alone: {together / alone:.2f} times"
        print_result(together >= 2 * alone, text)


def capacity(url, requests, seconds):
    """Answers per second to 32 clients, after loops in which programs are compiled, until a loop gets no faster."""
    rate = 0.0
    for _ in range(MOST_WARM_UPS):
        few, taken = asyncio.run(closed_loop(url, requests * 4, 32))
        before, rate = rate, len(few) / taken
        if rate < 1.1 * before:
            break
    count = int(rate * seconds)
    replies, taken = asyncio.run(closed_loop(url, list(itertools.islice(itertools.cycle(requests), count)), 32))
    return sum(reply.status == 200 for reply in replies) / taken


def overload(models, seconds, flags):
    """Three times the capacity of the first model's requests."""
    requests = requests_for(models[0])
    with server(models[:1], *flags) as (process, url):
        rate = 3 * capacity(url, requests, min(10, seconds))
        before = median_seconds(asyncio.run(ask_for(url, requests, 2)))
        replies, health, memory = watched(process, url, requests, rate, seconds)
        ended, recovered = time.perf_counter(), None
        while recovered is None and time.perf_counter() - ended < 60:
            if median_seconds(asyncio.run(closed_loop(url, requests[:5], 1))[0]) <= 2 * before:
                recovered = time.perf_counter() - ended
    counts = Counter(reply.status for reply in replies)
    late = sorted(health)[int(0.99 * len(health))]
    times, sizes = np.array(memory).T
    slope = 100 * 60 * np.polyfit(times, sizes, 1)[0] / sizes.mean()
    print_result(
        set(counts) <= ALLOWED_UNDER_LOAD, f"overload: {rate:.0f}/s for {seconds:g} s, statuses {dict(counts)}"
    )
    print_result(late <= 0.1, f"overload: /health p99 {1000 * late:.1f} ms of {len(health)}")
    print_result(slope <= 1, f"overload: memory {sizes[-1]:.0f} MB, {slope:+.2f} % a minute")
    print_result((recovered or 60) <= 10, f"overload: back to normal after {recovered or float('inf'):.1f} s")


def watched(process, url, requests, rate, seconds):
    """Overloads the server while another process polls it; returns replies, seconds of /health, (seconds, MB)."""
    receive, send = multiprocessing.Pipe(duplex=False)
    watcher = multiprocessing.Process(target=watch, args=(url, process.pid, seconds, send))
    watcher.start()
    replies = asyncio.run(open_loop(url, requests, rate, seconds))
    health, memory = receive.recv()
    watcher.join()
    return replies, health, memory


def median_seconds(replies):
    return statistics.median(reply.seconds for reply in replies)


def abuse(models, seconds, flags):
    """Sends each abusive request, and then a good one."""
    wrong = []
    with server(models[:1], *flags, "--seconds", 2) as (process, url):
        for name, (sent, right) in ABUSE.items():
            status = status_of(url, sent, 10)
            if status not in right:
                wrong.append(f"{name}: {status}")
        (reply,), _ = asyncio.run(closed_loop(url, requests_for(models[0])[:1], 1))
        runs = process.poll() is None and reply.status == 200
    print_result(
        not wrong and runs, f"abuse: {len(ABUSE)} requests, wrong statuses: {', '.join(wrong) or 'none'}; runs: {runs}"
    )


def sigterm(models, seconds, flags):
    """All answers that the server counts must have reached the clients."""
    requests = requests_for(models[0])
    with server(models[:1], *flags) as (process, url):
        replies = asyncio.run(until_the_end(process, url, requests))
        counted = json.loads(process.stdout.readline())["answered"][requests[0][0]]
        code = process.wait()
    reached = sum(reply.status != 0 for reply in replies)
    good = sum(reply.status == 200 for reply in replies)
    text = f"sigterm: {counted} requests accepted, {counted - reached} lost, {good} answered with 200, exit code {code}"
    print_result(counted == reached == good and code == 0, text)


async def until_the_end(process, url, requests):
    """The replies to 32 clients that send requests until the server has stopped."""
    replies = []

    async def one():
        client = Client(url)
        for request in itertools.cycle(requests):
            replies.append(await client.ask(*request))
            if replies[-1].status == 0:
                return

    tasks = [asyncio.create_task(one()) for _ in range(32)]
    await asyncio.sleep(2)
    process.send_signal(signal.SIGTERM)
    await asyncio.gather(*tasks)
    return replies


MEASURES = (equal, latency, batching, overload, abuse, sigterm)


def main():
    names = [measure.__name__ for measure in MEASURES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", dest="models", action="append", required=True, help="may be repeated")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--seconds", type=float, help="length of each measurement (20; for the overload 300)")
    parser.add_argument(
        "--soak", type=float, nargs="?", const=30, metavar="MINUTES", help="run only a soak test of this length (30)"
    )
    parser.add_argument("--beam", type=int, help="beam size of the translators")
    given = parser.parse_args()
    flags = () if given.beam is None else ("--beam", given.beam)
    if given.soak:
        requests = [request for name in given.models for request in requests_for(name)]
        for good, text in soak(given.models, requests, given.soak, flags):
            print_result(good, text)
        return
    for measure in MEASURES:
        if measure.__name__ in given.only:
            measure(given.models, given.seconds or (300 if measure is overload else 20), flags)


if __name__ == "__main__":
    os.sched_setaffinity(0, {CLIENT_CORE})
    sys.exit(main())
