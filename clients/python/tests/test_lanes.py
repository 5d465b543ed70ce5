"""Connections of the asynchronous client: one for each request under way, used again, none lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import Faulty, Handler, drop, good

import assay_client as ac

FAST = ac.Retry(budget=5.0, first=0.01, most=0.05)


async def at_once(client: ac.AsyncClient, n: int) -> None:
    await asyncio.gather(*(client.score_one(f"response #{k:04d}") for k in range(n)))


def test_connections_are_used_again(faulty: Faulty) -> None:
    async def run() -> None:
        async with ac.AsyncClient(faulty.url) as client:
            for _ in range(5):
                await at_once(client, 16)

    asyncio.run(run())
    assert len(faulty.requests) == 80
    assert faulty.connections == 16


def test_a_connection_that_broke_is_not_used_again(faulty: Faulty) -> None:
    faulty.script = [good, drop]

    async def run() -> None:
        async with ac.AsyncClient(faulty.url, retry=FAST) as client:
            for _ in range(3):
                await client.score_one("response #0001")

    asyncio.run(run())
    assert (len(faulty.requests), faulty.connections) == (4, 2)


def test_requests_that_are_cancelled_leave_nothing_behind(faulty: Faulty) -> None:
    asked = asyncio.Event()

    loops: list[asyncio.AbstractEventLoop] = []

    def hold(h: Handler) -> None:
        loops[0].call_soon_threadsafe(asked.set)
        h.rfile.read(1)  # until the client leaves

    faulty.script = [hold]

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        async with ac.AsyncClient(faulty.url) as client:
            task = asyncio.ensure_future(client.score_one("response #0001"))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await at_once(client, 4)

    asyncio.run(run())
    assert faulty.connections == 5


def test_a_proxy_of_the_environment_is_used_for_other_machines(faulty: Faulty, monkeypatch: Any) -> None:
    monkeypatch.setenv("http_proxy", faulty.url)
    monkeypatch.delenv("no_proxy", raising=False)

    async def run() -> float:
        async with ac.AsyncClient("http://assay.invalid") as client:
            return (await client.score_one("response #0007")).reward

    assert asyncio.run(run()) == 0.0007
    assert faulty.requests[0][0] == "http://assay.invalid/v1/score"
