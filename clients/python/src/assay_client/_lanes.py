"""Connections of the asynchronous client."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from typing import cast

import httpx


class Lanes(httpx.AsyncBaseTransport):
    """A connection for each request under way; the one used last is taken first.

    httpcore's own pool looks at every connection several times a request,
    which at 64 of them costs more than the request itself. So each lane is a
    pool of one.
    """

    def __init__(self, keep: int, expiry: float) -> None:
        self._tls = httpx.create_ssl_context()
        self._keep = keep
        self._expiry = expiry
        self._limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=expiry)
        self._idle: deque[tuple[float, httpx.AsyncHTTPTransport]] = deque()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._idle:
            _, lane = self._idle.pop()
        else:
            lane = httpx.AsyncHTTPTransport(verify=self._tls, limits=self._limits)
        try:
            answer = await lane.handle_async_request(request)
        except BaseException:
            await lane.aclose()
            raise
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            stream=_Stream(self, lane, cast("httpx.AsyncByteStream", answer.stream)),
            extensions=answer.extensions,
        )

    async def put_back(self, lane: httpx.AsyncHTTPTransport) -> None:
        """Keeps a lane for the next request, and none that was idle for too long."""
        now = time.monotonic()
        self._idle.append((now, lane))
        while len(self._idle) > self._keep or now - self._idle[0][0] > self._expiry:
            _, old = self._idle.popleft()
            await old.aclose()

    async def aclose(self) -> None:
        while self._idle:
            _, lane = self._idle.popleft()
            await lane.aclose()


class _Stream(httpx.AsyncByteStream):
    """The body of an answer; its lane is free when it is closed."""

    def __init__(self, lanes: Lanes, lane: httpx.AsyncHTTPTransport, body: httpx.AsyncByteStream) -> None:
        self._lanes = lanes
        self._lane = lane
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            yield part

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        except BaseException:
            await self._lane.aclose()
            raise
        await self._lanes.put_back(self._lane)
