"""The asynchronous client."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar, Union, overload
from urllib.parse import urlencode

from .. import _live, _wire
from .._channels import AsyncChannel, async_open_channel
from .._chunks import Chunk, chunks, failures, feedback_batches, should_split
from .._concurrency import AsyncSleep, async_ordered_map, async_sleep
from .._config import Config, configure
from .._errors import APIConnectionError, AssayError, DeadlineExceededError, ServiceUnavailableError
from .._retry import Attempts, Retry, expiry
from .._transport import AsyncTransport
from .._types import (
    Candidate,
    Current,
    Event,
    Failure,
    FeedbackItem,
    ItemLike,
    Model,
    OnError,
    Options,
    Priority,
    Receipt,
    Result,
    ScoreSettings,
    Training,
)
from .live import AsyncLive

log = logging.getLogger("assay_client")

Outcome = Union[Result, Failure]
T = TypeVar("T")

READY_POLL_INTERVAL = 0.2  # seconds


class AsyncClient:
    """An asynchronous client of an assay service, safe for concurrent use by asyncio tasks.

    Connections are pooled, and never shared with a copy made by pickle or fork.
    Several event loops may use a client in turn.

    `url` defaults to $ASSAY_URL, then http://127.0.0.1:8080. `token` defaults
    to $ASSAY_TOKEN, then to the token of a private service on this machine,
    read from its data directory ($ASSAY_DATA_DIR). `model` pins a model
    version. `options` and `priority` are the defaults for all calls. `timeout`
    is the limit in seconds for one attempt. `retry` is a `Retry`, or for how
    many seconds to retry a failed request (0: never). A request has up to
    `chunk` items or `chunk_bytes` bytes; a call has up to `concurrency`
    requests in flight.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        model: str | None = None,
        options: Options | None = None,
        timeout: float = 60.0,
        retry: Retry | float | None = None,
        chunk: int = 64,
        chunk_bytes: int = 1 << 20,
        concurrency: int = 4,
        priority: Priority | None = None,
    ) -> None:
        self._configure(
            configure(url, token, model, options, timeout, retry, chunk, chunk_bytes, concurrency, priority)
        )

    def _configure(self, config: Config) -> None:
        self._config = config
        self._transport = AsyncTransport(config)

    def __getstate__(self) -> Config:
        return self._config

    def __setstate__(self, config: Config) -> None:
        self._configure(config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. The next call opens new ones."""
        await self._transport.aclose()

    # Scoring

    @overload
    async def score(
        self,
        items: Iterable[ItemLike],
        *,
        prompts: Iterable[str] | None = ...,
        options: Options | None = ...,
        model: str | None = ...,
        priority: Priority | None = ...,
        on_error: Literal["raise"] = ...,
        deadline: float | None = ...,
    ) -> list[Result]: ...
    @overload
    async def score(
        self,
        items: Iterable[ItemLike],
        *,
        prompts: Iterable[str] | None = ...,
        options: Options | None = ...,
        model: str | None = ...,
        priority: Priority | None = ...,
        on_error: OnError,
        deadline: float | None = ...,
    ) -> list[Outcome]: ...
    async def score(
        self,
        items: Iterable[ItemLike],
        *,
        prompts: Iterable[str] | None = None,
        options: Options | None = None,
        model: str | None = None,
        priority: Priority | None = None,
        on_error: OnError = "raise",
        deadline: float | None = None,
    ) -> Any:
        """Scores items and returns their results in the same order.

        An item is a response (a string), an `Item`, or a dict with the fields
        of `POST /v1/score`; `prompts` adds a prompt to each. A failure raises
        an `AssayError`. With `on_error` "nan" or a number, a `Failure` with
        that reward takes the place of each item that could not be scored; an
        invalid token, option or model still raises. `deadline` is the limit in
        seconds for the whole call. `priority` orders requests when the service
        is busy: `interactive` (a user is waiting) before `bulk`; with None the
        service decides by the size of the request.
        """
        outcomes = self.score_iter(
            items,
            prompts=prompts,
            options=options,
            model=model,
            priority=priority,
            on_error=on_error,
            deadline=deadline,
        )
        return [outcome async for outcome in outcomes]

    async def score_one(
        self,
        item: ItemLike,
        *,
        options: Options | None = None,
        model: str | None = None,
        priority: Priority | None = None,
        deadline: float | None = None,
    ) -> Result:
        """Scores one item."""
        results = await self.score([item], options=options, model=model, priority=priority, deadline=deadline)
        return results[0]

    async def rewards(
        self,
        items: Iterable[ItemLike],
        *,
        prompts: Iterable[str] | None = None,
        options: Options | None = None,
        model: str | None = None,
        priority: Priority | None = None,
        on_error: OnError = "raise",
        deadline: float | None = None,
    ) -> list[float]:
        """Like `score`, but returns only the rewards."""
        outcomes = self.score_iter(
            items,
            prompts=prompts,
            options=Options(instances=False).with_defaults(options or Options()),
            model=model,
            priority=priority,
            on_error=on_error,
            deadline=deadline,
        )
        return [outcome.reward async for outcome in outcomes]

    def score_iter(
        self,
        items: Iterable[ItemLike],
        *,
        prompts: Iterable[str] | None = None,
        options: Options | None = None,
        model: str | None = None,
        priority: Priority | None = None,
        on_error: OnError = "raise",
        deadline: float | None = None,
    ) -> AsyncIterator[Outcome]:
        """Like `score`, but yields results as they arrive, in order, and reads items only as needed."""
        score = partial(
            self._score_chunk,
            settings=self._config.score_settings(options, model, priority),
            on_error=on_error,
            deadline=expiry(deadline),
        )
        parts = chunks(self._config, items, prompts, on_error)
        return async_ordered_map(score, parts, self._config.concurrency)

    async def _score_chunk(
        self,
        part: Chunk | Failure,
        sleep: AsyncSleep,
        *,
        settings: ScoreSettings,
        on_error: OnError,
        deadline: float | None,
    ) -> list[Outcome]:
        if isinstance(part, Failure):
            return [part]
        request = _wire.score_request(part.items, settings, part.first)
        try:
            parse = partial(_wire.parse_score, n=len(part.items))
            return list(await self._call(request, parse, deadline, sleep))
        except AssayError as e:
            if should_split(e, part, on_error):
                outcomes: list[Outcome] = []
                for half in part.halves():
                    outcomes += await self._score_chunk(
                        half, sleep, settings=settings, on_error=on_error, deadline=deadline
                    )
                return outcomes
            failed = failures(e, part, on_error)
            log.warning("could not score %d responses: %s", len(failed), e)
            return list(failed)

    @asynccontextmanager
    async def live(
        self,
        *,
        prompt: str | None = None,
        id: str | None = None,
        options: Options | None = None,
        model: str | None = None,
        provisional_tokens: int = 0,
        max_utterances: int = 0,
        deadline: float | None = None,
    ) -> AsyncIterator[AsyncLive]:
        """Opens a live session, which scores one response while it is being written; see `AsyncLive`.

        `provisional_tokens`: also score the open utterance whenever it has
        grown by so many tokens (0: never). `max_utterances`: the maximum that the
        response will have, for `LiveEvent.stop` (0: unknown). `deadline` is the limit in seconds
        for opening the session, which is retried like a request. Over HTTP it
        is a WebSocket, which needs the extra `live`.
        """
        settings = self._config.score_settings(options, model, None)
        message = _live.open_message(
            id, prompt, settings.model, settings.options, provisional_tokens, max_utterances
        )

        async def attempt(timeout: float) -> AsyncChannel:
            return await self._open_channel(message, timeout)

        channel = await self._retry(attempt, True, expiry(deadline))
        async with AsyncLive(channel, self._config.url, self._config.timeout) as live:
            yield live

    async def _open_channel(self, message: bytes, timeout: float) -> AsyncChannel:
        return await async_open_channel(self._config, message, timeout)

    # Feedback

    async def feedback(
        self, items: Iterable[FeedbackItem | Mapping[str, Any]], *, deadline: float | None = None
    ) -> Receipt:
        """Sends labels.

        Resending the same items is safe: they count as duplicates. The receipt
        lists the rejected items; the service stored all others.
        """
        expires = expiry(deadline)
        total = Receipt()
        for part in feedback_batches(_wire.feedback_lines(items)):
            total = _wire.add_receipts(total, await self._send_labels(part, expires))
        return total

    async def _send_labels(self, part: Chunk, deadline: float | None) -> Receipt:
        parse = partial(_wire.parse_receipt, first=part.first, n=len(part.items))
        try:
            return await self._call(_wire.feedback_request(part.items, part.first), parse, deadline)
        except AssayError as e:
            if not should_split(e, part, "raise"):
                if e.index is None and len(part.items) == 1:
                    e.index = part.first
                raise
        left, right = part.halves()
        receipt = await self._send_labels(left, deadline)
        return _wire.add_receipts(receipt, await self._send_labels(right, deadline))

    async def feedback_stats(self) -> Mapping[str, Any]:
        """Counts of the stored labels."""
        return await self._get("/v1/feedback", _wire.parse_stats)

    async def candidates(self, n: int = 20) -> list[Candidate]:
        """Up to n scored responses whose labels are the most informative, best first."""
        return await self._get(f"/v1/feedback/candidates?n={n:d}", _wire.parse_candidates)

    async def erase_feedback(self, id: str) -> int:
        """Erases all stored data of a response; returns the number of records removed."""
        request = _wire.Request("DELETE", f"/v1/feedback/{_wire.path_segment(id)}")
        return await self._call(request, _wire.parse_erasure)

    async def response_labels(self, id: str) -> Mapping[str, Any]:
        """The labels of a response: `labels` by rater, and `label` of the majority."""
        return await self._get(f"/v1/feedback/{_wire.path_segment(id)}/labels", _wire.parse_response_labels)

    async def withdraw_label(self, id: str, rater: str = "") -> int:
        """Withdraws the label of one rater for a response; returns the number of withdrawn labels, 0 or 1."""
        path = f"/v1/feedback/{_wire.path_segment(id)}/labels?{urlencode({'rater': rater})}"
        return await self._call(_wire.Request("DELETE", path), _wire.parse_erasure)

    # Models, training, health

    async def models(self) -> list[Model]:
        """All model versions: the serving ones first, then the newest first."""
        return await self._get("/v1/models", _wire.parse_models)

    async def model(self, version: str) -> Model:
        """One model, by version or name, with its complete record in `raw`."""
        return await self._get(f"/v1/models/{_wire.path_segment(version)}", _wire.parse_model)

    async def promote(self, version: str, reason: str | None = None) -> Current:
        """Makes a version the current one on every replica."""
        path = f"/v1/models/{_wire.path_segment(version)}/promote"
        return await self._call(_wire.admin_request(path, reason=reason), _wire.parse_current)

    async def rollback(self, reason: str | None = None) -> Current:
        """Makes the previous version the current one again."""
        request = _wire.admin_request("/v1/models/rollback", reason=reason)
        return await self._call(request, _wire.parse_current)

    async def training(self) -> Training:
        """The state of training: the run in progress, the last outcome, and what the next run waits for."""
        return await self._get("/v1/training", _wire.parse_training)

    async def start_training(self, reason: str | None = None, *, refreeze: bool | None = None) -> Training:
        """Requests a training run."""
        request = _wire.admin_request("/v1/training", reason=reason, refreeze=refreeze)
        return await self._call(request, _wire.parse_training)

    async def stop_training(self, reason: str | None = None, *, id: str | None = None) -> Training:
        """Stops the training run in progress, or withdraws the request for one.

        A replica ends the run within seconds; its labels count for the next
        one. With `id`, no other run is stopped. The error has the code
        `not_found` if no run is in progress or requested, and `changed` if
        another run is in progress or the run is being published.
        """
        request = _wire.admin_request("/v1/training/stop", id=id, reason=reason)
        return await self._call(request, _wire.parse_training)

    async def events(self, n: int = 100) -> list[Event]:
        """The last n retained events, oldest first."""
        return await self._get(f"/v1/events?n={n:d}", _wire.parse_events)

    async def ready(self) -> bool:
        """Whether the service can score now."""
        try:
            body = await self._attempt(_wire.Request("GET", "/readyz"), self._config.timeout)
        except (APIConnectionError, ServiceUnavailableError):
            return False
        return bool(_wire.field(body, "status", str) == "ready")

    async def wait_ready(self, deadline: float = 120.0) -> None:
        """Waits until the service can score; raises `DeadlineExceededError` after deadline seconds."""
        expires = time.monotonic() + deadline
        while not await self.ready():
            if time.monotonic() + READY_POLL_INTERVAL > expires:
                raise DeadlineExceededError(f"{self._config.url} was not ready within {deadline:g} s")
            await async_sleep(READY_POLL_INTERVAL)

    # Requests

    async def _get(self, path: str, parse: Callable[[Any], T]) -> T:
        return await self._call(_wire.Request("GET", path), parse)

    async def _call(
        self,
        request: _wire.Request,
        parse: Callable[[Any], T],
        deadline: float | None = None,
        sleep: AsyncSleep = async_sleep,
    ) -> T:
        """Sends a request, with retries, and parses the response."""

        async def attempt(timeout: float) -> T:
            return parse(await self._attempt(request, timeout))

        return await self._retry(attempt, request.idempotent, deadline, sleep)

    async def _retry(
        self,
        attempt: Callable[[float], Awaitable[T]],
        idempotent: bool,
        deadline: float | None,
        sleep: AsyncSleep = async_sleep,
    ) -> T:
        """Calls attempt(timeout) until it succeeds or the retry policy or the deadline ends it."""
        attempts = Attempts(self._config.retry, self._config.timeout, deadline, idempotent)
        while True:
            timeout = attempts.next_timeout(time.monotonic())
            try:
                return await attempt(timeout)
            except AssayError as e:
                wait = attempts.backoff(e, time.monotonic())
                log.warning("%s; retrying in %.1f s", e, wait)
            await sleep(wait)

    async def _attempt(self, request: _wire.Request, timeout: float) -> Any:
        response = await self._transport.send(request, timeout)
        return _wire.decode(response, request, self._config.url)
