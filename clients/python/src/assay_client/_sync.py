"""The synchronous client."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar, Union, overload

import httpx

from . import _wire
from ._config import Chunk, Config, batches, chunks, configure, failures, splits, unreachable
from ._errors import AssayError, DeadlineError, NoAnswerError, UnavailableError
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


class Client:
    """Talks to an assay service; may be used by many threads at once.

    Connections are kept and reused. A client may be pickled and used after a
    fork: it connects anew there.

    `url` defaults to $ASSAY_URL, then http://127.0.0.1:8080; `token` to
    $ASSAY_TOKEN, then to that of a private service on this machine, from its
    data directory ($ASSAY_DATA_DIR). `model` pins a model version, `options` and `priority` are
    those of every call that names no others. `timeout` is the seconds that one attempt may
    take. `retry` is how long a request that failed is tried again (a `Retry`,
    or seconds; 0: never). Requests hold up to `chunk` items or `chunk_bytes`
    bytes, and `concurrency` of them are under way in one call.
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
        self._lock = threading.Lock()
        self._http: httpx.Client | None = None
        self._pid = 0

    def __getstate__(self) -> Config:
        return self._cfg

    def __setstate__(self, cfg: Config) -> None:
        self._set(cfg)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._cfg.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; the next call opens new ones."""
        http, self._http = self._http, None
        if http is not None and self._pid == os.getpid():
            http.close()

    # Scoring

    @overload
    def score(
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
    def score(
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
    def score(
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
        """Results of items, in their order.

        An item is a response (a string), an `Item`, or a dict as the service
        takes it; `prompts` adds a prompt to each. A failure raises an
        `AssayError`; with `on_error` "nan" or a number, a `Failure` with that
        reward stands for each item that could not be scored (a wrong token,
        option or model raises nevertheless). `deadline` is the seconds that
        the whole call may take. `priority` says who goes first where the
        service is busy: `interactive`, somebody waits, or `bulk`; None lets
        the service tell by the size of a request.
        """
        return list(
            self.score_iter(
                items,
                prompts=prompts,
                options=options,
                model=model,
                priority=priority,
                on_error=on_error,
                deadline=deadline,
            )
        )

    def score_one(
        self,
        item: ItemLike,
        *,
        options: Options | None = None,
        model: str | None = None,
        priority: Priority | None = None,
        deadline: float | None = None,
    ) -> Result:
        """The result of one item."""
        return self.score([item], options=options, model=model, priority=priority, deadline=deadline)[0]

    def rewards(
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
        return [r.reward for r in found]

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
    ) -> Iterator[Outcome]:
        """Yields the results of `score` as they come, in order; reads items only as far as needed."""
        until = None if deadline is None else time.monotonic() + deadline
        scoring = _Scoring(self, self._cfg.asked(options, model, priority), on_error, until)
        return scoring.run(chunks(self._cfg, items, prompts, on_error))

    # Feedback

    def feedback(
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
            total = _wire.add_receipts(total, self._call(_wire.feedback_call(lines, first), parse, until))
        return total

    def feedback_stats(self) -> Mapping[str, Any]:
        """What the labels add up to."""
        return self._call(_wire.Call("GET", "/v1/feedback"), _wire.parse_stats)

    def candidates(self, n: int = 20) -> list[Candidate]:
        """Scored responses whose label would teach most, the best first."""
        return self._call(_wire.Call("GET", f"/v1/feedback/candidates?n={n:d}"), _wire.parse_candidates)

    def erase_feedback(self, id: str) -> int:
        """Erases all that is kept of a response; returns how many records were removed."""
        return self._call(_wire.Call("DELETE", f"/v1/feedback/{_wire.segment(id)}"), _wire.parse_erased)

    # Models, trainings, health

    def models(self) -> list[Model]:
        """Every model version: those that serve first, then the newest first."""
        return self._call(_wire.Call("GET", "/v1/models"), _wire.parse_models)

    def model(self, version: str) -> Model:
        """One model, by version or name, with its whole record in `raw`."""
        return self._call(_wire.Call("GET", f"/v1/models/{_wire.segment(version)}"), _wire.parse_model)

    def promote(self, version: str, reason: str | None = None) -> Current:
        """Makes a version the current one, on every replica."""
        path = f"/v1/models/{_wire.segment(version)}/promote"
        return self._call(_wire.change(path, _wire.reason(reason)), _wire.parse_current)

    def rollback(self, reason: str | None = None) -> Current:
        """Makes the version before the current one current again."""
        return self._call(_wire.change("/v1/models/rollback", _wire.reason(reason)), _wire.parse_current)

    def training(self) -> Training:
        """The training of the fleet, how the last one ended and what the next waits for."""
        return self._call(_wire.Call("GET", "/v1/training"), _wire.parse_training)

    def start_training(self, reason: str | None = None, *, refreeze: bool | None = None) -> Training:
        """Asks for a training."""
        body = _wire.reason(reason, refreeze=refreeze)
        return self._call(_wire.change("/v1/training", body), _wire.parse_training)

    def events(self, n: int = 100) -> list[Event]:
        """The last events that are kept, the oldest first."""
        return self._call(_wire.Call("GET", f"/v1/events?n={n:d}"), _wire.parse_events)

    def ready(self) -> bool:
        """Whether the service can score now."""
        try:
            attempt = self._attempt(_wire.Call("GET", "/readyz"), self._cfg.timeout)
        except (NoAnswerError, UnavailableError):
            return False
        return bool(_wire.field(attempt, "status", str) == "ready")

    def wait_ready(self, deadline: float = 120.0) -> None:
        """Returns when the service can score; raises `DeadlineError` after deadline seconds."""
        until = time.monotonic() + deadline
        while not self.ready():
            if time.monotonic() + 0.2 > until:
                raise DeadlineError(f"{self._cfg.url} was not ready within {deadline:g} s")
            time.sleep(0.2)

    # Requests

    def _call(
        self,
        call: _wire.Call,
        parse: Callable[[Any], T],
        deadline: float | None = None,
        stop: threading.Event | None = None,
    ) -> T:
        """What a call is answered with, after as many attempts as it takes."""
        attempts = Attempts(self._cfg.retry, self._cfg.timeout, deadline, call.repeatable)
        while True:
            limit = attempts.limit(time.monotonic())
            try:
                return parse(self._attempt(call, limit))
            except AssayError as e:
                pause = attempts.pause(e, time.monotonic())
                log.warning("%s; trying again in %.1f s", e, pause)
                if (stop or threading.Event()).wait(pause):
                    raise

    def _attempt(self, call: _wire.Call, limit: float) -> Any:
        until = time.monotonic() + limit
        try:
            with self._connections().stream(
                call.method, call.path, content=call.body, headers=call.headers(limit), timeout=limit
            ) as answer:
                body = bytearray()
                for part in answer.iter_bytes():
                    body += part
                    if time.monotonic() > until:
                        raise NoAnswerError(f"{self._cfg.url} did not answer within {limit:.1f} s")
                return _wire.decode(answer.status_code, answer.headers, bytes(body), call, self._cfg.url)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as e:
            raise unreachable(e, False, self._cfg) from e
        except httpx.TimeoutException as e:
            raise NoAnswerError(f"{self._cfg.url} did not answer within {limit:.1f} s") from e
        except httpx.HTTPError as e:
            raise unreachable(e, True, self._cfg) from e

    def _connections(self) -> httpx.Client:
        http = self._http
        if http is not None and self._pid == os.getpid():
            return http
        with self._lock:
            if self._http is None or self._pid != os.getpid():
                # After a fork the connections are those of the parent.
                self._http = httpx.Client(**self._cfg.http())  # type: ignore[arg-type]
                self._pid = os.getpid()
            return self._http


class _Scoring:
    """One call of score: its chunks are under way on a few threads, and come back in order."""

    def __init__(self, client: Client, asked: Asked, on_error: OnError, deadline: float | None) -> None:
        self._client = client
        self._asked = asked
        self._on_error: OnError = on_error
        self._deadline = deadline
        self._stop = threading.Event()

    def run(self, parts: Iterator[Chunk | Failure]) -> Iterator[Outcome]:
        # A call of one chunk needs no thread.
        head: list[Chunk | Failure] = []
        for part in parts:
            head.append(part)
            if len(head) == 2:
                break
        if len(head) < 2:
            for part in head:
                yield from self._outcomes(part)
            return
        yield from self._parallel(head, parts)

    def _parallel(self, head: list[Chunk | Failure], rest: Iterator[Chunk | Failure]) -> Iterator[Outcome]:
        most = self._client._cfg.concurrency
        pool = ThreadPoolExecutor(most, thread_name_prefix="assay")
        waiting: deque[Future[list[Outcome]]] = deque()
        try:
            for parts in (head, rest):
                for part in parts:
                    if len(waiting) > most:  # one more than is under way, so that no thread idles
                        yield from waiting.popleft().result()
                    waiting.append(pool.submit(self._outcomes, part))
            while waiting:
                yield from waiting.popleft().result()
        finally:
            self._stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _outcomes(self, part: Chunk | Failure) -> list[Outcome]:
        if isinstance(part, Failure):
            return [part]
        call = _wire.score_call(part.items, self._asked, part.first)
        try:
            parse = partial(_wire.parse_score, n=len(part.items))
            return list(self._client._call(call, parse, self._deadline, self._stop))
        except AssayError as e:
            if splits(e, part, self._on_error):
                left, right = part.halves()
                return self._outcomes(left) + self._outcomes(right)
            failed = failures(e, part, self._on_error)
            log.warning("%d responses are not scored: %s", len(failed), e)
            return list(failed)
