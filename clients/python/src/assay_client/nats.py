"""The client over NATS. Requires nats-py: pip install './clients/python[nats]'.

from assay_client.nats import NatsClient

async with NatsClient("nats://127.0.0.1:4222") as assay:
    results = await assay.score(["Drink some water.", "You are an idiot."])

    ids = await assay.publish("run7", responses)  # durable when this returns
    async for r in assay.results("run7", durable="trainer-run7"):
        ...
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import logging
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import nats
import nats.errors
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError as JetStreamError

from . import _live, _wire
from ._async.client import AsyncClient
from ._config import configure
from ._errors import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    BadRequestError,
    DamagedResultError,
    InputError,
    InvalidResponseError,
    ServiceUnavailableError,
)
from ._private_token import private_token
from ._retry import Retry, expiry
from ._types import ItemLike, ModelInfo, Options, Priority, Result

log = logging.getLogger("assay_client")

# Arguments of nats.connect that authenticate the client.
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

# Seconds for which an ephemeral consumer survives without a request; the default of the server is 5.
_INACTIVE_THRESHOLD = 300.0

_STREAM_NOT_FOUND = 10059  # error code of JetStream

_SUBJECTS = {"/v1/score": "assay.v1.score", "/v1/feedback": "assay.v1.feedback"}


class NatsClient(AsyncClient):
    """An `AsyncClient` over NATS, which can also publish responses and subscribe to rewards.

    `score`, `score_one`, `score_iter`, `rewards` and `feedback` use the same
    chunks, retries, deadlines and errors. Calls that the service offers only
    over HTTP (models, training, health) raise `InputError`. `connect` holds
    arguments of `nats.connect`, such as `user_credentials` or `tls`; without
    credentials, the token of a private service on this machine is read from
    its data directory ($ASSAY_DATA_DIR). `url` defaults to $ASSAY_NATS_URL.
    Create the client in the event loop that uses it.
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
        config = configure(
            "http://nats", None, model, options, timeout, retry, chunk, chunk_bytes, concurrency, priority
        )
        super()._configure(dataclasses.replace(config, url=url, token=None))
        self._connect = dict(connect or {})
        self._nats: Any = None
        self._disconnected = asyncio.Event()
        self._connecting = asyncio.Lock()

    def __getstate__(self) -> Any:
        raise TypeError("a NatsClient cannot be pickled: create one in each process")

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
        """Publishes items to `assay.v1.responses.RUN`; returns their ids once they are durable.

        An item without an id, or with an empty one, is assigned one. Publishing
        an id of a run again within the duplicate window of the stream has no
        effect.
        """
        expires = expiry(deadline)
        ids = []
        for index, item in enumerate(items):
            id, body = _with_id(item, index)

            async def store(timeout: float, id: str = id, body: bytes = body) -> None:
                nc = await self._connection(timeout)
                _check_size(nc, body)
                subject = f"assay.v1.responses.{run}"
                # The stream deduplicates ids across subjects, and two runs may use the same ids.
                headers = {"Nats-Msg-Id": f"{run}/{id}"}
                stored = nc.jetstream(timeout=timeout).publish(subject, body, headers=headers)
                await self._unless_disconnected(stored, timeout)

            await self._retry(store, True, expires)
            ids.append(id)
        return ids

    async def results(
        self, run: str = ">", *, durable: str | None = None, first: int = 1
    ) -> AsyncIterator[Result]:
        """Yields the results on `assay.v1.rewards.RUN` in the order of the stream, and waits for more.

        With `durable`, the service remembers the position: a result is
        acknowledged when the next one is requested. A durable belongs to the
        run that it was created for: with another one, this raises `InputError`.
        Without `run`, any durable serves. Without `durable`, each call
        starts at sequence number `first` of the stream. Offsets are code
        points. Items that cannot be scored yield no result: they are
        dead-lettered to `assay.v1.dead.*`. A durable that is deleted in the
        meantime is created again, and starts from the beginning.

        A result that is damaged raises `DamagedResultError`. To continue
        behind it, call this again: with `durable`, or with `first` one
        above its `sequence`.
        """
        subject, last = f"assay.v1.rewards.{run}", first - 1
        consumer: Any = None

        async def fetch(timeout: float) -> list[Any]:
            nonlocal consumer
            nc = await self._connection(timeout)
            if consumer is None or consumer[0] is not nc:
                if durable:
                    config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.EXPLICIT)
                else:
                    config = ConsumerConfig(
                        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                        opt_start_seq=last + 1,
                        ack_policy=AckPolicy.NONE,
                        inactive_threshold=_INACTIVE_THRESHOLD,
                    )
                subscribed = nc.jetstream(timeout=timeout).pull_subscribe(
                    subject, durable=durable, stream="ASSAY_REWARDS", config=config
                )
                subscription = await self._unless_disconnected(subscribed, timeout)
                if durable and run != ">":
                    info = await self._unless_disconnected(subscription.consumer_info(), timeout)
                    _check_filter(info.config, durable, subject)
                consumer = (nc, subscription)
            try:
                return list(await self._unless_disconnected(_fetch(consumer[1]), timeout))
            except ServiceUnavailableError:
                consumer = None  # no response to a request for messages: it was deleted or has expired
                raise

        messages: list[Any] = []
        try:
            while True:
                messages = messages or await self._retry(fetch, True, None)
                if not messages:
                    continue
                last = messages[0].metadata.sequence.stream
                if not _intact(messages[0]):
                    message = messages.pop(0)
                    if durable:
                        await _acknowledge(message.term)
                    raise DamagedResultError(
                        f"the result {last} of ASSAY_REWARDS on {message.subject} is damaged: "
                        "its checksum differs; score its response again",
                        sequence=last,
                    )
                yield _result(messages[0])
                message = messages.pop(0)
                if durable:
                    await _acknowledge(message.ack)
        finally:
            for message in messages if durable else ():
                await _acknowledge(message.nak)

    # Transport

    async def _open_channel(self, message: bytes, timeout: float) -> _LiveChannel:
        nc = await self._connection(timeout)
        reply = await self._unless_disconnected(
            nc.request("assay.v1.live", message, timeout=timeout, headers=_timeout_header(timeout)), timeout
        )
        opened = _wire.decode(_raw(reply), _wire.Request("REQUEST", "/assay.v1.live"), self._config.url)
        return _LiveChannel(self, nc, _wire.field(opened, "subject", str))

    async def _attempt(self, request: _wire.Request, timeout: float) -> Any:
        subject = _SUBJECTS.get(request.path) if request.method == "POST" else None
        if subject is None:
            raise InputError(f"{request.method} {request.path} is not available over NATS; use AsyncClient")
        expires = time.monotonic() + timeout
        nc = await self._connection(timeout)
        body = request.body or b""
        _check_size(nc, body)
        remaining = max(expires - time.monotonic(), 0.001)
        headers = {**_timeout_header(remaining), "Content-Type": request.content_type}
        if request.priority:
            headers["Assay-Priority"] = request.priority
        reply = await self._unless_disconnected(
            nc.request(subject, body, timeout=remaining, headers=headers), remaining
        )
        return _wire.decode(_raw(reply), request, self._config.url)

    async def _connection(self, timeout: float) -> Any:
        """The connection. A lost one is replaced, not reconnected, so that nothing stays buffered in it."""
        async with self._connecting:
            if self._nats is not None and self._nats.is_connected:
                return self._nats
            disconnected = asyncio.Event()

            async def on_close() -> None:
                disconnected.set()

            async def on_error(e: Exception) -> None:
                log.debug("NATS: %s", e)

            # Read for each connection: a restart of a private service replaces its token.
            private = None if self._connect.keys() & _CREDENTIALS else private_token(self._config.url)
            connecting = nats.connect(
                self._config.url,
                **{
                    **({"token": private} if private else {}),
                    **self._connect,
                    "allow_reconnect": False,
                    "max_reconnect_attempts": 1,
                    "reconnect_time_wait": 0.05,
                    "connect_timeout": timeout,
                    "closed_cb": on_close,
                    "disconnected_cb": on_close,
                    "error_cb": on_error,
                },
            )
            try:
                self._nats = await asyncio.wait_for(connecting, timeout)
            except (nats.errors.Error, OSError, asyncio.TimeoutError) as e:
                reason = str(e) or type(e).__name__
                raise APIConnectionError(f"no connection to {self._config.url}: {reason}", sent=False) from e
            self._disconnected = disconnected
            return self._nats

    async def _unless_disconnected(self, operation: Any, timeout: float) -> Any:
        """The result of operation, unless the connection is lost first."""
        disconnected = asyncio.ensure_future(self._disconnected.wait())
        task = asyncio.ensure_future(operation)
        url = self._config.url
        try:
            await asyncio.wait(
                {task, disconnected}, timeout=timeout + 1.0, return_when=asyncio.FIRST_COMPLETED
            )
            if task.done():
                return task.result()
            if disconnected.done():
                raise APIConnectionError(f"no response from {url}: the connection was lost")
            raise APITimeoutError(f"no response from {url} within {timeout:.1f} s")
        except nats.errors.NoRespondersError as e:
            raise ServiceUnavailableError(
                "no assay service is listening on this NATS server", status_code=503
            ) from e
        except JetStreamError as e:
            raise _jetstream_error(e) from e
        except (nats.errors.TimeoutError, asyncio.TimeoutError) as e:
            raise APITimeoutError(f"no response from {url} within {timeout:.1f} s") from e
        except nats.errors.Error as e:
            raise APIConnectionError(f"no response from {url}: {e}") from e
        finally:
            for t in (disconnected, task):
                t.cancel()
            await asyncio.gather(disconnected, task, return_exceptions=True)


class _LiveChannel:
    """The messages of a live session: a request for the text that waits, one at a time."""

    def __init__(self, client: NatsClient, nc: Any, subject: str) -> None:
        self._client, self._nc, self._subject = client, nc, subject
        self._text: list[str] = []
        self._closing = False
        self._sequence = 0
        self._pump: asyncio.Task[None] | None = None
        self._messages: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    async def send_text(self, text: str) -> None:
        self._text.append(text)
        self._start()

    async def send_close(self) -> None:
        self._closing = True
        self._start()

    async def receive(self, timeout: float | None) -> bytes | str | None:
        if timeout == 0:
            await asyncio.sleep(0)
            if self._messages.empty():
                return None
        try:
            message = await asyncio.wait_for(self._messages.get(), timeout or None)
        except asyncio.TimeoutError:
            return None
        if isinstance(message, Exception):
            raise message
        return message

    async def aclose(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        if not self._closing and self._nc.is_connected:
            try:  # frees the session before its idle timeout; the reply is not needed
                await self._nc.publish(self._subject, _live.CLOSE, reply=self._nc.new_inbox())
                await self._nc.flush()
            except nats.errors.Error as e:
                log.debug("could not end a live session: %s", e)

    def _start(self) -> None:
        if self._pump is None or self._pump.done():
            self._pump = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        """Sends what waits, until nothing does. An error ends the session."""
        try:
            while self._text:
                text, self._text = "".join(self._text), []
                await self._request(_live.text_message(text))
            if self._closing:
                await self._request(_live.CLOSE)
        except Exception as e:
            self._messages.put_nowait(e)

    async def _request(self, body: bytes) -> None:
        _check_size(self._nc, body)
        self._sequence += 1
        timeout = self._client._config.timeout
        headers = {**_timeout_header(timeout), "Assay-Sequence": str(self._sequence)}
        try:
            reply = await self._client._unless_disconnected(
                self._nc.request(self._subject, body, timeout=timeout, headers=headers), timeout
            )
        except ServiceUnavailableError as e:
            raise ServiceUnavailableError(
                "the replica that had the live session has stopped: open another one", status_code=503
            ) from e
        raw = _raw(reply)
        if raw.status != 200:
            _wire.decode(raw, _wire.Request("REQUEST", "/" + self._subject), self._client._config.url)
        for line in raw.body.splitlines():
            self._messages.put_nowait(line)


def _timeout_header(timeout: float) -> dict[str, str]:
    return {"Assay-Timeout": f"{timeout * 1000:.0f}ms"}


def _raw(reply: Any) -> _wire.RawResponse:
    headers = {k.lower(): v for k, v in (reply.headers or {}).items()}
    return _wire.RawResponse(int(headers.get("nats-service-error-code") or 200), headers, reply.data)


def _check_filter(config: Any, durable: str, subject: str) -> None:
    """Raises where a durable yields other results: an existing one keeps its filter without an error."""
    found = getattr(config, "filter_subjects", None) or [config.filter_subject or ">"]
    if found != [subject]:
        raise InputError(
            f"the durable {durable!r} exists and yields {', '.join(found)}, not {subject}:"
            " use another name for each run"
        )


async def _fetch(subscription: Any) -> list[Any]:
    """The available messages; empty if none arrives within two seconds."""
    try:
        return list(await subscription.fetch(64, timeout=2.0))
    except (nats.errors.TimeoutError, asyncio.TimeoutError):
        return []


async def _acknowledge(respond: Callable[[], Awaitable[None]]) -> None:
    try:
        await respond()
    except nats.errors.Error as e:
        log.warning("could not acknowledge a result, it will be redelivered: %s", e)


def _with_id(item: ItemLike, index: int) -> tuple[str, bytes]:
    fields = _wire.item_fields(item, index)
    fields["id"] = fields.get("id") or uuid.uuid4().hex
    return str(fields["id"]), _wire.encode_item(fields, index)


def _jetstream_error(e: JetStreamError) -> APIStatusError:
    status = e.code or 503  # nats-py sets none where nothing responds
    # The service creates its streams when it starts.
    transient = status >= 500 or e.err_code == _STREAM_NOT_FOUND
    kind = ServiceUnavailableError if transient else _wire.error_type(status)
    return kind(f"JetStream error: {e.description or 'no response'}", status_code=status)


def _check_size(nc: Any, body: bytes) -> None:
    if len(body) > nc.max_payload:
        raise BadRequestError(
            f"{len(body)} bytes exceed the maximum payload of the NATS server, {nc.max_payload} bytes",
            status_code=413,
        )


def _intact(message: Any) -> bool:
    """Whether a result is as it was written. One of an earlier release has no checksum."""
    headers: dict[str, Any] = message.headers or {}
    value = headers.get("Assay-Checksum")
    if value is None:  # the name of the header may be damaged
        return not any(_CHECKSUM.fullmatch(str(v)) for v in headers.values())
    payload, _, whole = value.partition(".")
    if not all(isinstance(v, str) for v in headers.values()):  # nats-py before 2.16 cannot read them
        return bool(payload == _sum(message.data))
    covered = _counted(message.subject) + _counted(payload)
    for name in sorted(headers):
        if (name.startswith("Assay-") and name != "Assay-Checksum") or name == "Nats-Msg-Id":
            covered += _counted(name) + _counted(headers[name])
    return bool(payload == _sum(message.data) and whole == _sum(covered))


_CHECKSUM = re.compile(r"[0-9a-f]{16}\.[0-9a-f]{16}")


def _counted(text: str) -> bytes:
    """A text after its number of bytes, which has seven bits per byte, the lowest first."""
    data = text.encode()
    n, length = len(data), bytearray()
    while n >= 0x80:
        length.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*length, n]) + data


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _result(message: Any) -> Result:
    headers = message.headers or {}
    model = ModelInfo("", headers.get("Assay-Model-Version", ""), headers.get("Assay-Numerics", ""))
    try:
        body = json.loads(message.data)
    except ValueError as e:
        raise InvalidResponseError(f"the result on {message.subject} is not valid JSON") from e
    return _wire.parse_result(body, model, "codepoint")
