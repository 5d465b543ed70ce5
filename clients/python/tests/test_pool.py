"""The connection pool of the asynchronous client: one connection per request in flight, reused."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from conftest import Faulty, Handler, drop, good, hang

import assay_client as ac
from assay_client._pool import AsyncConnectionPool

FAST = ac.Retry(budget=5.0, initial_backoff=0.01, max_backoff=0.05)


async def concurrently(client: ac.AsyncClient, n: int) -> None:
    await asyncio.gather(*(client.score_one(f"response #{k:04d}") for k in range(n)))


def test_connections_are_reused(faulty: Faulty) -> None:
    async def run() -> None:
        async with ac.AsyncClient(faulty.url) as client:
            for _ in range(5):
                await concurrently(client, 16)

    asyncio.run(run())
    assert len(faulty.requests) == 80
    assert faulty.connections == 16


def test_a_broken_connection_is_not_reused(faulty: Faulty) -> None:
    faulty.script = [good, drop]

    async def run() -> None:
        async with ac.AsyncClient(faulty.url, retry=FAST) as client:
            for _ in range(3):
                await client.score_one("response #0001")

    asyncio.run(run())
    assert (len(faulty.requests), faulty.connections) == (4, 2)


def test_cancelled_requests_release_their_connection(faulty: Faulty) -> None:
    asked = asyncio.Event()

    loops: list[asyncio.AbstractEventLoop] = []

    def hold(h: Handler) -> None:
        loops[0].call_soon_threadsafe(asked.set)
        hang(h)

    faulty.script = [hold]

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        async with ac.AsyncClient(faulty.url) as client:
            task = asyncio.ensure_future(client.score_one("response #0001"))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await concurrently(client, 4)

    asyncio.run(run())
    assert faulty.connections == 5


def test_the_proxy_of_the_environment_applies_to_remote_services(faulty: Faulty, monkeypatch: Any) -> None:
    monkeypatch.setenv("http_proxy", faulty.url)
    monkeypatch.delenv("no_proxy", raising=False)

    async def run() -> float:
        async with ac.AsyncClient("http://assay.invalid") as client:
            return (await client.score_one("response #0007")).reward

    assert asyncio.run(run()) == 0.0007
    assert faulty.requests[0][0] == "http://assay.invalid/v1/score"


class Connection(httpx.AsyncHTTPTransport):
    """While it is closed, another task takes all idle connections; then closing it fails."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self.pool, self.closed = pool, False

    async def aclose(self) -> None:
        self.closed = True
        await asyncio.sleep(0)
        self.pool._idle.clear()
        raise OSError


@pytest.mark.parametrize("max_idle", [0, 8])
def test_expired_connections_are_closed_while_others_are_taken(max_idle: int) -> None:
    async def run() -> None:
        pool = AsyncConnectionPool(max_idle, 60.0, httpx.create_ssl_context())
        expired = [Connection(pool), Connection(pool)]
        pool._idle.extend((float("-inf"), connection) for connection in expired)
        await pool.release(Connection(pool))
        assert all(connection.closed for connection in expired)
        idle = [Connection(pool), Connection(pool)]
        pool._idle.extend((0.0, connection) for connection in idle)
        await pool.aclose()
        assert all(connection.closed for connection in idle)

    asyncio.run(run())
