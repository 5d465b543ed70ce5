"""The LiteLLM proxy with assay as its generic guardrail, in front of a scripted model."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from conftest import Service, Texts

LITELLM = Path(sys.executable).with_name("litellm")
if not LITELLM.exists():
    pytest.skip("pip install 'litellm[proxy]'", allow_module_level=True)

KEY = f"sk-{secrets.token_hex(16)}"
PACE = 0.01
JSON = dict[str, Any]
ENDPOINTS = ("chat", "messages", "responses")


class Model(BaseHTTPRequestHandler):
    """Responds with the last message of the user, word by word where a stream is requested."""

    protocol_version = "HTTP/1.0"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = asked["input"] if "input" in asked else asked["messages"]
        text = said if isinstance(said, str) else said[-1]["content"]
        if not isinstance(text, str):
            text = text[0]["text"]
        words = [word + " " for word in text.split(" ")]
        words[-1] = words[-1][:-1]
        if self.path.endswith("/messages"):
            whole, events = message(text), message_events(words)
        elif self.path.endswith("/responses"):
            whole, events = response(text, "completed"), response_events(words, text)
        else:
            whole, events = completion(text), completion_events(words)
        streamed = asked.get("stream", False)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
        self.end_headers()
        if not streamed:
            self.wfile.write(json.dumps(whole).encode())
            return
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            time.sleep(PACE)  # the speed of the model: LiteLLM coalesces what arrives together
        if "choices" in whole:
            self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def completion(text: str) -> JSON:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head: JSON = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": usage}


def completion_events(words: list[str]) -> Iterator[JSON]:
    head: JSON = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    for word in words:
        delta = {"role": "assistant", "content": word}
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def message(text: str) -> JSON:
    content = [{"type": "text", "text": text}] if text else []
    head: JSON = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    stop = "end_turn" if text else None
    return {**head, "content": content, "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1}}


def message_events(words: list[str]) -> Iterator[JSON]:
    yield {"type": "message_start", "message": message("")}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in words:
        delta = {"type": "text_delta", "text": word}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def response(text: str, status: str) -> JSON:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "status": status, "role": "assistant", "content": [part]}
    head: JSON = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status}
    rest: JSON = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {**head, **rest, "output": [item] if text else [], "usage": usage}


def response_events(words: list[str], text: str) -> Iterator[JSON]:
    done = response(text, "completed")
    item = done["output"][0]
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    events: list[JSON] = [{"type": "response.created", "response": response("", "in_progress")}]
    started = {**item, "status": "in_progress", "content": []}
    events += [{"type": "response.output_item.added", "output_index": 0, "item": started}]
    empty = {"type": "output_text", "text": "", "annotations": []}
    events += [{"type": "response.content_part.added", **at, "part": empty}]
    events += [{"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in words]
    events += [{"type": "response.output_text.done", **at, "text": text, "logprobs": []}]
    events += [{"type": "response.content_part.done", **at, "part": item["content"][0]}]
    events += [{"type": "response.output_item.done", "output_index": 0, "item": item}]
    events += [{"type": "response.completed", "response": done}]
    for n, event in enumerate(events):
        yield {**event, "sequence_number": n}


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


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


def shown(whole: JSON) -> str:
    if "choices" in whole:
        return str(whole["choices"][0]["message"]["content"])
    if "content" in whole:
        return str(whole["content"][0]["text"])
    return str(whole["output"][0]["content"][0]["text"])


def delta(event: JSON) -> str:
    if event.get("choices"):
        return event["choices"][0]["delta"].get("content") or ""
    if event.get("type") == "content_block_delta":
        return str(event["delta"].get("text", ""))
    if event.get("type") == "response.output_text.delta":
        return str(event["delta"])
    return ""


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
