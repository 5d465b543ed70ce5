"""Fixtures: a real service (the binary is $ASSAY_BIN) and a server with scripted faults."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Service:
    """An `assay serve` process, which can be killed and restarted on the same port."""

    binary: str
    data: Path
    args: list[str] = field(default_factory=list)
    listen: str = "127.0.0.1:0"
    url: str = ""
    nats: str = ""
    process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [self.binary, "serve", "--listen", self.listen, "--nats-listen", "127.0.0.1:0"]
        command += ["--model", str(ROOT / "models" / "default"), "--threads", "1", "--log-format", "json"]
        command += ["--data-dir", str(self.data), *self.args]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        assert self.process.stderr is not None
        log = []
        for line in self.process.stderr:
            log.append(line)
            if not line.startswith("{"):
                continue
            entry = json.loads(line)
            if entry.get("message") == "ready":
                self.url, self.nats = str(entry["http"]), str(entry["nats"])
                if not self.url.startswith("http"):
                    self.url = f"http://{self.url}"
                self.listen = self.url.split("//")[1]
                self.drain = threading.Thread(target=self.process.stderr.read, daemon=True)
                self.drain.start()
                return
        pytest.fail("the service did not start:\n" + "".join(log))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.drain.join()
            assert self.process.stderr is not None
            self.process.stderr.close()
            self.process = None


@pytest.fixture(scope="session")
def binary() -> str:
    found = os.environ.get("ASSAY_BIN")
    if not found:
        pytest.skip("ASSAY_BIN is not set to the assay binary (make build writes bin/assay)")
    return str(Path(found).resolve())


@pytest.fixture(scope="session")
def service(binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(binary, tmp_path_factory.mktemp("data"), ["--train-auto=false"])
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="session")
def secret() -> str:
    return "a-token-of-the-tests"


@pytest.fixture(scope="session")
def guarded(binary: str, secret: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that requires a token from forwarded requests, but not from the loopback interface."""
    tokens = tmp_path_factory.mktemp("tokens") / "tokens"
    tokens.write_text(f"{secret} score trainer\n")
    tokens.chmod(0o600)
    args = ["--train-auto=false", "--token-file", str(tokens), "--trust-loopback"]
    running = Service(binary, tmp_path_factory.mktemp("guarded"), args)
    running.start()
    yield running
    running.kill()


@dataclass
class Texts:
    """A compliant response, and one whose last sentence is a violation."""

    polite: str = "Drink some water and rest."
    violation: str = "You are a stupid idiot and I hate you."
    rude: str = "Drink some water \U0001f600. You are a stupid idiot and I hate you."

    def rewards(self, service: Service) -> list[float]:
        """The rewards of both from /v1/score, which every other endpoint must reproduce."""
        from assay_client import Client

        with Client(service.url) as client:
            polite, rude = client.rewards([self.polite, self.rude])
        assert polite > 0.5 > rude
        return [polite, rude]


@pytest.fixture(scope="session")
def texts() -> Texts:
    return Texts()


def assert_same(found: Sequence[Any], before: Sequence[Any]) -> None:
    """Asserts equal results. In bf16, rewards may differ by 5e-3 depending on the batch."""
    assert [(r.id, r.compliant, r.witness.text, r.model) for r in found] == [
        (r.id, r.compliant, r.witness.text, r.model) for r in before
    ]
    assert [r.reward for r in found] == pytest.approx([r.reward for r in before], abs=5e-3)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignores the warnings of third-party packages."""
    for item in items:
        if ROOT / "clients" / "python" / "tests" / "real" in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore"))


Reply = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Faulty

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.requests.append((self.path, dict(self.headers.items()), body))
            self.server.in_flight += 1
            self.server.max_in_flight = max(self.server.max_in_flight, self.server.in_flight)
            self.server.lock.notify_all()
            reply = self.server.script.pop(0) if self.server.script else self.server.default
        try:
            self.body = body
            reply(self)
        finally:
            with self.server.lock:
                self.server.in_flight -= 1

    do_GET = do_POST

    def send(self, status: int, value: Any, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Faulty(ThreadingHTTPServer):
    """Responds to each request with the next reply of its script, then with its default."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lock = threading.Condition()
        self.script: list[Reply] = []
        self.default: Reply = good
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = self.in_flight = self.max_in_flight = 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):  # the client disconnected, as some tests make it do
            super().handle_error(request, client_address)


def results(body: bytes) -> dict[str, Any]:
    """A valid response body. A response "#N" has the reward 0.N, which identifies it.

    If the request asks for aspects, these are `rudeness`, with that reward, and `evasion`, with 1 minus it.
    """
    found: list[dict[str, Any]] = []
    asked = json.loads(body)
    for n, item in enumerate(asked["responses"]):
        text = item.get("response", "")
        reward = float("0." + text.split("#")[1]) if "#" in text else 0.5
        witness = {"index": 0, "start": 0, "end": len(text), "text": text, "violation": 1 - reward}
        found.append(
            {
                "id": item.get("id") or f"generated-{n}",
                "reward": reward,
                "compliant": True,
                "violation": 1 - reward,
                "threshold": 0.5,
                "witness": witness,
                "truncated": False,
                "empty": False,
            }
        )
        if asked.get("options", {}).get("aspects"):
            found[-1]["aspect"] = "rudeness"
            found[-1]["aspects"] = {
                name: {
                    "reward": r,
                    "compliant": r >= 0.5,
                    "violation": 1 - r,
                    "threshold": 0.5,
                    "witness": witness,
                }
                for name, r in (("rudeness", reward), ("evasion", 1 - reward))
            }
    return {
        "model": {"name": "m", "version": "v1", "numerics": "3/x"},
        "offset_unit": "codepoint",
        "results": found,
    }


def dense_results(body: bytes) -> dict[str, Any]:
    """Like `results`, with each reward spread evenly over the non-empty tokens."""
    response = results(body)
    for item, found in zip(json.loads(body)["responses"], response["results"]):
        offsets = item["token_offsets"]
        full = [k for k, (start, end) in enumerate(offsets) if start < end] or [len(offsets) - 1]
        rewards = [found["reward"] / len(full) if k in full else 0.0 for k in range(len(offsets))]
        found["token_rewards"] = rewards
    return response


def good(h: Handler) -> None:
    h.send(200, results(h.body))


def error(status: int, code: str, field: str = "", **headers: str) -> Reply:
    body = {"code": code, "message": "scripted", "request_id": "r-1"}
    if field:
        body["field"] = field
    return lambda h: h.send(status, {"error": body}, **headers)


def drop(h: Handler) -> None:
    """Closes the connection without a response."""
    h.close_connection = True


def half(h: Handler) -> None:
    """Closes the connection in the middle of the response body."""
    data = json.dumps(results(h.body)).encode()
    h.send_response(200)
    h.send_header("Content-Length", str(len(data)))
    h.end_headers()
    h.wfile.write(data[: len(data) // 2])
    h.close_connection = True


def hang(h: Handler) -> None:
    """Sends no response until the client disconnects."""
    h.rfile.read(1)


def trickle(h: Handler) -> None:
    """Sends an endless response body, byte by byte, until the client disconnects."""
    h.send_response(200)
    h.send_header("Content-Length", str(1 << 40))
    h.end_headers()
    while True:
        h.wfile.write(b" ")
        h.wfile.flush()


def once(condition: Callable[[Faulty], bool]) -> Reply:
    """Responds as soon as condition(server) holds, which is checked at each request."""

    def reply(h: Handler) -> None:
        with h.server.lock:
            assert h.server.lock.wait_for(lambda: condition(h.server), timeout=60)
        good(h)

    return reply


@pytest.fixture
def faulty() -> Iterator[Faulty]:
    server = Faulty()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


class Caller:
    """Calls a method of the synchronous or the asynchronous client."""

    def __init__(self, asynchronous: bool) -> None:
        self._asynchronous = asynchronous

    def __call__(self, url: str, method: str, *args: Any, settings: Any = None, **kw: Any) -> Any:
        import asyncio

        from assay_client import AsyncClient, Client

        settings = settings or {}
        if not self._asynchronous:
            with Client(url, **settings) as client:
                return getattr(client, method)(*args, **kw)

        async def run() -> Any:
            async with AsyncClient(url, **settings) as client:
                return await getattr(client, method)(*args, **kw)

        return asyncio.run(run())


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param == "async")
