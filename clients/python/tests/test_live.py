"""Live sessions over WebSocket and NATS: against a scripted server, and a real service."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Service, Texts
from live_server import LiveServer, live_server

import assay_client as ac

__all__ = ["live_server"]

TEXT = "Hello there. You are an idiot. Goodbye now."
PIECES = [TEXT[i : i + 5] for i in range(0, len(TEXT), 5)]


async def aiter_of(pieces: list[str]) -> AsyncIterator[str]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


def run(url: str, asynchronous: bool, **settings: Any) -> tuple[list[ac.LiveEvent], ac.Live | ac.AsyncLive]:
    """The events of TEXT, and the finished session."""
    if not asynchronous:
        with ac.Client(url, retry=0) as client, client.live(**settings) as live:
            return list(live.events(PIECES)), live

    async def main() -> tuple[list[ac.LiveEvent], ac.AsyncLive]:
        async with ac.AsyncClient(url, retry=0) as client, client.live(**settings) as live:
            return [event async for event in live.events(aiter_of(PIECES))], live

    return asyncio.run(main())


@pytest.mark.parametrize("asynchronous", [False, True])
def test_events_and_result(live_server: LiveServer, asynchronous: bool) -> None:
    options = ac.Options(reward="raw")
    events, live = run(
        live_server.url, asynchronous, prompt="p", id="r7", options=options, provisional_tokens=16
    )
    assert live_server.opened == [
        {"id": "r7", "prompt": "p", "options": {"reward": "raw"}, "provisional_tokens": 16}
    ]
    assert live_server.texts == [TEXT]
    utterances = [event.utterance for event in events]
    assert [u.text for u in utterances if u] == ["Hello there.", "You are an idiot.", "Goodbye now."]
    assert all(u and TEXT[u.start : u.end] == u.text for u in utterances)
    assert [(e.stop, e.compliant) for e in events] == [(False, True), (True, False), (True, False)]
    assert live.stopped
    assert live.last == events[-1]
    assert live.result is not None
    assert live.result.reward == pytest.approx(0.1)
    assert live.result.model.version == "v1"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_errors(live_server: LiveServer, asynchronous: bool) -> None:
    for code, kind in (
        ("overloaded", ac.ServiceUnavailableError),
        ("too_large", ac.BadRequestError),
        ("not_found", ac.NotFoundError),
        ("model_failed", ac.InternalServerError),
    ):
        live_server.error = {"code": code, "message": "scripted", "field": "text"}
        with pytest.raises(kind, match="scripted") as caught:
            run(live_server.url, asynchronous)
        assert (caught.value.code, caught.value.field) == (code, "text")
    live_server.error, live_server.cut = None, True
    with pytest.raises(ac.APIConnectionError, match="cut off"):
        run(live_server.url, asynchronous)
    live_server.status = 401
    with pytest.raises(ac.AuthenticationError, match="scripted"):
        run(live_server.url, asynchronous)
    with pytest.raises(ac.APIConnectionError) as failed:
        run("http://127.0.0.1:9", asynchronous)
    assert not failed.value.sent


def test_the_session_ends_with_the_block(live_server: LiveServer) -> None:
    with ac.Client(live_server.url, token="secret") as client:
        with client.live() as live:
            assert live.feed("Hello there. You") is not None
            event = live.receive(10)
            assert event is not None
            assert not event.stop
            assert live.receive(0) is None
        assert live_server.ended.acquire(timeout=10)
        assert live_server.headers[0]["authorization"] == "Bearer secret"
        with client.live() as live:
            live.send("One.")
            assert live.finish().compliant
            assert live.receive() is None
            with pytest.raises(ac.InputError, match="finished"):
                live.send("Two.")


def test_private_token(live_server: LiveServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ASSAY_TOKEN", raising=False)
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))
    (tmp_path / "token").write_text("of this machine\n")
    run(live_server.url, False)
    assert live_server.headers[0]["authorization"] == "Bearer of this machine"


def test_reset(live_server: LiveServer) -> None:
    with ac.Client(live_server.url) as client, client.live() as live:
        live.send("You are an idiot. I")
        event = live.receive(10)
        assert event is not None
        assert live.stopped
        live.send("</think>")
        event = live.receive(10)
        assert event is not None
        assert event.reset
        assert math.isnan(event.reward)
        assert not live.stopped


class Channel:
    """The receiving half of a session: messages of the service."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.messages = [json.dumps(message) for message in messages]

    def receive(self, _timeout: float | None) -> str | None:
        return self.messages.pop(0) if self.messages else None


class AsyncChannel(Channel):
    async def receive(self, _timeout: float | None) -> str | None:  # type: ignore[override]
        return super().receive(_timeout)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_partial_reset_keeps_the_verdict_before_it(asynchronous: bool) -> None:
    def message(index: int, violation: float, stop: bool, **utterance: Any) -> dict[str, Any]:
        found = {"index": index, "start": 0, "end": 1, "text": "x", "violation": violation, **utterance}
        running = {"violation": violation, "reward": 1 - violation, "compliant": not stop, "stop": stop}
        return {"utterance": found, **running}

    messages = [message(0, 0.1, False), message(1, 0.9, True), message(2, 0.95, True)]
    messages += [{"reset": {"index": 2}}, message(2, 0.96, True, provisional=True), {"reset": {"index": 1}}]
    messages += [message(1, 0.2, False), {"reset": {}}]
    seen = []
    if asynchronous:

        async def main() -> None:
            live = ac.AsyncLive(AsyncChannel(messages), "", 1)  # type: ignore[arg-type]
            while await live.receive(0):
                seen.append((live.last and live.last.violation, live.stopped))

        asyncio.run(main())
    else:
        live = ac.Live(Channel(messages), "", 1)  # type: ignore[arg-type]
        while live.receive(0):
            seen.append((live.last and live.last.violation, live.stopped))
    assert seen == [
        *[(0.1, False), (0.9, True), (0.95, True)],
        *[(0.9, True), (0.9, True), (0.1, False)],
        *[(0.2, False), (None, False)],
    ]


def test_a_failed_session_stays_failed(live_server: LiveServer) -> None:
    live_server.error = {"code": "idle", "message": "idle for too long"}
    with ac.Client(live_server.url) as client, client.live() as live:
        live.send("x")
        for _ in range(2):
            with pytest.raises(ac.ServiceUnavailableError, match="idle"):
                live.receive(10)
        with pytest.raises(ac.ServiceUnavailableError, match="idle"):
            live.send("y")


def same(live: ac.Result | None, scored: ac.Result) -> None:
    assert live is not None
    assert live.witness == scored.witness or live.reward == pytest.approx(scored.reward, abs=5e-3)
    assert (live.id, live.compliant, live.model) == (scored.id, scored.compliant, scored.model)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_real_service(service: Service, texts: Texts, asynchronous: bool) -> None:
    pieces = [texts.rude[i : i + 3] for i in range(0, len(texts.rude), 3)]
    item = ac.Item(response=texts.rude, id="live")
    if asynchronous:

        async def main() -> None:
            async with ac.AsyncClient(service.url) as client:
                async with client.live(id="live") as live:
                    events = [event async for event in live.events(aiter_of(pieces))]
                same(live.result, await client.score_one(item))
                assert [e.utterance and texts.rude[e.utterance.start : e.utterance.end] for e in events] == [
                    e.utterance and e.utterance.text for e in events
                ]

        asyncio.run(main())
        return
    with ac.Client(service.url) as client:
        with client.live(id="live") as live:
            events = list(live.events(pieces))
        assert len(events) == 2
        same(live.result, client.score_one(item))
        with pytest.raises(ac.NotFoundError), client.live(model="another"):
            pass


@pytest.fixture
def single(binary: str, tmp_path: Path) -> Iterator[Service]:
    """A service with one place for live sessions."""
    running = Service(binary, tmp_path, ["--train-auto=false", "--live-sessions", "1"])
    running.start()
    yield running
    running.kill()


@pytest.fixture
def at_retry() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Registers what to call when the client is about to retry."""
    handlers: list[logging.Handler] = []

    def register(action: Callable[[], object]) -> None:
        handler = logging.Handler()
        handler.emit = lambda _: action()  # type: ignore[method-assign, assignment]
        handlers.append(handler)
        logging.getLogger("assay_client").addHandler(handler)

    yield register
    for handler in handlers:
        logging.getLogger("assay_client").removeHandler(handler)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_opening_is_retried(
    single: Service, texts: Texts, at_retry: Callable[[Callable[[], object]], None], asynchronous: bool
) -> None:
    """The service accepts the connection before it refuses the session."""
    with ac.Client(single.url) as client, client.live() as occupied:
        with pytest.raises(ac.ServiceUnavailableError) as caught:
            run(single.url, asynchronous)
        assert caught.value.code == "overloaded"
        at_retry(occupied.close)
        if asynchronous:

            async def main() -> ac.Result:
                async with ac.AsyncClient(single.url) as other, other.live(deadline=60) as live:
                    await live.send(texts.rude)
                    return await live.finish()

            assert not asyncio.run(main()).compliant
            return
        with client.live(deadline=60) as live:
            live.send(texts.rude)
            assert not live.finish().compliant


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_service_that_does_not_open_the_session(asynchronous: bool) -> None:
    from websockets.utils import accept_key

    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as stream:
                lines = [line.decode().strip() for line in iter(stream.readline, b"\r\n")]
                [key] = [line.split(": ")[1] for line in lines if line.startswith("Sec-WebSocket-Key")]
                connection.sendall(
                    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                    b"Sec-WebSocket-Accept: " + accept_key(key).encode() + b"\r\n\r\n"
                )
                stream.read()  # until the client leaves, without a reply

        thread = threading.Thread(target=accept)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        async def main() -> None:
            async with ac.AsyncClient(url, retry=0, timeout=0.5) as client:
                with pytest.raises(ac.APITimeoutError, match="not opened"):
                    async with client.live():
                        pass

        if asynchronous:
            asyncio.run(main())
        else:
            with (
                ac.Client(url, retry=0, timeout=0.5) as client,
                pytest.raises(ac.APITimeoutError, match="not opened"),
                client.live(),
            ):
                pass
        thread.join()
