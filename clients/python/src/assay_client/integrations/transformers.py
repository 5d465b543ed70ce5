"""transformers: stops each sequence of a batch that violates the policy.

    from assay_client.integrations.transformers import AssayStoppingCriteria

    eos = model.generation_config.eos_token_id
    with AssayStoppingCriteria(tokenizer, client, eos_token_ids=eos) as criteria:
        ids = model.generate(**inputs, stopping_criteria=[criteria])
        for outcome in criteria.finish():
            ...  # ids[row, prompt : prompt + outcome.tokens] are the tokens to keep

Follows transformers 5.23 (`GenerationMixin.generate`): sampling and greedy
search, not beam search or assisted generation, which reorder or withdraw tokens.
One instance serves one call of `generate`. Padding follows a stopped sequence,
and no end-of-sequence token: use `outcome.tokens` to cut it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from transformers import StoppingCriteria

from .. import Client, Live, LiveEvent, Options
from ._base import shared_client
from .early_stopping import (
    FINISH_REASON,
    UNAVAILABLE,
    TokenDecoder,
    Watch,
    When,
    end_of_sequence,
    live_options,
    log,
    violation,
)

# Each sequence is sent, and its verdicts are read, once per so many tokens: what
# one token costs the client, for all sequences of a batch, would otherwise be a
# good part of a small policy's time per token. Where a sequence is cut does not
# depend on it.
TOKENS_PER_MESSAGE = 8


@dataclass(frozen=True)
class Outcome:
    """The end of one sequence: `tokens` of its completion are to be kept.

    `finish_reason` is `content_filter` if it was stopped, else `stop` or
    `length`. `reward` is that of the text of these tokens, None if the service
    was unavailable.
    """

    tokens: int
    finish_reason: str
    reward: float | None

    @property
    def stopped(self) -> bool:
        return self.finish_reason == FINISH_REASON


class AssayStoppingCriteria(StoppingCriteria):
    """Stops sequences by the verdicts of live sessions, one for each.

    `prompts` are the prompts of the sequences, as context for models trained
    with it. `eos_token_ids` end a sequence (default: that of the tokenizer);
    chat models often have others: pass `model.generation_config.eos_token_id`.
    """

    def __init__(
        self,
        tokenizer: Any,
        client: Client | None = None,
        *,
        prompts: Sequence[str] | None = None,
        options: Options | None = None,
        model: str | None = None,
        when: When = violation,
        eos_token_ids: int | Collection[int] | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._client = client or shared_client()
        self._prompts = prompts
        self._settings: dict[str, Any] = {"options": live_options(options), "model": model}
        self._when = when
        self._eos = end_of_sequence(tokenizer, eos_token_ids)
        self._sessions = contextlib.ExitStack()
        self._rows: list[_Row] = []
        self._seen = 0

    def __enter__(self) -> AssayStoppingCriteria:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sessions.close()

    def __call__(self, input_ids: torch.Tensor, _scores: Any = None, **_: Any) -> torch.Tensor:
        if not self._rows:
            self._begin(len(input_ids), input_ids.shape[1] - 1)
        new = input_ids[:, self._seen :].tolist()
        self._seen = input_ids.shape[1]
        for row, ids in zip(self._rows, new):
            row.push(ids, self._eos)
        return torch.tensor([row.done for row in self._rows], device=input_ids.device)

    def _begin(self, batch: int, seen: int) -> None:
        prompts: Sequence[str | None] = self._prompts or [None] * batch
        if len(prompts) != batch:
            raise ValueError(f"{len(prompts)} prompts for {batch} sequences")
        self._seen = seen  # the first call comes after the first token
        for prompt in prompts:
            # Where one was refused for the whole time of the retries, the next would wait as long in vain.
            failed = bool(self._rows) and self._rows[-1].failed
            live, decoder = None if failed else self._open(prompt), TokenDecoder(self._tokenizer)
            self._rows.append(_Row(prompt, live, decoder, Watch(self._when)))

    def _open(self, prompt: str | None) -> Live | None:
        try:
            return self._sessions.enter_context(self._client.live(prompt=prompt, **self._settings))
        except UNAVAILABLE as e:
            _warn(e)
            return None

    def finish(self, *, rewards: bool = True) -> list[Outcome]:
        """Waits for the remaining verdicts; returns the outcome of each sequence.

        Without `rewards`, the stopped ones have none, which saves scoring what
        is kept of them.
        """
        for row in self._rows:
            row.end()
        for row in self._rows:
            row.wait()
        for row in self._rows:
            if row.stopped:
                row.close()  # before it needs another place for a session
                if rewards:
                    row.score_kept(self._open(row.prompt))
        outcomes = [row.outcome() for row in self._rows]
        self._sessions.close()
        return outcomes


def _warn(error: Exception) -> None:
    log.warning("a rollout continues without its live session: %s", error)


class _Row:
    """One sequence."""

    def __init__(self, prompt: str | None, live: Live | None, decoder: TokenDecoder, watch: Watch) -> None:
        self.prompt = prompt
        self._live = live
        self._decoder = decoder
        self._watch = watch
        self._tokens = 0
        self._unsent = ""
        self._complete = False

    @property
    def stopped(self) -> bool:
        return self._watch.stopped

    @property
    def failed(self) -> bool:
        return self._live is None

    @property
    def done(self) -> bool:
        return self._complete or self.stopped

    def push(self, ids: Sequence[int], eos: Collection[int]) -> None:
        if self.done:
            return
        for id in ids:
            self._tokens += 1
            text = "" if id in eos else self._decoder.push(id)
            self._watch.append(text)
            self._unsent += text
            if id in eos:
                self._complete = True
                break
        if self._complete:
            self.end()
        elif self._tokens % TOKENS_PER_MESSAGE == 0:
            self._feed()

    def _feed(self) -> None:
        piece, self._unsent = self._unsent, ""
        if self._live is None or not piece:
            return
        try:
            self._observe(self._live.feed(piece))
        except UNAVAILABLE as e:
            self._fail(e)

    def _observe(self, events: Sequence[LiveEvent]) -> None:
        for event in events:
            self._watch.observe(event)

    def end(self) -> None:
        """Ends the response, without waiting for its last verdicts."""
        if self._live is None or self.stopped:
            return
        rest = self._decoder.flush()
        self._watch.append(rest, 0)
        self._unsent += rest
        self._feed()
        try:
            if self._live is not None:
                self._live.end()
        except UNAVAILABLE as e:
            self._fail(e)

    def wait(self) -> None:
        """Waits for the verdicts that may still stop the sequence."""
        if self._live is None or self.stopped:
            return
        try:
            for event in self._live.events(()):  # within the timeout of the client
                self._watch.observe(event)
                if self.stopped:
                    break
        except UNAVAILABLE as e:
            self._fail(e)

    def close(self) -> None:
        """Ends the session."""
        if self._live is not None:
            self._live.close()
        self._live = None

    def score_kept(self, live: Live | None) -> None:
        """Begins to score the text that is kept in a session of its own: the first one received more."""
        self._live = live
        if live is None:
            return
        try:
            live.send(self._watch.kept_text())
            live.end()
        except UNAVAILABLE as e:
            self._fail(e)

    def outcome(self) -> Outcome:
        result = None
        try:
            if self._live is not None:
                result = self._live.finish()
        except UNAVAILABLE as e:
            self._fail(e)
        reason = FINISH_REASON if self.stopped else "stop" if self._complete else "length"
        return Outcome(self._watch.kept(), reason, None if result is None else result.reward)

    def _fail(self, error: Exception) -> None:
        self._live = None
        _warn(error)
