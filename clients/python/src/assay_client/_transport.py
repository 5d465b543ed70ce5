"""HTTP connections of the two clients, and what a failed attempt means."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from ._config import IDLE_TIMEOUT, MAX_IDLE_CONNECTIONS, Config, tls_context
from ._errors import APIConnectionError, APITimeoutError
from ._pool import AsyncConnectionPool
from ._wire import RawResponse, Request


class AsyncTransport:
    """Connections for asyncio: one `httpx.AsyncClient` per process and event loop."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._http: httpx.AsyncClient | None = None
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None

    async def send(self, request: Request, timeout: float) -> RawResponse:
        """Makes one attempt, which takes at most `timeout` seconds including the response body."""
        with _mapped_errors(self._config.url, timeout):
            response = await asyncio.wait_for(
                self._client().request(
                    request.method,
                    request.path,
                    content=request.body,
                    headers=request.headers(timeout),
                    timeout=timeout,
                ),
                timeout,
            )
        return RawResponse(response.status_code, response.headers, response.content)

    async def aclose(self) -> None:
        http, self._http = self._http, None
        if http is not None and self._owner == (os.getpid(), asyncio.get_running_loop()):
            await http.aclose()

    def _client(self) -> httpx.AsyncClient:
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._http is None or self._owner != owner:
            # Connections belong to the event loop that opened them.
            settings = self._config.http_settings()
            if not self._config.may_use_proxy():
                settings["transport"] = AsyncConnectionPool(MAX_IDLE_CONNECTIONS, IDLE_TIMEOUT, tls_context())
            self._http = httpx.AsyncClient(**settings)  # type: ignore[arg-type]
            self._owner = owner
        return self._http


class Transport:
    """Connections for threads: one `httpx.Client` per process."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None
        self._pid = 0

    def send(self, request: Request, timeout: float) -> RawResponse:
        """Makes one attempt, which takes at most `timeout` seconds including the response body."""
        expires = time.monotonic() + timeout
        with (
            _mapped_errors(self._config.url, timeout),
            self._client().stream(
                request.method,
                request.path,
                content=request.body,
                headers=request.headers(timeout),
                timeout=timeout,
            ) as response,
        ):
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                # The timeout of httpx is per read.
                if time.monotonic() > expires:
                    raise httpx.ReadTimeout("the response body is incomplete")
        return RawResponse(response.status_code, response.headers, bytes(body))

    def close(self) -> None:
        http, self._http = self._http, None
        if http is not None and self._pid == os.getpid():
            http.close()

    def _client(self) -> httpx.Client:
        http = self._http
        if http is not None and self._pid == os.getpid():
            return http
        with self._lock:
            if self._http is None or self._pid != os.getpid():
                # After a fork, the connections belong to the parent process.
                self._http = httpx.Client(**self._config.http_settings())  # type: ignore[arg-type]
                self._pid = os.getpid()
            return self._http


@contextmanager
def _mapped_errors(url: str, timeout: float) -> Iterator[None]:
    try:
        yield
    except (httpx.ConnectTimeout, httpx.PoolTimeout) as e:
        raise APITimeoutError(f"no connection to {url} within {timeout:.1f} s", sent=False) from e
    except httpx.ConnectError as e:
        raise APIConnectionError(f"no connection to {url}: {str(e) or type(e).__name__}", sent=False) from e
    except (httpx.TimeoutException, asyncio.TimeoutError) as e:
        raise APITimeoutError(f"no complete response from {url} within {timeout:.1f} s") from e
    except httpx.HTTPError as e:
        raise APIConnectionError(f"no response from {url}: {str(e) or type(e).__name__}") from e
