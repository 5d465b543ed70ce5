"""Concurrency of the two clients: asyncio tasks for one, threads for the other.

Together with `_transport` this is all that differs between them; `_sync` is
generated from `_async`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

P = TypeVar("P")
R = TypeVar("R")

Sleep = Callable[[float], None]
AsyncSleep = Callable[[float], Awaitable[None]]

sleep: Sleep = time.sleep


async def async_sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def async_ordered_map(
    work: Callable[[P, AsyncSleep], Awaitable[list[R]]], parts: Iterator[P], concurrency: int
) -> AsyncIterator[R]:
    """Yields the items of work(part, sleep) in the order of parts.

    Up to `concurrency` calls run at a time. Closing the iterator cancels them.
    """
    slots = asyncio.Semaphore(concurrency)

    async def run(part: P) -> list[R]:
        async with slots:
            return await work(part, async_sleep)

    pending: deque[asyncio.Task[list[R]]] = deque()
    try:
        for part in parts:
            if len(pending) > concurrency:  # one more than can run, so that no slot idles
                for item in await pending.popleft():
                    yield item
            pending.append(asyncio.ensure_future(run(part)))
        while pending:
            for item in await pending.popleft():
                yield item
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


def ordered_map(work: Callable[[P, Sleep], list[R]], parts: Iterator[P], concurrency: int) -> Iterator[R]:
    """Like `async_ordered_map`, in threads.

    A single part runs in the thread of the caller. Closing the iterator drops
    the calls that have not started and interrupts the `sleep` of those that have.
    """
    head = list(islice(parts, 2))
    if len(head) < 2:
        for part in head:
            yield from work(part, sleep)
        return
    closed = threading.Event()

    def interruptible_sleep(seconds: float) -> None:
        if closed.wait(seconds):
            raise CancelledError

    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="assay")
    pending: deque[Future[list[R]]] = deque()
    try:
        for group in (head, parts):
            for part in group:
                if len(pending) > concurrency:  # one more than can run, so that no thread idles
                    yield from pending.popleft().result()
                pending.append(pool.submit(work, part, interruptible_sleep))
        while pending:
            yield from pending.popleft().result()
    finally:
        closed.set()
        pool.shutdown(wait=False, cancel_futures=True)
