"""The LiteLLM proxy with assay as its generic guardrail, in front of a scripted model."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import scripted
from conftest import Service, Texts
from scripted import JSON, delta, shown

LITELLM = Path(sys.executable).with_name("litellm")
if not LITELLM.exists():
    pytest.skip("pip install 'litellm[proxy]'", allow_module_level=True)

KEY = f"sk-{secrets.token_hex(16)}"
ENDPOINTS = ("chat", "messages", "responses")


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with scripted.serve() as url:
        yield url


@dataclass
class Answer:
    status: int
    text: str  # of the model, as the client sees it
    body: str


@dataclass
class Proxy:
    """A `litellm` process with one guardrail."""

    url: str

    def ask(self, endpoint: str, text: str, stream: bool) -> Answer:
        said = [{"role": "user", "content": text}]
        requests: dict[str, tuple[str, JSON]] = {
            "chat": ("/v1/chat/completions", {"model": "chat", "messages": said}),
            "messages": ("/v1/messages", {"model": "messages", "max_tokens": 100, "messages": said}),
            "responses": ("/v1/responses", {"model": "chat", "input": text}),
        }
        path, body = requests[endpoint]
        body["stream"] = stream
        headers = {"Authorization": f"Bearer {KEY}"}
        with httpx.stream("POST", self.url + path, json=body, headers=headers, timeout=60) as r:
            lines = list(r.iter_lines())
        whole = "\n".join(lines)
        if r.status_code != 200:
            return Answer(r.status_code, "", whole)
        if not stream:
            return Answer(200, shown(json.loads(whole)), whole)
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        return Answer(200, "".join(map(delta, events)), whole)


@pytest.fixture(scope="module")
def proxies(service: Service, upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    running: dict[str, tuple[subprocess.Popen[bytes], Proxy]] = {}

    def start(**params: Any) -> Proxy:
        key = json.dumps(params)
        if key not in running:
            running[key] = run(service, upstream, tmp_path_factory.mktemp("litellm"), params)
        return running[key][1]

    yield start
    for process, _ in running.values():
        process.terminate()
        process.wait(timeout=60)


def run(service: Service, upstream: str, home: Path, params: JSON) -> Any:
    guardrail = {"guardrail": "generic_guardrail_api", "mode": "post_call", "default_on": True}
    openai = {"model": "openai/m", "api_base": f"{upstream}/v1", "api_key": "none"}
    anthropic = {"model": "anthropic/m", "api_base": upstream, "api_key": "none"}
    config: JSON = {
        "model_list": [
            {"model_name": "chat", "litellm_params": openai},
            {"model_name": "messages", "litellm_params": anthropic},
        ],
        "guardrails": [
            {
                "guardrail_name": "assay",
                "litellm_params": {**guardrail, "api_base": service.url, **params},
            }
        ],
    }
    file = home / "config.yaml"
    file.write_text(json.dumps(config))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (home / "log").open("wb")
    command = [str(LITELLM), "--config", str(file), "--port", str(port)]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY}
    process = subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=log, stderr=log, env=env)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/liveliness", timeout=5).status_code == 200:
                return process, Proxy(url)
        except httpx.TransportError:
            time.sleep(0.2)
    process.kill()
    raise AssertionError((home / "log").read_text())


# Each chunk is judged before it is shown.
EVERY_CHUNK = {"streaming_sampling_rate": 1}
# Of a chat stream, whole sentences are shown.
SENTENCES = {**EVERY_CHUNK, "streaming_transform_mode": "incremental_diff"}
RUDE = "Drink some water \U0001f600. Rest well. You are a stupid idiot and I hate you. Then sleep well."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_compliant(proxies: Any, texts: Texts, endpoint: str, stream: bool) -> None:
    for params in EVERY_CHUNK, SENTENCES:
        answer = proxies(**params).ask(endpoint, texts.polite, stream)
        assert (answer.status, answer.text) == (200, texts.polite), answer.body


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_block(proxies: Any, endpoint: str) -> None:
    answer = proxies(**EVERY_CHUNK).ask(endpoint, RUDE, False)
    assert answer.status == 400, answer.body
    assert "above the threshold" in answer.body
    assert "idiot" not in answer.body


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_block_stream(proxies: Any, endpoint: str) -> None:
    answer = proxies(**EVERY_CHUNK).ask(endpoint, RUDE, True)
    assert answer.status == 200, answer.body
    assert answer.text.startswith("Drink some water \U0001f600. Rest well. ")
    assert "above the threshold" in answer.body
    assert "hate" not in answer.body


def test_block_stream_of_sentences(proxies: Any) -> None:
    answer = proxies(**SENTENCES).ask("chat", RUDE, True)
    assert "above the threshold" in answer.body
    assert RUDE.startswith(answer.text)
    assert "You" not in answer.text


def test_request(proxies: Any, texts: Texts) -> None:
    proxy = proxies(mode="pre_call")
    assert proxy.ask("chat", texts.polite, False).text == texts.polite
    answer = proxy.ask("chat", texts.rude, False)
    assert answer.status == 400, answer.body
    assert "above the threshold" in answer.body


def test_failures(proxies: Any, texts: Texts) -> None:
    unreachable = {"api_base": "http://127.0.0.1:9"}
    assert proxies(**unreachable).ask("chat", texts.polite, False).status == 500
    fallback = proxies(**unreachable, unreachable_fallback="fail_open")
    assert fallback.ask("chat", texts.polite, False).text == texts.polite


def test_token(proxies: Any, guarded: Service, secret: str, texts: Texts) -> None:
    forwarded = {"X-Forwarded-For": "10.1.2.3"}  # requires a token
    given = {**forwarded, "Authorization": f"Bearer {secret}"}
    for headers, status in (forwarded, 500), (given, 200):
        proxy = proxies(api_base=guarded.url, headers=headers)
        assert proxy.ask("chat", texts.polite, False).status == status
