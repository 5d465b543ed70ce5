"""When to try again, and how long to wait before. Keeps no clock."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ._errors import APIError, AssayError, BadAnswerError, DeadlineError, NoAnswerError, UnavailableError

# Statuses by which a service says that it did nothing.
_UNDONE = frozenset({429, 503})


@dataclass(frozen=True)
class Retry:
    """Tries again for `budget` seconds after the first failure, at growing intervals.

    Only where it is safe: scoring, feedback and reading may be repeated;
    whatever changes models only where the service did not do it. The waits
    double from `first` up to `most` seconds, half of each by chance so that
    clients do not return together; a Retry-After is the least that is waited.
    `budget` 0 never tries again.
    """

    budget: float = 300.0
    first: float = 0.25
    most: float = 15.0
    bad_answers: int = 3

    def pause(self, error: AssayError, attempt: int, elapsed: float, repeatable: bool) -> float | None:
        """Seconds to wait after failed attempt number `attempt` (from 1); None: give up."""
        if not self._allowed(error, attempt, repeatable):
            return None
        backoff = min(self.most, self.first * 2.0 ** min(attempt - 1, 30))
        wait = backoff * random.uniform(0.5, 1.0)
        if isinstance(error, APIError) and error.retry_after is not None:
            wait = max(wait, error.retry_after + random.uniform(0.0, backoff / 2))
        return wait if elapsed + wait <= self.budget else None

    def _allowed(self, error: AssayError, attempt: int, repeatable: bool) -> bool:
        if isinstance(error, NoAnswerError):
            return repeatable or not error.sent
        if isinstance(error, UnavailableError):
            return repeatable or error.status in _UNDONE
        if isinstance(error, BadAnswerError):
            return repeatable and attempt < self.bad_answers
        return False


class Attempts:
    """The attempts of one call, up to its deadline. Times are of one monotonic clock."""

    def __init__(self, retry: Retry, timeout: float, deadline: float | None, repeatable: bool) -> None:
        self._retry = retry
        self._timeout = timeout
        self._deadline = deadline
        self._repeatable = repeatable
        self._made = 0
        self._failed: float | None = None

    def limit(self, now: float) -> float:
        """Seconds that the next attempt may take."""
        self._made += 1
        if self._deadline is None:
            return self._timeout
        if now >= self._deadline:
            raise DeadlineError("the deadline had passed before the request could be sent")
        return min(self._timeout, self._deadline - now)

    def pause(self, error: AssayError, now: float) -> float:
        """Seconds to wait after error; raises when there is to be no other attempt."""
        if self._failed is None:
            self._failed = now
        wait = self._retry.pause(error, self._made, now - self._failed, self._repeatable)
        if self._deadline is not None and now + (wait or 0.0) >= self._deadline and _may_pass(error):
            raise DeadlineError(f"the deadline passed after {self._made} attempts: {error}") from error
        if wait is None:
            raise error
        return wait


def _may_pass(error: AssayError) -> bool:
    """Whether more time might have helped."""
    return isinstance(error, (NoAnswerError, UnavailableError, BadAnswerError))
