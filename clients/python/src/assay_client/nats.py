"""The client over NATS; needs `pip install './clients/python[nats]'`.

from assay_client.nats import NatsClient

async with NatsClient("nats://127.0.0.1:4222") as assay:
    results = await assay.score(["Drink some water.", "You are an idiot."])

    ids = await assay.publish("run7", responses)  # stored when this returns
    async for r in assay.results("run7", durable="trainer"):
        ...
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, TypeVar

import nats
import nats.errors
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError as StreamError

from . import _wire
from ._aio import AsyncClient
from ._config import configure
from ._errors import (
    AssayError,
    BadAnswerError,
    InputError,
    InvalidRequestError,
    NoAnswerError,
    UnavailableError,
)
from ._private import private_token
from ._retry import Attempts, Retry
from ._types import Item, ItemLike, ModelInfo, Options, Priority, Result

log = logging.getLogger("assay_client")

T = TypeVar("T")

# Arguments of nats.connect that say who connects.
_CREDENTIALS = {
    "token",
    "user",
    "password",
    "user_credentials",
    "nkeys_seed",
    "nkeys_seed_str",
    "signature_cb",
    "tls",
}

_SUBJECTS = {"/v1/score": "assay.v1.score", "/v1/feedback": "assay.v1.feedback"}


class NatsClient(AsyncClient):
    """`AsyncClient` over NATS: `score`, `score_one`, `score_iter`, `rewards` and `feedback`, and streams.

    Chunks, retries, deadlines and errors are the same. What a service
    answers over HTTP alone (models, trainings, health) raises `InputError`.
    `connect` are arguments of `nats.connect`, such as `user_credentials` or
    `tls`; without credentials, the token of a private service on this machine
    is taken from its data directory ($ASSAY_DATA_DIR). The address defaults to
    $ASSAY_NATS_URL. Make it in the event loop that uses it.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        connect: dict[str, Any] | None = None,
        model: str | None = None,
        options: Options | None = None,
        timeout: float = 60.0,
        retry: Retry | float | None = None,
        chunk: int = 64,
        chunk_bytes: int = 256 << 10,
        concurrency: int = 4,
        priority: Priority | None = None,
    ) -> None:
        url = url or os.environ.get("ASSAY_NATS_URL") or "nats://127.0.0.1:4222"
        cfg = configure(
            "http://nats", None, model, options, timeout, retry, chunk, chunk_bytes, concurrency, priority
        )
        super()._set(dataclasses.replace(cfg, url=url, token=None))
        self._connect = dict(connect or {})
        self._nats: Any = None
        self._lost = asyncio.Event()
        self._connecting = asyncio.Lock()

    def __getstate__(self) -> Any:
        raise TypeError("a NatsClient belongs to its event loop; make another one in the other process")

    async def __aenter__(self) -> NatsClient:
        return self

    async def aclose(self) -> None:
        """Closes the connection."""
        nc, self._nats = self._nats, None
        if nc is not None:
            await nc.close()

    async def publish(
        self, run: str, items: Iterable[ItemLike], *, deadline: float | None = None
    ) -> list[str]:
        """Hands items in on `assay.v1.responses.RUN`; returns their ids when they are stored.

        An item without an id gets one. Handing in the same id of a run again
        within the duplicate window of the stream changes nothing.
        """
        until = None if deadline is None else time.monotonic() + deadline
        ids = []
        for index, item in enumerate(items):
            id, body = _identified(item, index)

            async def store(limit: float, id: str = id, body: bytes = body) -> None:
                nc = await self._connection(limit)
                _fits(nc, body)
                subject = f"assay.v1.responses.{run}"
                # The stream knows message ids across all subjects: two runs may both number from 1.
                headers = {"Nats-Msg-Id": f"{run}/{id}"}
                stored = nc.jetstream(timeout=limit).publish(subject, body, headers=headers)
                await self._unless_lost(stored, limit)

            await self._again(store, until)
            ids.append(id)
        return ids

    async def results(
        self, run: str = ">", *, durable: str | None = None, first: int = 1
    ) -> AsyncIterator[Result]:
        """Yields what is scored on `assay.v1.rewards.RUN`, in the order of the stream, and waits for more.

        With `durable` the service remembers what was taken: a result counts as
        taken when the next one is asked for. Without, it begins with sequence
        number `first` of the stream each time. Offsets are code points. What
        cannot be scored is no result: it goes to `assay.v1.dead.*`.
        """
        subject, after = f"assay.v1.rewards.{run}", first - 1
        ready: Any = None

        async def fetch(limit: float) -> list[Any]:
            nonlocal ready
            nc = await self._connection(limit)
            if ready is None or ready[0] is not nc:
                begin = ConsumerConfig(
                    deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                    opt_start_seq=after + 1,
                    ack_policy=AckPolicy.NONE,
                )
                kept = ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.EXPLICIT)
                bound = nc.jetstream(timeout=limit).pull_subscribe(
                    subject, durable=durable, stream="ASSAY_REWARDS", config=kept if durable else begin
                )
                ready = (nc, await self._unless_lost(bound, limit))
            try:
                return list(await self._unless_lost(_fetch(ready[1]), limit))
            except StreamError:
                ready = None  # the consumer is gone
                raise

        waiting: list[Any] = []
        try:
            while True:
                waiting = waiting or await self._again(fetch, None)
                if not waiting:
                    continue
                after = waiting[0].metadata.sequence.stream
                yield _result(waiting[0])
                message = waiting.pop(0)
                if durable:
                    await _settle(message.ack)
        finally:
            for message in waiting if durable else ():
                await _settle(message.nak)

    # Transport

    async def _attempt(self, call: _wire.Call, limit: float) -> Any:
        subject = _SUBJECTS.get(call.path) if call.method == "POST" else None
        if subject is None:
            raise InputError(f"{call.method} {call.path} is not answered over NATS; use AsyncClient")
        until = time.monotonic() + limit
        nc = await self._connection(limit)
        body = call.body or b""
        _fits(nc, body)
        left = max(until - time.monotonic(), 0.001)
        headers = {"Assay-Timeout": f"{left * 1000:.0f}ms", "Content-Type": call.content_type}
        if call.priority:
            headers["Assay-Priority"] = call.priority
        reply = await self._unless_lost(nc.request(subject, body, timeout=left, headers=headers), left)
        said = {k.lower(): v for k, v in (reply.headers or {}).items()}
        status = int(said.get("nats-service-error-code") or 200)
        return _wire.decode(status, said, reply.data, call, self._cfg.url)

    async def _again(self, ask: Callable[[float], Awaitable[T]], deadline: float | None) -> T:
        """What ask returns, after as many attempts as it takes; it must be safe to repeat."""
        attempts = Attempts(self._cfg.retry, self._cfg.timeout, deadline, True)
        while True:
            try:
                return await ask(attempts.limit(time.monotonic()))
            except AssayError as e:
                pause = attempts.pause(e, time.monotonic())
                log.warning("%s; trying again in %.1f s", e, pause)
            await asyncio.sleep(pause)

    async def _connection(self, limit: float) -> Any:
        """A connection. One that broke is not mended but made anew, so that nothing waits in it."""
        async with self._connecting:
            if self._nats is not None and self._nats.is_connected:
                return self._nats
            lost = asyncio.Event()

            async def closed() -> None:
                lost.set()

            async def failed(e: Exception) -> None:
                log.debug("NATS: %s", e)

            # A private service has another token after a restart.
            private = None if self._connect.keys() & _CREDENTIALS else private_token(self._cfg.url)
            made = nats.connect(
                self._cfg.url,
                **{
                    **({"token": private} if private else {}),
                    **self._connect,
                    "allow_reconnect": False,
                    "max_reconnect_attempts": 1,
                    "reconnect_time_wait": 0.05,
                    "connect_timeout": limit,
                    "closed_cb": closed,
                    "disconnected_cb": closed,
                    "error_cb": failed,
                },
            )
            try:
                self._nats = await asyncio.wait_for(made, limit)
            except (nats.errors.Error, OSError, asyncio.TimeoutError) as e:
                what = str(e) or type(e).__name__
                raise NoAnswerError(f"no connection to {self._cfg.url}: {what}", sent=False) from e
            self._lost = lost
            return self._nats

    async def _unless_lost(self, asked: Any, limit: float) -> Any:
        """What is asked for, unless the connection breaks first."""
        lost = asyncio.ensure_future(self._lost.wait())
        task = asyncio.ensure_future(asked)
        try:
            await asyncio.wait({task, lost}, timeout=limit + 1.0, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            what = "the connection broke" if lost.done() else f"no answer within {limit:.1f} s"
            raise NoAnswerError(f"no answer from {self._cfg.url}: {what}")
        except nats.errors.NoRespondersError as e:
            raise UnavailableError("no assay service is ready at this NATS server", status=503) from e
        except StreamError as e:
            raise UnavailableError(f"the stream refused: {e.description}", status=503) from e
        except (nats.errors.TimeoutError, asyncio.TimeoutError) as e:
            raise NoAnswerError(f"{self._cfg.url} did not answer within {limit:.1f} s") from e
        except nats.errors.Error as e:
            raise NoAnswerError(f"no answer from {self._cfg.url}: {e}") from e
        finally:
            for t in (lost, task):
                t.cancel()
            await asyncio.gather(lost, task, return_exceptions=True)


async def _fetch(subscription: Any) -> list[Any]:
    """What has come; nothing after two seconds without."""
    try:
        return list(await subscription.fetch(64, timeout=2.0))
    except (nats.errors.TimeoutError, asyncio.TimeoutError):
        return []


async def _settle(tell: Callable[[], Awaitable[None]]) -> None:
    try:
        await tell()
    except nats.errors.Error as e:
        log.warning("a result comes again: %s", e)


def _identified(item: ItemLike, index: int) -> tuple[str, bytes]:
    value = {"response": item} if isinstance(item, str) else item
    if isinstance(value, Item):
        value = value.to_json()
    made = {"id": uuid.uuid4().hex, **value}
    return str(made["id"]), _wire.encode_item(made, index)


def _fits(nc: Any, body: bytes) -> None:
    if len(body) > nc.max_payload:
        raise InvalidRequestError(
            f"{len(body)} bytes are more than the {nc.max_payload} of this NATS server", status=413
        )


def _result(message: Any) -> Result:
    version = (message.headers or {}).get("Assay-Model-Version", "")
    try:
        body = json.loads(message.data)
    except ValueError as e:
        raise BadAnswerError(f"the result at {message.subject} is no JSON") from e
    return _wire._result(body, ModelInfo("", version), "codepoint")
