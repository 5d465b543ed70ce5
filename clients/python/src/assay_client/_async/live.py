"""Live sessions of the asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from types import TracebackType

from .. import _live
from .._channels import AsyncChannel
from .._errors import APITimeoutError, InputError
from .._types import LiveEvent, Result


class AsyncLive:
    """One response, scored while it is being written: `AsyncClient.live` opens it.

        async with client.live(prompt=prompt) as live:
            async for event in live.events(pieces):
                if not event.compliant:
                    break  # the response so far is a violation

    An error ends the session; what follows raises it again. Leaving the block
    without `finish` ends the session without a result.
    """

    def __init__(self, channel: AsyncChannel, url: str, timeout: float) -> None:
        self._channel = channel
        self._url = url
        self._timeout = timeout
        self._closing = False
        self._failure: Exception | None = None
        self._settled: list[LiveEvent] = []  # of the complete utterances that no reset has voided
        self.last: LiveEvent | None = None
        """The event about the latest complete utterance that no reset has voided."""
        self.result: Result | None = None
        """The result of the whole response, once `finish` or `events` returned it."""

    async def __aenter__(self) -> AsyncLive:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the session, without a result unless `finish` returned it."""
        await self._channel.aclose()

    @property
    def stopped(self) -> bool:
        """Whether the response can no longer become compliant, as far as events have arrived."""
        return self.last is not None and self.last.stop

    async def send(self, text: str) -> None:
        """Appends text to the response. Does not wait for its events."""
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise InputError("the live session is finished: open another one for another response")
        await self._channel.send_text(text)

    async def receive(self, timeout: float | None = None) -> LiveEvent | None:
        """The next event, or None if none arrives within timeout seconds.

        The timeout 0 returns an event only if it has arrived, None waits
        without limit. Also None after the last event of a finished session.
        """
        if self.result is not None:
            return None
        if self._failure is not None:
            raise self._failure
        try:
            message = await self._channel.receive(timeout)
            found = None if message is None else _live.parse(message, self._url)
        except Exception as e:
            self._failure = e
            raise
        if isinstance(found, Result):
            self.result = found
            return None
        if found is not None:
            self._remember(found)
        return found

    def _remember(self, event: LiveEvent) -> None:
        if event.reset:
            del self._settled[event.reset_index :]
        elif event.utterance is not None and not event.utterance.provisional:
            self._settled.append(event)
        self.last = self._settled[-1] if self._settled else None

    async def feed(self, text: str) -> list[LiveEvent]:
        """Appends text to the response; returns the events that have arrived, without waiting."""
        await self.send(text)
        return await self._arrived()

    async def _arrived(self) -> list[LiveEvent]:
        found = []
        while (event := await self.receive(0)) is not None:
            found.append(event)
        return found

    async def events(self, pieces: AsyncIterable[str]) -> AsyncIterator[LiveEvent]:
        """Feeds the pieces of a response, and yields its events until the last one."""
        async for piece in pieces:
            for event in await self.feed(piece):
                yield event
        await self.end()
        while (rest := await self._next()) is not None:
            yield rest

    async def end(self) -> None:
        """Ends the response, after which `receive` returns its last events. Does not wait for them."""
        if not self._closing:
            self._closing = True
            await self._channel.send_close()

    async def finish(self) -> Result:
        """Ends the response and returns its result, which equals that of `AsyncClient.score_one`.

        Skips the events that were not received; `last` is the last of them.
        """
        await self.end()
        while self.result is None:
            await self._next()
        return self.result

    async def _next(self) -> LiveEvent | None:
        """Like `receive`, but None only stands for the end."""
        event = await self.receive(self._timeout)
        if event is None and self.result is None:
            self._failure = APITimeoutError(f"no event from {self._url} within {self._timeout:.1f} s")
            raise self._failure
        return event
