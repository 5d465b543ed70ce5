"""What the client costs beside the service, at 64 single responses under way.

    python bench/overhead.py --assay ../../bin/assay --model models/NAME --rounds 5

Starts the service, then in turn loads it with `assay-lab bench serving` (Go) and
with child processes of the synchronous and the asynchronous client. All share
the processors, so that the wall clock tells little on a busy machine; the CPU
seconds of each process (user and system) tell what a request takes of it.
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

WAY = 64
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
    """What n requests took."""

    seconds: float
    loader: float  # CPU seconds
    server: float


def texts(n: int, words: int) -> list[str]:
    """n different responses of so many words, in sentences of about twelve."""
    rng = random.Random(0)
    out = []
    for k in range(n):
        said = [rng.choice(WORDS) for _ in range(words)]
        for at in range(11, words, 12):
            said[at] += "."
        out.append(f"Number {k}: {' '.join(said)}.")
    return out


class Used:
    """Seconds and CPU seconds of a block."""

    def __enter__(self) -> Used:
        self._began, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        print(json.dumps([time.perf_counter() - self._began, time.process_time() - self._cpu]))


def sync_load(url: str, said: list[str]) -> None:
    with Client(url) as client, ThreadPoolExecutor(WAY) as pool:
        client.wait_ready()  # the making of a client is not that of a request
        with Used():
            list(pool.map(lambda text: client.score_one(text, options=LEAN), said))


async def async_load(url: str, said: list[str]) -> None:
    async with AsyncClient(url) as client:
        rest = iter(said)

        async def work() -> None:
            for text in rest:
                await client.score_one(text, options=LEAN)

        await client.wait_ready()
        with Used():
            await asyncio.gather(*(work() for _ in range(WAY)))


def child(kind: str, url: str, path: str) -> None:
    said = json.loads(Path(path).read_text())
    if kind == "async":
        asyncio.run(async_load(url, said))
    else:
        sync_load(url, said)


class Server:
    def __init__(self, binary: str, model: str, more: list[str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        command = [binary, "serve", "--model", model, "--listen", "127.0.0.1:0", "--nats", "off"]
        command += ["--cache-bytes", "0", "--log-format", "json", "--data-dir", self._folder.name, *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for line in self.process.stderr:
            note = json.loads(line) if line.startswith("{") else {}
            if note.get("message") == "ready":
                self.url = note["http"]
                # A pipe that nobody reads would stop the service in the end.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise SystemExit("the service did not start")

    def cpu(self) -> float:
        """CPU seconds of all its threads so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self._folder.cleanup()


def measure(server: Server, kind: str, lab: str, lines: str, said: str, n: int) -> Load:
    before = server.cpu()
    if kind != "Go":
        run = [sys.executable, __file__, "--child", kind, server.url, said]
        seconds, loader = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
        return Load(seconds, loader, server.cpu() - before)
    used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    run = [lab, "bench", "serving", "--text", "--url", server.url, "--concurrency", str(WAY)]
    subprocess.run([*run, "--size", "1", "--most", str(n), lines], check=True, capture_output=True)
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    loader = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return Load(seconds, loader, server.cpu() - before)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--assay", required=True, help="the binary, with assay-lab in the same directory")
    options.add_argument("--model", required=True, help="folder of a checkpoint")
    options.add_argument("--requests", type=int, default=256)
    options.add_argument("--words", type=int, default=32, help="words of a response")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--serve", default="--allow-untrained --threads 1", help="more arguments of assay serve"
    )
    options.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    if "--child" in sys.argv:
        child(*sys.argv[2:])
        return
    args = options.parse_args()
    lab = str(Path(args.assay).with_name("assay-lab"))
    said = texts(args.requests, args.words)
    server = Server(args.assay, args.model, args.serve.split())
    loads: dict[str, list[Load]] = {"Go": [], "sync": [], "async": []}
    try:
        with tempfile.TemporaryDirectory() as folder:
            lines, values = Path(folder, "said.txt"), Path(folder, "said.json")
            lines.write_text("\n".join(said) + "\n")
            values.write_text(json.dumps(said))
            measure(
                server, "Go", lab, str(lines), str(values), WAY
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
    print(f"{WAY} single responses under way, {n} requests a round, medians of {args.rounds} rounds")
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
