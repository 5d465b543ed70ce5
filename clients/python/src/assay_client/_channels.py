"""The WebSocket connections of live sessions. Require the extra `live`.

httpx sends a whole request body before it reads the response, over HTTP/1.1
and HTTP/2, so it cannot return events while a response is being written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from . import _live, _wire
from ._config import Config, tls_context
from ._errors import APIConnectionError, APITimeoutError, AssayError, InputError, InvalidResponseError
from ._private_token import private_token
from ._version import __version__

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection as AsyncConnection
    from websockets.sync.client import ClientConnection as Connection


class AsyncChannel(Protocol):
    """Carries the messages of one live session, in order."""

    async def send_text(self, text: str) -> None: ...
    async def send_close(self) -> None: ...
    async def receive(self, timeout: float | None) -> bytes | str | None:
        """The next message; None if none arrives within timeout seconds (0: that has arrived)."""

    async def aclose(self) -> None: ...


class Channel(Protocol):
    """Like `AsyncChannel`, for threads."""

    def send_text(self, text: str) -> None: ...
    def send_close(self) -> None: ...
    def receive(self, timeout: float | None) -> bytes | str | None: ...
    def close(self) -> None: ...


async def async_open_channel(config: Config, message: bytes, timeout: float) -> AsyncChannel:
    """Opens a live session over a WebSocket; raises the error of a service that refuses it."""
    expires = time.monotonic() + timeout
    with _mapped_errors(config.url):
        from websockets.asyncio.client import connect

        connection = await connect(_address(config), **_settings(config, timeout))
    channel = _AsyncWebSocket(connection, config.url)
    try:
        await channel.open(message, expires)
    except BaseException:
        await channel.aclose()
        raise
    return channel


def open_channel(config: Config, message: bytes, timeout: float) -> Channel:
    """Opens a live session over a WebSocket; raises the error of a service that refuses it."""
    expires = time.monotonic() + timeout
    with _mapped_errors(config.url):
        from websockets.sync.client import connect

        # Entered like a context manager, as websockets 17 requires: _WebSocket.close leaves it.
        connection = connect(_address(config), **_settings(config, timeout)).__enter__()
    channel = _WebSocket(connection, config.url)
    try:
        channel.open(message, expires)
    except BaseException:
        channel.close()
        raise
    return channel


# A service sends nothing when it opens a session, but it reads, and so replies to, the ping
# behind the message only once the session is open or refused. A refusal comes before the pong.
def _check_opened(refusal: bytes | str | None, opened: bool, url: str) -> None:
    if refusal is not None:
        _live.parse(refusal, url)
        raise InvalidResponseError(f"the live session with {url} began with an event")
    if not opened:
        raise APITimeoutError(f"the live session with {url} was not opened within the timeout")


class _AsyncWebSocket:
    def __init__(self, connection: AsyncConnection, url: str) -> None:
        self._connection = connection
        self._url = url

    async def open(self, message: bytes, expires: float) -> None:
        opened = False
        with _mapped_errors(self._url, sending=True):
            await self._connection.send(message.decode())
            pong = asyncio.ensure_future(await self._connection.ping())
            await asyncio.wait({pong}, timeout=_until(expires))
            if pong.done():
                pong.result()  # raises if the connection has closed
                opened = True
        refusal = await self.receive(0 if opened else _until(expires))
        _check_opened(refusal, opened, self._url)

    async def send_text(self, text: str) -> None:
        with _mapped_errors(self._url, sending=True):
            await self._connection.send(_live.text_message(text).decode())

    async def send_close(self) -> None:
        with _mapped_errors(self._url, sending=True):
            await self._connection.send(_live.CLOSE.decode())

    async def receive(self, timeout: float | None) -> bytes | str | None:
        receiving = asyncio.ensure_future(self._connection.recv())
        try:
            await asyncio.wait({receiving}, timeout=timeout)
            if not receiving.done():
                return None
            with _mapped_errors(self._url):
                return receiving.result()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)

    async def aclose(self) -> None:
        await self._connection.close()


class _WebSocket:
    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url

    def open(self, message: bytes, expires: float) -> None:
        opened = False
        with _mapped_errors(self._url, sending=True):
            self._connection.send(message.decode())
            pong = self._connection.ping(ack_on_close=True)
            opened = pong.wait(_until(expires)) and self._connection.state.name == "OPEN"
        refusal = self.receive(0 if opened else _until(expires))
        _check_opened(refusal, opened, self._url)

    def send_text(self, text: str) -> None:
        with _mapped_errors(self._url, sending=True):
            self._connection.send(_live.text_message(text).decode())

    def send_close(self) -> None:
        with _mapped_errors(self._url, sending=True):
            self._connection.send(_live.CLOSE.decode())

    def receive(self, timeout: float | None) -> bytes | str | None:
        expires = None if timeout is None else time.monotonic() + timeout
        with _mapped_errors(self._url):
            try:
                return self._connection.recv(timeout)
            except TimeoutError:
                if expires is not None and time.monotonic() >= expires:
                    return None
                raise

    def close(self) -> None:
        self._connection.close()


def _until(expires: float) -> float:
    return max(expires - time.monotonic(), 0.0)


def _address(config: Config) -> str:
    return "ws" + config.url[len("http") :] + _live.REQUEST.path


def _settings(config: Config, timeout: float) -> dict[str, Any]:
    """Arguments of `connect`."""
    token = config.token or private_token(config.url)
    return {
        "additional_headers": {"Authorization": f"Bearer {token}"} if token else {},
        "user_agent_header": f"assay-client/{__version__}",
        "open_timeout": timeout,
        "close_timeout": 1.0,
        "compression": None,
        "max_size": None,  # results list all utterances
        "proxy": True if config.may_use_proxy() else None,
        **({"ssl": tls_context()} if config.url.startswith("https") else {}),
    }


@contextmanager
def _mapped_errors(url: str, sending: bool = False) -> Iterator[None]:
    try:
        from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
    except ImportError as e:
        raise InputError("live sessions need websockets: pip install 'assay-client[live]'") from e
    try:
        yield
    except AssayError:
        raise
    except InvalidStatus as e:
        response = e.response
        headers = {k.lower(): v for k, v in response.headers.raw_items()}
        _wire.decode(
            _wire.RawResponse(response.status_code, headers, bytes(response.body or b"")), _live.REQUEST, url
        )
        raise APIConnectionError(f"no WebSocket at {url}: status {response.status_code}") from e
    except ConnectionClosed as e:
        if sending:
            return  # the next receive returns the error that the service sent before it closed
        reason = str(e) or type(e).__name__
        raise APIConnectionError(f"the live session with {url} was cut off: {reason}") from e
    except TimeoutError as e:
        raise APITimeoutError(f"no connection to {url}: {e}", sent=False) from e
    except (WebSocketException, OSError) as e:
        raise APIConnectionError(f"no connection to {url}: {str(e) or type(e).__name__}", sent=False) from e
