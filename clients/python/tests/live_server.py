"""A WebSocket server with the protocol of live sessions, for tests without a service.

A sentence ends with a full stop and a space, or with the response. One that
has a bad word is a violation. The reward is 1 minus the largest violation so far,
for a result that of the text as a whole included (`whole`).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("websockets")
from websockets.sync.server import Server, ServerConnection, serve


class LiveServer:
    """`opened` has the open message of each session, `texts` what each received, `ended` how many ended."""

    def __init__(self) -> None:
        self.opened: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bad = ["idiot"]
        self.whole = 0.0  # the violation of each text as a whole
        self.ended = threading.Semaphore(0)
        self.status = 101  # of the handshake
        self.error: dict[str, Any] | None = None  # sent for the first text
        self.silent = False  # the result never comes
        self.cut = False  # the connection ends with the first text
        self.server: Server = serve(self._handle, "127.0.0.1", 0, process_request=self._respond)
        self.url = f"http://127.0.0.1:{self.server.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def _respond(self, connection: ServerConnection, request: Any) -> Any:
        self.headers.append({k.lower(): v for k, v in request.headers.raw_items()})
        if request.path != "/v1/live":
            return connection.respond(404, "no such path")
        if self.status != 101:
            body = json.dumps({"error": {"code": "unauthorized", "message": "scripted"}})
            return connection.respond(self.status, body)
        return None

    def _handle(self, connection: ServerConnection) -> None:
        session = Session(self.bad, self.whole)
        self.opened.append(json.loads(connection.recv())["open"])
        index = len(self.texts)
        self.texts.append("")
        try:
            for message in connection:
                value = json.loads(message)
                if self.error is not None:
                    connection.send(json.dumps({"error": self.error}))
                    return
                if self.cut:
                    connection.close_socket()
                    return
                if self.silent and "close" in value:
                    continue
                if "close" in value:
                    for event in [*session.feed("", True), session.result()]:
                        connection.send(json.dumps(event))
                    return
                self.texts[index] += value["text"]
                for event in session.feed(value["text"], False):
                    connection.send(json.dumps(event))
        finally:
            self.ended.release()


class Session:
    def __init__(self, bad: list[str], whole: float) -> None:
        self.bad = bad
        self.whole = whole
        self.text = ""
        self.start = self.count = 0
        self.worst = 0.0

    def feed(self, piece: str, last: bool) -> list[dict[str, Any]]:
        self.text += piece
        if self.text.endswith("</think>"):
            self.start, self.worst, self.count = len(self.text), 0.0, 0
            return [{"reset": {}}]
        events = []
        while match := re.compile(r"[^.]*\.(?= )" + (r"|[^.]+\.?\Z" if last else "")).match(
            self.text, self.start
        ):
            start = self.start + len(match[0]) - len(match[0].lstrip())
            text, self.start = match[0].strip(), match.end()
            if not text:
                break
            violation = 0.9 if any(word in text for word in self.bad) else 0.1
            self.worst = max(self.worst, violation)
            utterance = {"index": self.count, "start": start, "end": match.end(), "text": text}
            self.count += 1
            events.append({"utterance": {**utterance, "violation": violation}, **self.running()})
        return events

    def running(self) -> dict[str, Any]:
        bad = self.worst > 0.5
        return {"violation": self.worst, "reward": 1 - self.worst, "compliant": not bad, "stop": bad}

    def result(self) -> dict[str, Any]:
        self.worst = max(self.worst, self.whole)
        running = self.running()
        del running["stop"]
        result = {"id": "r", "threshold": 0.5, "witness": None, "truncated": False, "empty": False, **running}
        return {"result": result, "model": {"name": "m", "version": "v1"}, "offset_unit": "codepoint"}


@pytest.fixture
def live_server() -> Iterator[LiveServer]:
    server = LiveServer()
    yield server
    server.server.shutdown()
    server.thread.join()
