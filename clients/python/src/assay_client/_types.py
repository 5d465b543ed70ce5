"""What is sent and what comes back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Union

from ._errors import AssayError, RejectedError

if TYPE_CHECKING:
    import datetime

RewardScale = Literal["compliance", "logit", "raw"]
Aggregate = Literal["max", "topk", "noisy_or", "mean"]
OffsetUnit = Literal["codepoint", "utf8", "utf16"]
Reasoning = Literal["skip", "score"]
Dense = Literal["last", "instance", "witness", "shaped"]
Label = Literal["compliant", "violation"]

# What a reward becomes when it could not be had: an error, NaN, or a value.
OnError = Union[Literal["raise", "nan"], float]
Priority = Literal["interactive", "bulk"]


@dataclass(frozen=True)
class Item:
    """One response to score: exactly one of `response`, `messages` and `instances`.

    Of `messages` (`{"role", "content"}`) those of role `assistant` are scored.
    `instances` are scored as given, never segmented again. `prompt` is context
    for models that were trained with it. `id` comes back in the result and is
    the `response_id` of later feedback; the service makes one where absent.
    `token_offsets`, for `Options.dense`: where each token of the policy lies in
    `response`, `[start, end)`; `assay_client.dense` makes them of sampled ids.
    """

    response: str | None = None
    messages: Sequence[Mapping[str, str]] | None = None
    instances: Sequence[str] | None = None
    prompt: str | None = None
    id: str | None = None
    metadata: Any = None
    token_offsets: Sequence[Sequence[int]] | None = None

    def to_json(self) -> dict[str, Any]:
        return _given(self)


ItemLike = Union[str, Item, Mapping[str, Any]]


@dataclass(frozen=True)
class Options:
    """How responses are scored; None leaves it to the service (first value).

    `reward`: `compliance` in [0,1], 0.5 exactly at the threshold; `logit`, its
    log-odds in [-20,20]; `raw`, 1 - violation. `aggregate`: `max`, `topk`,
    `noisy_or`, `mean`. `offset_unit`: `codepoint` (what Python strings
    index), `utf8`, `utf16`. `instances`: whether results list their instances.
    `reasoning`: `skip` or `score` `<think>` blocks.

    `dense` asks for a reward for each token, which together are the reward:
    `last`, all of it at the last token; `instance`, each instance's share at
    its last token; `witness`, spread over the tokens of the witness; `shaped`,
    `last` with a potential that does not move the optimum, discounted by
    `gamma` in (0,1]. The tokens are `Item.token_offsets`, or those of
    `tokenizer`, one that the service knows by name.
    """

    reward: RewardScale | None = None
    aggregate: Aggregate | None = None
    top_k: int | None = None
    offset_unit: OffsetUnit | None = None
    instances: bool | None = None
    reasoning: Reasoning | None = None
    dense: Dense | None = None
    gamma: float | None = None
    tokenizer: str | None = None

    def to_json(self) -> dict[str, Any]:
        return _given(self)

    def over(self, other: Options) -> Options:
        """These options, and those of other where these say nothing."""
        return Options(**{**_given(other), **_given(self)})


@dataclass(frozen=True)
class Asked:
    """What is said of all items of a call."""

    options: Options
    model: str | None
    priority: Priority | None


def _given(value: Any) -> dict[str, Any]:
    return {k: v for k, v in vars(value).items() if v is not None}


@dataclass(frozen=True)
class ModelInfo:
    """The model that scored. A version is never used twice for other weights."""

    name: str
    version: str


@dataclass(frozen=True)
class Instance:
    """One scored utterance: `[start, end)` in the response, or in message `message`."""

    start: int
    end: int
    violation: float
    message: int | None = None


@dataclass(frozen=True)
class Witness:
    """The instance with the largest violation, and its text."""

    index: int
    start: int
    end: int
    text: str
    violation: float
    message: int | None = None


@dataclass(frozen=True)
class Result:
    """The reward of one response, with the reason for it.

    `violation` is in [0,1], `compliant` is `violation <= threshold`. `witness`
    is None where there was nothing to score (`empty`). `instances` is None
    where the options left it out. `truncated`: the response had more instances
    than the service scores. `raw` is the result as the service sent it.
    `token_rewards` has one number a token where `Options.dense` asked for
    them, and `token_offsets` where the service made the tokens, too.
    """

    id: str
    reward: float
    compliant: bool
    violation: float
    threshold: float
    witness: Witness | None
    instances: tuple[Instance, ...] | None
    truncated: bool
    empty: bool
    model: ModelInfo
    offset_unit: OffsetUnit
    raw: Mapping[str, Any] = field(repr=False, compare=False)
    token_rewards: tuple[float, ...] | None = None
    token_offsets: tuple[tuple[int, int], ...] | None = None

    error: None = None


@dataclass(frozen=True)
class Failure:
    """Stands for the result of an item that could not be scored, where that was asked for.

    `reward` is NaN or the value that `on_error` names.
    """

    reward: float
    error: AssayError


def substitute(on_error: OnError) -> float | None:
    """The reward of a failure; None: raise."""
    if on_error == "raise":
        return None
    if on_error == "nan":
        return math.nan
    if isinstance(on_error, bool) or not isinstance(on_error, (int, float)):
        raise ValueError(f'on_error is {on_error!r}; use "raise", "nan" or a number')
    return float(on_error)


@dataclass(frozen=True)
class FeedbackItem:
    """The label of one rater on one whole response.

    Give the response (`response`, `messages` or `instances`), or only the
    `response_id` of one that the service has scored and keeps. Without an
    `id` the client makes one of the content: the same response sent again is
    a duplicate, and another label of the same rater a correction.
    """

    label: Label
    response: str | None = None
    messages: Sequence[Mapping[str, str]] | None = None
    instances: Sequence[str] | None = None
    prompt: str | None = None
    id: str | None = None
    response_id: str | None = None
    rater: str | None = None
    time: str | datetime.datetime | None = None

    def to_json(self) -> dict[str, Any]:
        given = _given(self)
        if self.time is not None and not isinstance(self.time, str):
            if self.time.tzinfo is None:
                raise ValueError("time has no time zone; use datetime.now(timezone.utc)")
            given["time"] = self.time.isoformat()
        return given


@dataclass(frozen=True)
class Rejection:
    """An item of feedback that was not taken: `index` is its position among those that were passed."""

    index: int
    id: str
    code: str
    message: str


@dataclass(frozen=True)
class Receipt:
    """What became of feedback. What counts as accepted is durable."""

    accepted: int = 0
    duplicates: int = 0
    rejected: tuple[Rejection, ...] = ()

    def raise_for_rejected(self) -> Receipt:
        """Raises `RejectedError` if an item was rejected."""
        if self.rejected:
            first = self.rejected[0]
            raise RejectedError(
                f"{len(self.rejected)} items were rejected; the first is item {first.index}"
                f" ({first.id}): {first.code}: {first.message}"
            )
        return self


@dataclass(frozen=True)
class Model:
    """A model version. `raw` has all that the service tells of it."""

    name: str
    version: str
    threshold: float
    serving: bool
    current: bool
    state: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Current:
    """The version that every replica is to serve, since when, by whom and why."""

    version: str
    since: str
    by: str
    reason: str
    previous: tuple[str, ...] = ()


@dataclass(frozen=True)
class Training:
    """The one training of all replicas. `phase` is `idle` when there is none.

    `wait` says why none starts now. `raw` has the rest, as the service's
    /openapi.json describes it.
    """

    phase: str
    id: str
    wait: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Candidate:
    """A scored response that somebody should label next; `id` is the `response_id` of its label."""

    id: str
    model: str
    violation: float
    threshold: float
    score: float
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Event:
    """Something that happened to models, trainings or labels."""

    sequence: int
    kind: str
    time: str
    reason: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)
