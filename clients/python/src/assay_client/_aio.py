"""The asynchronous client."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar, Union, overload

import httpx

from . import _wire
from ._config import KEPT, KEPT_FOR, Chunk, Config, batches, chunks, configure, failures, splits, unreachable
from ._errors import AssayError, DeadlineError, NoAnswerError, UnavailableError
from ._lanes import Lanes
from ._retry import Attempts, Retry
from ._types import (
    Asked,
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
    Training,
)

log = logging.getLogger("assay_client")

Outcome = Union[Result, Failure]
T = TypeVar("T")


class AsyncClient:
    """`Client` for asyncio, with the same arguments and methods.

    It may be used from several event loops, one after the other: it connects
    anew in each.
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
        self._set(
            configure(url, token, model, options, timeout, retry, chunk, chunk_bytes, concurrency, priority)
        )

    def _set(self, cfg: Config) -> None:
        self._cfg = cfg
        self._http: httpx.AsyncClient | None = None
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None

    def __getstate__(self) -> Config:
        return self._cfg

    def __setstate__(self, cfg: Config) -> None:
        self._set(cfg)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._cfg.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections; the next call opens new ones."""
        http, self._http = self._http, None
        if http is not None and self._owner == (os.getpid(), asyncio.get_running_loop()):
            await http.aclose()

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
        """Results of items, in their order; see `Client.score`."""
        found = self.score_iter(
            items,
            prompts=prompts,
            options=options,
            model=model,
            priority=priority,
            on_error=on_error,
            deadline=deadline,
        )
        return [r async for r in found]

    async def score_one(
        self,
        item: ItemLike,
        *,
        options: Options | None = None,
        model: str | None = None,
        priority: Priority | None = None,
        deadline: float | None = None,
    ) -> Result:
        """The result of one item."""
        found = await self.score([item], options=options, model=model, priority=priority, deadline=deadline)
        return found[0]

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
        """Only the rewards of `score`."""
        lean = Options(instances=False).over(options or Options())
        found = self.score_iter(
            items,
            prompts=prompts,
            options=lean,
            model=model,
            priority=priority,
            on_error=on_error,
            deadline=deadline,
        )
        return [r.reward async for r in found]

    async def score_iter(
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
        """Yields the results of `score` as they come, in order; reads items only as far as needed."""
        cfg = self._cfg
        until = None if deadline is None else time.monotonic() + deadline
        ask = partial(
            self._outcomes,
            asked=cfg.asked(options, model, priority),
            on_error=on_error,
            deadline=until,
        )
        room = asyncio.Semaphore(cfg.concurrency)

        async def one(part: Chunk | Failure) -> list[Outcome]:
            async with room:
                return await ask(part)

        waiting: deque[asyncio.Task[list[Outcome]]] = deque()
        try:
            for part in chunks(cfg, items, prompts, on_error):
                if len(waiting) > cfg.concurrency:
                    for outcome in await waiting.popleft():
                        yield outcome
                waiting.append(asyncio.ensure_future(one(part)))
            while waiting:
                for outcome in await waiting.popleft():
                    yield outcome
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _outcomes(
        self,
        part: Chunk | Failure,
        *,
        asked: Asked,
        on_error: OnError,
        deadline: float | None,
    ) -> list[Outcome]:
        if isinstance(part, Failure):
            return [part]
        call = _wire.score_call(part.items, asked, part.first)
        try:
            return list(await self._call(call, partial(_wire.parse_score, n=len(part.items)), deadline))
        except AssayError as e:
            if splits(e, part, on_error):
                outcomes: list[Outcome] = []
                for half in part.halves():
                    outcomes += await self._outcomes(half, asked=asked, on_error=on_error, deadline=deadline)
                return outcomes
            failed = failures(e, part, on_error)
            log.warning("%d responses are not scored: %s", len(failed), e)
            return list(failed)

    # Feedback

    async def feedback(
        self, items: Iterable[FeedbackItem | Mapping[str, Any]], *, deadline: float | None = None
    ) -> Receipt:
        """Sends labels and returns what became of them.

        Sending the same items again is safe: they are counted as duplicates.
        The receipt names the items that were rejected; the others are stored.
        """
        until = None if deadline is None else time.monotonic() + deadline
        total = Receipt()
        for first, lines in batches(_wire.feedback_lines(items)):
            parse = partial(_wire.parse_receipt, first=first, n=len(lines))
            total = _wire.add_receipts(
                total, await self._call(_wire.feedback_call(lines, first), parse, until)
            )
        return total

    async def feedback_stats(self) -> Mapping[str, Any]:
        """What the labels add up to."""
        return await self._call(_wire.Call("GET", "/v1/feedback"), _wire.parse_stats)

    async def candidates(self, n: int = 20) -> list[Candidate]:
        """Scored responses whose label would teach most, the best first."""
        return await self._call(_wire.Call("GET", f"/v1/feedback/candidates?n={n:d}"), _wire.parse_candidates)

    async def erase_feedback(self, id: str) -> int:
        """Erases all that is kept of a response; returns how many records were removed."""
        return await self._call(_wire.Call("DELETE", f"/v1/feedback/{_wire.segment(id)}"), _wire.parse_erased)

    # Models, trainings, health

    async def models(self) -> list[Model]:
        """Every model version: those that serve first, then the newest first."""
        return await self._call(_wire.Call("GET", "/v1/models"), _wire.parse_models)

    async def model(self, version: str) -> Model:
        """One model, by version or name, with its whole record in `raw`."""
        return await self._call(_wire.Call("GET", f"/v1/models/{_wire.segment(version)}"), _wire.parse_model)

    async def promote(self, version: str, reason: str | None = None) -> Current:
        """Makes a version the current one, on every replica."""
        path = f"/v1/models/{_wire.segment(version)}/promote"
        return await self._call(_wire.change(path, _wire.reason(reason)), _wire.parse_current)

    async def rollback(self, reason: str | None = None) -> Current:
        """Makes the version before the current one current again."""
        return await self._call(
            _wire.change("/v1/models/rollback", _wire.reason(reason)), _wire.parse_current
        )

    async def training(self) -> Training:
        """The training of the fleet, how the last one ended and what the next waits for."""
        return await self._call(_wire.Call("GET", "/v1/training"), _wire.parse_training)

    async def start_training(self, reason: str | None = None, *, refreeze: bool | None = None) -> Training:
        """Asks for a training."""
        body = _wire.reason(reason, refreeze=refreeze)
        return await self._call(_wire.change("/v1/training", body), _wire.parse_training)

    async def events(self, n: int = 100) -> list[Event]:
        """The last events that are kept, the oldest first."""
        return await self._call(_wire.Call("GET", f"/v1/events?n={n:d}"), _wire.parse_events)

    async def ready(self) -> bool:
        """Whether the service can score now."""
        try:
            attempt = await self._attempt(_wire.Call("GET", "/readyz"), self._cfg.timeout)
        except (NoAnswerError, UnavailableError):
            return False
        return bool(_wire.field(attempt, "status", str) == "ready")

    async def wait_ready(self, deadline: float = 120.0) -> None:
        """Returns when the service can score; raises `DeadlineError` after deadline seconds."""
        until = time.monotonic() + deadline
        while not await self.ready():
            if time.monotonic() + 0.2 > until:
                raise DeadlineError(f"{self._cfg.url} was not ready within {deadline:g} s")
            await asyncio.sleep(0.2)

    # Requests

    async def _call(self, call: _wire.Call, parse: Callable[[Any], T], deadline: float | None = None) -> T:
        """What a call is answered with, after as many attempts as it takes."""
        attempts = Attempts(self._cfg.retry, self._cfg.timeout, deadline, call.repeatable)
        while True:
            limit = attempts.limit(time.monotonic())
            try:
                return parse(await self._attempt(call, limit))
            except AssayError as e:
                pause = attempts.pause(e, time.monotonic())
                log.warning("%s; trying again in %.1f s", e, pause)
            await asyncio.sleep(pause)

    async def _attempt(self, call: _wire.Call, limit: float) -> Any:
        http = self._connections()
        ask = http.request(
            call.method, call.path, content=call.body, headers=call.headers(limit), timeout=limit
        )
        try:
            answer = await asyncio.wait_for(ask, limit)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as e:
            raise unreachable(e, False, self._cfg) from e
        except (httpx.TimeoutException, asyncio.TimeoutError) as e:
            raise NoAnswerError(f"{self._cfg.url} did not answer within {limit:.1f} s") from e
        except httpx.HTTPError as e:
            raise unreachable(e, True, self._cfg) from e
        return _wire.decode(answer.status_code, answer.headers, answer.content, call, self._cfg.url)

    def _connections(self) -> httpx.AsyncClient:
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._http is None or self._owner != owner:
            # Connections belong to the event loop that opened them.
            given = self._cfg.http()
            if not self._cfg.by_proxy():
                given["transport"] = Lanes(KEPT, KEPT_FOR)
            self._http = httpx.AsyncClient(**given)  # type: ignore[arg-type]
            self._owner = owner
        return self._http
