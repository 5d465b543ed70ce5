"""Splitting the input of a call into requests, and what to do when one of them fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ._config import Config
from ._errors import APIStatusError, AssayError, BadRequestError, InternalServerError
from ._types import Failure, ItemLike, OnError, fallback_reward
from ._wire import encode_item

# Limits of one feedback request.
MAX_FEEDBACK_ITEMS = 500
MAX_FEEDBACK_BYTES = 8 << 20


@dataclass(frozen=True)
class Chunk:
    """The encoded items of one request. `first` is the position of the first one in the input."""

    first: int
    items: Sequence[bytes]

    def halves(self) -> tuple[Chunk, Chunk]:
        middle = len(self.items) // 2
        return Chunk(self.first, self.items[:middle]), Chunk(self.first + middle, self.items[middle:])


def chunks(
    config: Config, items: Iterable[ItemLike], prompts: Iterable[str] | None, on_error: OnError
) -> Iterator[Chunk | Failure]:
    """Yields the items in chunks, and a `Failure` in place of each item that cannot be encoded."""
    reward = fallback_reward(on_error)
    pending: list[bytes] = []
    first = size = 0
    for index, (item, prompt) in enumerate(_with_prompts(items, prompts)):
        failure = None
        try:
            text = encode_item(item, index, prompt)
        except AssayError as e:
            if reward is None:
                raise
            failure = Failure(reward, e)
        if pending and (failure or len(pending) >= config.chunk or size + len(text) > config.chunk_bytes):
            yield Chunk(first, pending)
            pending, size = [], 0
        if failure:
            yield failure
            continue
        if not pending:
            first = index
        pending.append(text)
        size += len(text)
    if pending:
        yield Chunk(first, pending)


def _with_prompts(
    items: Iterable[ItemLike], prompts: Iterable[str] | None
) -> Iterator[tuple[ItemLike, str | None]]:
    if isinstance(items, (str, bytes, dict)):
        raise TypeError("items is a single item; pass a list, or use score_one")
    if prompts is None:
        for item in items:
            yield item, None
        return
    end = object()
    remaining = iter(prompts)
    for item in items:
        prompt = next(remaining, end)
        if prompt is end:
            raise ValueError("there are fewer prompts than items")
        yield item, prompt  # type: ignore[misc]
    if next(remaining, end) is not end:
        raise ValueError("there are more prompts than items")


def should_split(error: AssayError, chunk: Chunk, on_error: OnError) -> bool:
    """Whether to retry a failed chunk as two halves: it is too large, or one of its items is invalid."""
    if len(chunk.items) < 2:
        return False
    if isinstance(error, BadRequestError) and error.status_code == 413:
        return True
    if on_error == "raise":
        return False
    invalid_item = isinstance(error, BadRequestError) and not error.field.startswith("options")
    return invalid_item or isinstance(error, InternalServerError)


def failures(error: AssayError, chunk: Chunk, on_error: OnError) -> list[Failure]:
    """A `Failure` for each item of a chunk.

    Raises error instead with `on_error="raise"`, and whenever it would affect
    every request, as an invalid token does.
    """
    reward = fallback_reward(on_error)
    if error.index is None and len(chunk.items) == 1:
        error.index = chunk.first
    if reward is None or not _is_local_to_chunk(error):
        raise error
    return [Failure(reward, error) for _ in chunk.items]


def _is_local_to_chunk(error: AssayError) -> bool:
    if isinstance(error, BadRequestError):
        return not error.field.startswith("options") and error.status_code in (400, 413, 422)
    if isinstance(error, APIStatusError):
        return error.status_code >= 500 or error.status_code in (408, 425, 429)
    return True


def feedback_batches(lines: Iterable[bytes]) -> Iterator[Chunk]:
    """Yields encoded feedback items in batches."""
    pending: list[bytes] = []
    first = size = 0
    for line in lines:
        if pending and (len(pending) >= MAX_FEEDBACK_ITEMS or size + len(line) > MAX_FEEDBACK_BYTES):
            yield Chunk(first, pending)
            first, pending, size = first + len(pending), [], 0
        pending.append(line)
        size += len(line) + 1
    if pending:
        yield Chunk(first, pending)
