"""The cost of the client compared with that of the service, with 64 single responses in flight.

    python bench/overhead.py --assay ../../bin/assay --model models/NAME --rounds 5

Starts the service, then alternates between `assay-lab bench serving` (Go) and child
processes of the synchronous and the asynchronous client as the load generator. All
share the processors, so the wall-clock time means little on a busy machine; the CPU
time of each process (user and system) is the cost of a request.
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

CONCURRENCY = 64
LEAN = Options(instances=False)
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
    """n different responses with the given number of words, in sentences of about twelve."""
    rng = random.Random(0)
    out = []
    for k in range(n):
        chosen = [rng.choice(WORDS) for _ in range(words)]
        for at in range(11, words, 12):
            chosen[at] += "."
        out.append(f"Number {k}: {' '.join(chosen)}.")
    return out


class Stopwatch:
    """Prints the wall-clock and CPU seconds of a block."""

    def __enter__(self) -> Stopwatch:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        print(json.dumps([time.perf_counter() - self._began, time.process_time() - self._cpu]))


def sync_load(url: str, inputs: list[str]) -> None:
    with Client(url) as client, ThreadPoolExecutor(CONCURRENCY) as pool:
        client.wait_ready()  # creating a client is not part of a request
        with Stopwatch():
            list(pool.map(lambda text: client.score_one(text, options=LEAN), inputs))


async def async_load(url: str, inputs: list[str]) -> None:
    async with AsyncClient(url) as client:
        rest = iter(inputs)

        async def work() -> None:
            for text in rest:
                await client.score_one(text, options=LEAN)

        await client.wait_ready()
        with Stopwatch():
            await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


def child(kind: str, url: str, path: str) -> None:
    inputs = json.loads(Path(path).read_text())
    if kind == "async":
        asyncio.run(async_load(url, inputs))
    else:
        sync_load(url, inputs)


class Server:
    def __init__(self, binary: str, model: str, more: list[str]) -> None:
        self._directory = tempfile.TemporaryDirectory()
        command = [binary, "serve", "--model", model, "--listen", "127.0.0.1:0", "--nats", "off"]
        command += ["--cache-bytes", "0", "--log-format", "json", "--data-dir", self._directory.name, *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            note = json.loads(line) if line.startswith("{") else {}
            if note.get("message") == "ready":
                self.url = note["http"]
                # A pipe that is not read would block the service once it is full.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise SystemExit("the service did not start")

    def cpu(self) -> float:
        """CPU seconds of all threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self._directory.cleanup()


def measure(server: Server, kind: str, lab: str, lines: str, inputs: str, n: int) -> Load:
    before = server.cpu()
    if kind != "Go":
        run = [sys.executable, __file__, "--child", kind, server.url, inputs]
        seconds, loader = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
        return Load(seconds, loader, server.cpu() - before)
    used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = [lab, "bench", "serving", "--text", "--url", server.url, "--concurrency", str(CONCURRENCY)]
    subprocess.run([*run, "--size", "1", "--most", str(n), lines], check=True, capture_output=True)
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    loader = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return Load(seconds, loader, server.cpu() - before)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--assay", required=True, help="the binary, with assay-lab in the same directory")
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
    lab = str(Path(args.assay).with_name("assay-lab"))
    inputs = texts(args.requests, args.words)
    server = Server(args.assay, args.model, args.serve.split())
    loads: dict[str, list[Load]] = {"Go": [], "sync": [], "async": []}
    try:
        with tempfile.TemporaryDirectory() as directory:
            lines, values = Path(directory, "texts.txt"), Path(directory, "texts.json")
            lines.write_text("\n".join(inputs) + "\n")
            values.write_text(json.dumps(inputs))
            measure(
                server, "Go", lab, str(lines), str(values), CONCURRENCY
            )  # the first batches of a process are slow
            for _ in range(args.rounds):
                for kind, found in loads.items():
                    load = measure(server, kind, lab, str(lines), str(values), args.requests)
                    print(f"# {kind} {load}", file=sys.stderr)
                    found.append(load)
    finally:
        server.close()

    def median(values: list[float]) -> float:
        return statistics.median(values)

    n = args.requests
    print(f"{CONCURRENCY} responses in flight, {n} requests per round, medians of {args.rounds} rounds")
    print("loader  requests/s  of Go's  loader CPU ms  server CPU ms  loader/server")
    for kind, found in loads.items():
        rate = median([n / load.seconds for load in found])
        ratio = median([go.seconds / load.seconds for go, load in zip(loads["Go"], found)])
        loader = median([load.loader / n for load in found]) * 1000
        service = median([load.server / n for load in found]) * 1000
        share = median([load.loader / load.server for load in found])
        print(f"{kind:6} {rate:11.1f} {ratio:8.3f} {loader:14.2f} {service:14.2f} {share:14.3f}")


if __name__ == "__main__":
    main()
