"""Measures the overhead of the client, with 64 single responses in flight.

    python bench/overhead.py --assay ../../bin/assay --model models/NAME --rounds 5

Starts the service, then loads it alternately with `assay bench serving` (Go)
and with child processes of the synchronous and the asynchronous client. All
share the processors, so wall clock times mean little on a busy machine; the
CPU seconds of each process (user and system) are the cost of a request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from assay_client import AsyncClient, Client, Options

IN_FLIGHT = 64
OPTIONS = Options(instances=False)
WORDS = (
    "the",
    "lid",
    "turns",
    "left",
    "when",
    "you",
    "press",
    "it",
    "down",
    "so",
    "that",
    "water",
    "stays",
    "in",
)


@dataclass(frozen=True)
class Load:
    """The cost of n requests."""

    seconds: float
    loader: float  # CPU seconds
    server: float


def texts(n: int, words: int) -> list[str]:
    """n different responses of this many words, in sentences of about twelve."""
    rng = random.Random(0)
    out = []
    for k in range(n):
        response = [rng.choice(WORDS) for _ in range(words)]
        for at in range(11, words, 12):
            response[at] += "."
        out.append(f"Number {k}: {' '.join(response)}.")
    return out


class Measure:
    """Prints the seconds and the CPU seconds of a block."""

    def __enter__(self) -> Measure:
        self._started, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        print(json.dumps([time.perf_counter() - self._started, time.process_time() - self._cpu]))


def sync_load(url: str, responses: list[str]) -> None:
    with Client(url) as client, ThreadPoolExecutor(IN_FLIGHT) as pool:
        client.wait_ready()  # do not measure the creation of the client
        with Measure():
            list(pool.map(lambda text: client.score_one(text, options=OPTIONS), responses))


async def async_load(url: str, responses: list[str]) -> None:
    async with AsyncClient(url) as client:
        remaining = iter(responses)

        async def work() -> None:
            for text in remaining:
                await client.score_one(text, options=OPTIONS)

        await client.wait_ready()
        with Measure():
            await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


def child(kind: str, url: str, path: str) -> None:
    responses = json.loads(Path(path).read_text())
    if kind == "async":
        asyncio.run(async_load(url, responses))
    else:
        sync_load(url, responses)


class Server:
    def __init__(self, binary: str, model: str, more: list[str]) -> None:
        self._directory = tempfile.TemporaryDirectory()
        command = [binary, "serve", "--model", model, "--listen", "127.0.0.1:0", "--nats", "off"]
        command += ["--cache-bytes", "0", "--log-format", "json", "--data-dir", self._directory.name, *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.get("message") == "ready":
                self.url = entry["http"]
                # A full pipe would block the service.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise SystemExit("the service did not start")

    def cpu(self) -> float:
        """CPU seconds used so far by all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self._directory.cleanup()


def measure(server: Server, kind: str, binary: str, lines: str, values: str, n: int) -> Load:
    before = server.cpu()
    if kind != "Go":
        run = [sys.executable, __file__, "--child", kind, server.url, values]
        seconds, loader = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
        return Load(seconds, loader, server.cpu() - before)
    used, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = [binary, "bench", "serving", "--text", "--url", server.url, "--concurrency", str(IN_FLIGHT)]
    subprocess.run([*run, "--size", "1", "--most", str(n), lines], check=True, capture_output=True)
    seconds, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    loader = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return Load(seconds, loader, server.cpu() - before)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--assay", default="assay", help="assay binary")
    options.add_argument("--model", required=True, help="checkpoint directory")
    options.add_argument("--requests", type=int, default=256)
    options.add_argument("--words", type=int, default=32, help="words per response")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--serve", default="--allow-untrained --threads 1", help="additional arguments of assay serve"
    )
    options.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    if "--child" in sys.argv:
        child(*sys.argv[2:])
        return
    args = options.parse_args()
    responses = texts(args.requests, args.words)
    server = Server(args.assay, args.model, args.serve.split())
    loads: dict[str, list[Load]] = {"Go": [], "sync": [], "async": []}
    try:
        with tempfile.TemporaryDirectory() as directory:
            lines, values = Path(directory, "responses.txt"), Path(directory, "responses.json")
            lines.write_text("\n".join(responses) + "\n")
            values.write_text(json.dumps(responses))
            measure(
                server, "Go", args.assay, str(lines), str(values), IN_FLIGHT
            )  # the first batches of a process are slow
            for _ in range(args.rounds):
                for kind, measured in loads.items():
                    load = measure(server, kind, args.assay, str(lines), str(values), args.requests)
                    print(f"# {kind} {load}", file=sys.stderr)
                    measured.append(load)
    finally:
        server.close()

    def median(values: list[float]) -> float:
        return statistics.median(values)

    n = args.requests
    print(f"{IN_FLIGHT} single responses in flight, {n} requests per round, medians of {args.rounds} rounds")
    print("loader  requests/s  of Go's  loader CPU ms  server CPU ms  loader/server")
    for kind, measured in loads.items():
        rate = median([n / load.seconds for load in measured])
        ratio = median([go.seconds / load.seconds for go, load in zip(loads["Go"], measured)])
        loader = median([load.loader / n for load in measured]) * 1000
        service = median([load.server / n for load in measured]) * 1000
        share = median([load.loader / load.server for load in measured])
        print(f"{kind:6} {rate:11.1f} {ratio:8.3f} {loader:14.2f} {service:14.2f} {share:14.3f}")


if __name__ == "__main__":
    main()
