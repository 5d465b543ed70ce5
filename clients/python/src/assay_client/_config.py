"""What a client is set to, shared by the synchronous and the asynchronous one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from ._errors import APIError, AssayError, InvalidRequestError, NoAnswerError, ServerError
from ._private import PrivateToken, may_see_token, on_this_machine
from ._retry import Retry
from ._types import Asked, Failure, ItemLike, OnError, Options, Priority, substitute
from ._version import __version__
from ._wire import encode_item

# A request of feedback holds at most this much.
FEEDBACK_ITEMS = 500
FEEDBACK_BYTES = 8 << 20

# Connections without a request, and seconds that they stay open.
KEPT = 64
KEPT_FOR = 30.0


@dataclass(frozen=True)
class Config:
    url: str
    token: str | None = field(repr=False)
    model: str | None
    options: Options
    timeout: float
    retry: Retry
    chunk: int
    chunk_bytes: int
    concurrency: int
    priority: Priority | None = None

    def http(self) -> dict[str, object]:
        """Arguments of httpx.Client and httpx.AsyncClient."""
        headers = {"User-Agent": f"assay-client/{__version__}", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "limits": httpx.Limits(
                max_connections=None, max_keepalive_connections=KEPT, keepalive_expiry=KEPT_FOR
            ),
            # A proxy of the environment is not asked for this machine.
            "trust_env": not _is_local(self.url),
            "auth": PrivateToken(self.url) if not self.token and may_see_token(self.url) else None,
        }

    def asked(self, options: Options | None, model: str | None, priority: Priority | None) -> Asked:
        """What a call says, and what the client says where that says nothing."""
        return Asked(
            (options or Options()).over(self.options), model or self.model, _known(priority) or self.priority
        )

    def by_proxy(self) -> bool:
        """Whether the environment may name a proxy for the service."""
        return not _is_local(self.url) and bool(getproxies())


def configure(
    url: str | None,
    token: str | None,
    model: str | None,
    options: Options | None,
    timeout: float,
    retry: Retry | float | None,
    chunk: int,
    chunk_bytes: int,
    concurrency: int,
    priority: Priority | None = None,
) -> Config:
    url = (url or os.environ.get("ASSAY_URL") or "http://127.0.0.1:8080").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"url {url!r} is no address; give http://HOST:PORT")
    for name, value in (
        ("timeout", timeout),
        ("chunk", chunk),
        ("chunk_bytes", chunk_bytes),
        ("concurrency", concurrency),
    ):
        if not value > 0:
            raise ValueError(f"{name} is {value!r}; give more than 0")
    if not isinstance(retry, Retry):
        retry = Retry() if retry is None else Retry(budget=retry)
    token = token or os.environ.get("ASSAY_TOKEN")
    return Config(
        url,
        token,
        model,
        options or Options(),
        timeout,
        retry,
        chunk,
        chunk_bytes,
        concurrency,
        _known(priority),
    )


def _known(priority: Priority | None) -> Priority | None:
    if priority not in (None, "interactive", "bulk"):
        raise ValueError(f"priority is {priority!r}; give 'interactive' or 'bulk'")
    return priority


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return on_this_machine(host) or host.endswith(".localhost")


@dataclass(frozen=True)
class Chunk:
    """Items of one request: `first` is the position of the first among all."""

    first: int
    items: Sequence[bytes]

    def halves(self) -> tuple[Chunk, Chunk]:
        middle = len(self.items) // 2
        return Chunk(self.first, self.items[:middle]), Chunk(self.first + middle, self.items[middle:])


def chunks(
    cfg: Config, items: Iterable[ItemLike], prompts: Iterable[str] | None, on_error: OnError
) -> Iterator[Chunk | Failure]:
    """Items in requests that fill the batches of the service; a Failure is one that cannot be sent."""
    value = substitute(on_error)
    held: list[bytes] = []
    first = size = 0
    for index, (item, prompt) in enumerate(_pairs(items, prompts)):
        failure = None
        try:
            text = encode_item(item, index, prompt)
        except AssayError as e:
            if value is None:
                raise
            failure = Failure(value, e)
        if held and (failure or len(held) >= cfg.chunk or size + len(text) > cfg.chunk_bytes):
            yield Chunk(first, held)
            held, size = [], 0
        if failure:
            yield failure
            continue
        if not held:
            first = index
        held.append(text)
        size += len(text)
    if held:
        yield Chunk(first, held)


def _pairs(items: Iterable[ItemLike], prompts: Iterable[str] | None) -> Iterator[tuple[ItemLike, str | None]]:
    if isinstance(items, (str, bytes, dict)):
        raise TypeError("items is one item; give a list, or use score_one")
    if prompts is None:
        for item in items:
            yield item, None
        return
    end = object()
    rest = iter(prompts)
    for item in items:
        prompt = next(rest, end)
        if prompt is end:
            raise ValueError("there are fewer prompts than items")
        yield item, prompt  # type: ignore[misc]
    if next(rest, end) is not end:
        raise ValueError("there are more prompts than items")


def splits(error: AssayError, chunk: Chunk, on_error: OnError) -> bool:
    """Whether the halves of a chunk may fare better than the whole."""
    if len(chunk.items) < 2:
        return False
    if isinstance(error, InvalidRequestError) and error.status == 413:
        return True
    if on_error == "raise":
        return False
    item = isinstance(error, InvalidRequestError) and not error.field.startswith("options")
    return item or isinstance(error, ServerError)


def failures(error: AssayError, chunk: Chunk, on_error: OnError) -> list[Failure]:
    """What stands for the results of a chunk; raises error where that is not asked for.

    What is wrong with every request, such as a token, raises in any case.
    """
    value = substitute(on_error)
    if error.index is None and len(chunk.items) == 1:
        error.index = chunk.first
    if value is None or not _of_service(error):
        raise error
    return [Failure(value, error) for _ in chunk.items]


def _of_service(error: AssayError) -> bool:
    if isinstance(error, InvalidRequestError):
        return not error.field.startswith("options") and error.status in (400, 413, 422)
    return not isinstance(error, APIError) or error.status >= 500 or error.status in (408, 425, 429)


def unreachable(e: Exception, sent: bool, cfg: Config) -> NoAnswerError:
    what = str(e) or type(e).__name__
    if not sent:
        return NoAnswerError(f"no connection to {cfg.url}: {what}", sent=False)
    return NoAnswerError(f"no answer from {cfg.url}: {what}")


def batches(lines: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Lines of feedback in requests, each with the position of its first."""
    held: list[bytes] = []
    first = size = 0
    for line in lines:
        if held and (len(held) >= FEEDBACK_ITEMS or size + len(line) > FEEDBACK_BYTES):
            yield first, held
            first, held, size = first + len(held), [], 0
        held.append(line)
        size += len(line) + 1
    if held:
        yield first, held
