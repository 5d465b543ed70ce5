"""A language model that responds with the last message of the user, over three protocols."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = dict[str, Any]
PACE = 0.01


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


@contextlib.contextmanager
def serve() -> Iterator[str]:
    """Serves the model and returns its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def shown(whole: JSON) -> str:
    """The text of a response that is not streamed."""
    if "choices" in whole:
        return str(whole["choices"][0]["message"]["content"])
    if "content" in whole:
        return str(whole["content"][0]["text"])
    return str(whole["output"][0]["content"][0]["text"])


def delta(event: JSON) -> str:
    """The text of an event of a stream."""
    if event.get("choices"):
        return event["choices"][0].get("delta", {}).get("content") or ""
    if event.get("type") == "content_block_delta":
        return str(event["delta"].get("text", ""))
    if event.get("type") == "response.output_text.delta":
        return str(event["delta"])
    return ""
