"""The connection pool of the asynchronous client."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import cast

import httpx


class AsyncConnectionPool(httpx.AsyncBaseTransport):
    """One connection per request in flight; idle connections are reused last in, first out.

    The pool of httpcore inspects all of its connections several times per
    request, which with 64 connections costs more than the request itself.
    Each connection here is therefore a pool of size one.
    """

    def __init__(self, max_idle: int, idle_timeout: float, tls: ssl.SSLContext) -> None:
        self._tls = tls
        self._max_idle = max_idle
        self._idle_timeout = idle_timeout
        self._limits = httpx.Limits(
            max_connections=1, max_keepalive_connections=1, keepalive_expiry=idle_timeout
        )
        self._idle: deque[tuple[float, httpx.AsyncHTTPTransport]] = deque()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._idle:
            _, connection = self._idle.pop()
        else:
            connection = httpx.AsyncHTTPTransport(verify=self._tls, limits=self._limits)
        try:
            response = await connection.handle_async_request(request)
        except BaseException:
            await connection.aclose()
            raise
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Stream(self, connection, cast("httpx.AsyncByteStream", response.stream)),
            extensions=response.extensions,
        )

    async def release(self, connection: httpx.AsyncHTTPTransport) -> None:
        """Keeps a connection for the next request and closes those idle for too long."""
        now = time.monotonic()
        self._idle.append((now, connection))
        expired = []  # all of them are removed before the first await, where other tasks take connections
        while self._idle and (
            len(self._idle) > self._max_idle or now - self._idle[0][0] > self._idle_timeout
        ):
            expired.append(self._idle.popleft()[1])
        await _close(expired)

    async def aclose(self) -> None:
        idle = [connection for _, connection in self._idle]
        self._idle.clear()
        await _close(idle)


async def _close(connections: Iterable[httpx.AsyncHTTPTransport]) -> None:
    """Closes idle connections. An error concerns no request and must not keep the others open."""
    await asyncio.gather(*(connection.aclose() for connection in connections), return_exceptions=True)


class _Stream(httpx.AsyncByteStream):
    """A response body that releases its connection when it is closed."""

    def __init__(
        self,
        pool: AsyncConnectionPool,
        connection: httpx.AsyncHTTPTransport,
        body: httpx.AsyncByteStream,
    ) -> None:
        self._pool = pool
        self._connection = connection
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            yield part

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        except BaseException:
            await self._connection.aclose()
            raise
        await self._pool.release(self._connection)
