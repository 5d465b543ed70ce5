"""Retry policy."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from ._errors import (
    APIConnectionError,
    APIStatusError,
    AssayError,
    DeadlineExceededError,
    InvalidResponseError,
    ServiceUnavailableError,
)

# The service has certainly not applied a request that it refused with one of these.
# An unreachable store ("unavailable") may have applied it, and a status without a
# code comes from a proxy.
_NOT_APPLIED = frozenset(
    {
        (429, "rate_limited"),
        (503, "overloaded"),
        (503, "not_ready"),
        (503, "shutting_down"),
        (503, "store_full"),
    }
)


@dataclass(frozen=True)
class Retry:
    """Exponential backoff with jitter, for up to `budget` seconds after the first failure.

    Idempotent requests (scoring, feedback, reading) are retried after
    transient failures; requests that change models only where the service has
    certainly not applied them. The wait doubles from `initial_backoff` to
    `max_backoff` seconds, half of it random; a Retry-After header is a lower
    bound. After `max_invalid_responses` invalid responses the call fails.
    `budget=0` disables retries.
    """

    budget: float = 300.0
    initial_backoff: float = 0.25
    max_backoff: float = 15.0
    max_invalid_responses: int = 3

    def backoff(
        self, error: AssayError, attempt: int, elapsed: float, idempotent: bool, invalid: int | None = None
    ) -> float | None:
        """Seconds to wait after failed attempt number `attempt` (from 1), or None to give up.

        `invalid` of the attempts ended in an invalid response (None: all).
        """
        if not self._is_retryable(error, attempt if invalid is None else invalid, idempotent):
            return None
        ceiling = min(self.max_backoff, self.initial_backoff * 2.0 ** min(attempt - 1, 30))
        wait = ceiling * random.uniform(0.5, 1.0)
        if isinstance(error, APIStatusError) and error.retry_after is not None:
            wait = max(wait, error.retry_after + random.uniform(0.0, ceiling / 2))
        return wait if elapsed + wait <= self.budget else None

    def _is_retryable(self, error: AssayError, invalid: int, idempotent: bool) -> bool:
        if isinstance(error, APIConnectionError):
            return idempotent or not error.sent
        if isinstance(error, ServiceUnavailableError):
            return idempotent or (error.status_code, error.code) in _NOT_APPLIED
        if isinstance(error, InvalidResponseError):
            return idempotent and invalid < self.max_invalid_responses
        return False


class Attempts:
    """The attempts of one call until its deadline.

    It reads no clock: the caller passes times of one monotonic clock.
    """

    def __init__(self, retry: Retry, timeout: float, deadline: float | None, idempotent: bool) -> None:
        self._retry = retry
        self._timeout = timeout
        self._deadline = deadline
        self._idempotent = idempotent
        self._count = 0
        self._invalid = 0
        self._first_failure: float | None = None

    def next_timeout(self, now: float) -> float:
        """Starts an attempt; returns its timeout in seconds."""
        self._count += 1
        if self._deadline is None:
            return self._timeout
        if now >= self._deadline:
            raise DeadlineExceededError("the deadline passed before the request could be sent")
        return min(self._timeout, self._deadline - now)

    def backoff(self, error: AssayError, now: float) -> float:
        """Seconds to wait before the next attempt; raises where there must not be one."""
        if self._first_failure is None:
            self._first_failure = now
        self._invalid += isinstance(error, InvalidResponseError)
        elapsed = now - self._first_failure
        wait = self._retry.backoff(error, self._count, elapsed, self._idempotent, self._invalid)
        if self._deadline is not None and now + (wait or 0.0) >= self._deadline and _is_transient(error):
            message = f"the deadline passed after {self._count} attempts: {error}"
            raise DeadlineExceededError(message) from error
        if wait is None:
            raise error
        return wait


def _is_transient(error: AssayError) -> bool:
    return isinstance(error, (APIConnectionError, ServiceUnavailableError, InvalidResponseError))


def expiry(deadline: float | None) -> float | None:
    """The monotonic time that is deadline seconds from now."""
    return None if deadline is None else time.monotonic() + deadline
