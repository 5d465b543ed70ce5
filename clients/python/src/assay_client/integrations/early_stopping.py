"""Stops rollouts that violate the policy; see docs/how-to/early-stopping.md.

`assay_client.integrations.transformers`, `.trl_early_stopping`, `.vllm`,
`.sglang` and `.verl_early_stopping` use this module for their libraries. What
they share:

- The text of a rollout goes to a live session while it is sampled. The first
  event for which `when` holds stops it.
- `when` is `violation` or `final`, or any function of an event.
- A stopped rollout is cut after the token that completes the utterance of that
  event, even if more tokens were sampled before the verdict arrived. It is
  complete instead if only white space follows that utterance. So neither the
  tokens nor the reward depend on timing.
- Its finish reason is `content_filter`, the one of the OpenAI API, and its
  reward is that of the text that is kept, as of a response that ends there by
  itself: the same text has the same reward, whatever ended it, also from a
  reward function that scores the completions. The running reward at the event
  may be larger, if the model judges a short text as a whole at its end
  (`whole_characters`).
- A rollout continues without early stopping, with a warning, if its session fails
  because the service is unavailable: at the beginning after the retries of the client.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import (
    APIConnectionError,
    AsyncClient,
    AsyncLive,
    LiveEvent,
    Options,
    Result,
    ServiceUnavailableError,
)

log = logging.getLogger("assay_client")

FINISH_REASON = "content_filter"

When = Callable[[LiveEvent], bool]

# Failures of a session that do not end a rollout.
UNAVAILABLE = (APIConnectionError, ServiceUnavailableError)


def violation(event: LiveEvent) -> bool:
    """Stop where the response so far is not compliant, although a longer one might be."""
    return not event.reset and not event.compliant


def final(event: LiveEvent) -> bool:
    """Stop where the response can no longer become compliant.

    Hardly ever true for a model whose threshold grows with the length of a
    response (`length_slope`), as that of the shipped one does.
    """
    return event.stop


def live_options(options: Options | None) -> Options:
    """The options of a session, whose offsets must be indices of Python strings."""
    return Options(offset_unit="codepoint").with_defaults(options or Options())


@dataclass(frozen=True)
class Rollout:
    """A sampled response. `reward` is None if the service was unavailable."""

    text: str
    token_ids: list[int]
    log_probs: list[float] | None
    finish_reason: str | None
    reward: float | None
    stopped: bool


class Step(NamedTuple):
    """What an engine sampled: tokens, and the text that they add."""

    text: str
    token_ids: Sequence[int]
    log_probs: Sequence[float] | None = None
    finish_reason: str | None = None


@dataclass
class Watch:
    """Follows the text of one rollout and its events, and knows where to cut it."""

    when: When
    text: str = ""
    trigger: LiveEvent | None = None
    _ends: list[int] = field(default_factory=list)  # the length of the text after each token

    def append(self, text: str, tokens: int = 1) -> None:
        """Appends text that the last of some tokens completed."""
        self._ends += [len(self.text)] * (tokens - 1)
        self.text += text
        self._ends += [len(self.text)] * (tokens > 0)

    def observe(self, event: LiveEvent) -> None:
        trigger = self.trigger and self.trigger.utterance
        if event.reset:
            if trigger and trigger.index >= event.reset_index:
                self.trigger = None
        elif (
            self.trigger is None and event.utterance and not event.utterance.provisional and self.when(event)
        ):
            self.trigger = event

    @property
    def stopped(self) -> bool:
        """Whether more than white space follows the utterance of the trigger.

        Until then the response may yet end by itself, and sampling continues,
        so that it makes no difference when the verdict arrives.
        """
        return self.trigger is not None and self._end() < len(self.text.rstrip())

    def kept(self) -> int:
        """How many tokens to keep."""
        tokens = len(self._ends)
        return min(bisect_left(self._ends, self._end()) + 1, tokens) if self.stopped else tokens

    def kept_text(self) -> str:
        return self.text[: self._ends[self.kept() - 1]] if self.stopped else self.text

    def _end(self) -> int:
        assert self.trigger is not None
        assert self.trigger.utterance is not None
        return self.trigger.utterance.end


class TokenDecoder:
    """Decodes sampled tokens one by one, and holds back those of an incomplete character.

    Some tokenizers decode a token differently at the start of a text (they strip
    a space), so each token is decoded together with those just before it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._start = 0  # of the context: tokens whose text was returned
        self._read = 0  # end of the context

    def push(self, id: int) -> str:
        """The text that a token completes; empty for a special one."""
        self._ids.append(id)
        text = self._text()
        if text.endswith("\ufffd"):  # an incomplete character, or this one itself
            return ""
        return self._take(text)

    def flush(self) -> str:
        """The text of an incomplete character at the end of a response."""
        return self._take(self._text())

    def _text(self) -> str:
        context = self._decode(self._ids[self._start : self._read])
        return self._decode(self._ids[self._start :])[len(context) :]

    def _take(self, text: str) -> str:
        if text:
            self._start, self._read = self._read, len(self._ids)
        return text

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def end_of_sequence(tokenizer: Any, ids: int | Collection[int] | None) -> frozenset[int]:
    """The tokens that end a sequence: ids, or that of the tokenizer where they are None."""
    if ids is None:
        ids = tokenizer.eos_token_id
    return frozenset([ids] if ids is None or isinstance(ids, int) else ids)


async def follow(
    steps: AsyncIterator[Step],
    client: AsyncClient,
    *,
    abort: Callable[[], Awaitable[None]],
    prompt: str | None = None,
    options: Options | None = None,
    model: str | None = None,
    when: When = violation,
) -> Rollout:
    """Feeds the steps of an engine to a live session, and calls abort where the verdict stops the rollout."""
    watch = Watch(when)
    token_ids: list[int] = []
    log_probs: list[float] = []
    finish_reason: str | None = None
    result: Result | None = None

    def session() -> _Feed:
        return _Feed(client, prompt, live_options(options), model)

    feed = session()
    try:
        async for step in steps:
            watch.append(step.text, len(step.token_ids))
            token_ids += step.token_ids
            log_probs += step.log_probs or ()
            finish_reason = step.finish_reason or finish_reason
            for event in await feed.send(step.text):
                watch.observe(event)
            if watch.stopped and finish_reason is None:
                await abort()
                break
        else:
            events, result = await feed.finish()
            for event in events:
                watch.observe(event)
    finally:
        await feed.aclose()
    if watch.stopped:
        finish_reason = FINISH_REASON
        result = await _whole(session(), watch.kept_text())
    kept = watch.kept()
    return Rollout(
        text=watch.kept_text(),
        token_ids=token_ids[:kept],
        log_probs=log_probs[:kept] if log_probs else None,
        finish_reason=finish_reason,
        reward=None if result is None else result.reward,
        stopped=watch.stopped,
    )


async def _whole(feed: _Feed, text: str) -> Result | None:
    """The result of a complete text, in a session of its own."""
    try:
        await feed.send(text)
        return (await feed.finish())[1]
    finally:
        await feed.aclose()


async def _nothing() -> AsyncIterator[str]:
    return
    yield


class _Feed:
    """A live session that may fail without ending the rollout."""

    def __init__(self, client: AsyncClient, prompt: str | None, options: Options, model: str | None) -> None:
        self._opening = client.live(prompt=prompt, options=options, model=model)
        self._live: AsyncLive | None = None
        self._failed = False

    async def send(self, text: str) -> list[LiveEvent]:
        if self._failed or not text:
            return []
        try:
            return list(await (await self._session()).feed(text))
        except UNAVAILABLE as e:
            self._fail(e)
            return []

    async def finish(self) -> tuple[list[LiveEvent], Result | None]:
        if self._failed:
            return [], None
        events = []
        try:
            live = await self._session()  # a response without text has a reward too
            async for event in live.events(_nothing()):  # within the timeout of the client
                events.append(event)
            return events, live.result
        except UNAVAILABLE as e:
            self._fail(e)
            return events, None

    async def _session(self) -> AsyncLive:
        if self._live is None:
            self._live = await self._opening.__aenter__()
        return self._live

    async def aclose(self) -> None:
        if self._live is not None:
            await self._opening.__aexit__(None, None, None)

    def _fail(self, error: Exception) -> None:
        self._failed = True
        log.warning("a rollout continues without its live session: %s", error)
