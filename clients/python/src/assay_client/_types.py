"""The values that the clients send and return."""

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
Reasoning = Literal["skip", "score", "skip_opened"]
Dense = Literal["last", "instance", "witness", "shaped"]
Combination = Literal["min", "sum", "lexicographic"]
Label = Literal["compliant", "violation"]

# What to do with an item that cannot be scored: raise, or return NaN or this number as its reward.
OnError = Union[Literal["raise", "nan"], float]
Priority = Literal["interactive", "bulk"]


@dataclass(frozen=True)
class Item:
    """One response to score: exactly one of `response`, `messages` and `instances`.

    Of `messages` (`{"role", "content"}`), those with the role `assistant` are
    scored. `instances` are scored as given, without segmentation. `prompt` is
    context for models trained with it. The result has the same `id`, which
    later feedback refers to as `response_id`; the service generates one if it
    is None. `token_offsets`, for `Options.dense`, are the `[start, end)` spans
    of the policy's tokens in `response`; `assay_client.dense` computes them
    from sampled token ids.
    """

    response: str | None = None
    messages: Sequence[Mapping[str, str]] | None = None
    instances: Sequence[str] | None = None
    prompt: str | None = None
    id: str | None = None
    metadata: Any = None
    token_offsets: Sequence[Sequence[int]] | None = None

    def to_json(self) -> dict[str, Any]:
        return _non_null(self)


ItemLike = Union[str, Item, Mapping[str, Any]]


@dataclass(frozen=True)
class Options:
    """How responses are scored. None selects the default of the service, the first value below.

    `reward`: `compliance` in [0,1], 0.5 exactly at the threshold; `logit`, its
    log-odds in [-20,20]; `raw`, 1 - violation. `aggregate`: `max`, `topk`,
    `noisy_or`, `mean`. `offset_unit`: `codepoint` (the indices of Python
    strings), `utf8`, `utf16`. `instances`: whether results list their
    instances. `reasoning`: `skip` or `score` `<think>` blocks.

    `dense` requests token-level rewards, which sum to the reward: `last`
    assigns all of it to the last token; `instance` assigns the contribution of
    each instance to its last token; `witness` spreads it over the tokens of
    the witness; `shaped` adds potential-based shaping to `last`, which
    preserves the optimal policy, with the discount `gamma` in (0,1]. The
    tokens are those of `Item.token_offsets`, or of `tokenizer`, a tokenizer
    that the service knows by name.

    `aspects`: whether results list the result of each aspect (rule) of the
    model. `combination`, one of `min`, `sum` and `lexicographic`, and
    `weights`, by the name of the aspect, replace how the model combines its
    aspects to one reward.
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
    aspects: bool | None = None
    combination: Combination | None = None
    weights: Mapping[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        fields = _non_null(self)
        if self.weights is not None:
            fields["weights"] = dict(self.weights)  # json encodes no other mapping, such as a DictConfig
        return fields

    def with_defaults(self, defaults: Options) -> Options:
        """These options, with unset ones taken from defaults."""
        return Options(**{**_non_null(defaults), **_non_null(self)})


@dataclass(frozen=True)
class ScoreSettings:
    """The settings that all items of a call share."""

    options: Options
    model: str | None
    priority: Priority | None


def _non_null(value: Any) -> dict[str, Any]:
    return {k: v for k, v in vars(value).items() if v is not None}


@dataclass(frozen=True)
class ModelInfo:
    """The model that scored a response. A version identifies its weights: it is never reused.

    `numerics` identifies the arithmetic: scores of one version with the same
    numerics are equal bit by bit. It is empty where a score may depend on its
    batch.
    """

    name: str
    version: str
    numerics: str = ""


@dataclass(frozen=True)
class Instance:
    """One scored utterance: `[start, end)` in the response, or in message `message`.

    `aspects` has its violations by the name of the aspect if `Options.aspects` is set.
    """

    start: int
    end: int
    violation: float
    message: int | None = None
    aspects: Mapping[str, float] | None = None


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
class AspectResult:
    """The result of one aspect of a model; the fields are as in `Result`."""

    reward: float
    compliant: bool
    violation: float
    threshold: float
    witness: Witness | None


@dataclass(frozen=True)
class Result:
    """The reward of one response and the evidence for it.

    `violation` is in [0,1]; `compliant` is `violation <= threshold`. `witness`
    is None if there was nothing to score (`empty`). `instances` is None if the
    options omit them. `truncated`: the response has more instances than the
    service scores. `raw` is the result as the service sent it.
    `token_rewards` has one number per token if `Options.dense` is set;
    `token_offsets` is set if the service tokenized the response.

    `violation`, `threshold`, `witness` and `instances` are those of the aspect
    that decides: of a model with several, `aspect` is its name. `aspects` has
    the results of all by name if `Options.aspects` is set.
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
    aspect: str | None = None
    aspects: Mapping[str, AspectResult] | None = None

    error: None = None

    @property
    def components(self) -> dict[str, float]:
        """The reward of each aspect, if `Options.aspects` is set."""
        return {name: aspect.reward for name, aspect in (self.aspects or {}).items()}


@dataclass(frozen=True)
class LiveUtterance:
    """A scored utterance of a response that is being written: `[start, end)` of it, in `Options.offset_unit`.

    `index` is its position among the instances of the result. A `provisional`
    one is still open: a later event replaces it. A `violating` one alone is above the
    threshold of the response so far.
    """

    index: int
    start: int
    end: int
    text: str
    violation: float
    provisional: bool = False
    violating: bool = False


@dataclass(frozen=True)
class LiveEvent:
    """What a live session reports for each utterance, in order.

    `violation`, `reward` and `compliant` are those of the response so far.
    `stop`: the response can no longer become compliant, whatever follows. With
    `reset`, the utterances from `reset_index` on are void, since they were
    reasoning; such an event has no utterance, and its reward is NaN. `raw` is
    the event as the service sent it.
    """

    reset: bool
    utterance: LiveUtterance | None
    violation: float
    reward: float
    compliant: bool
    stop: bool
    reset_index: int
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Failure:
    """Takes the place of the result of an item that could not be scored; see `on_error`.

    `reward` is NaN or the number passed as `on_error`.
    """

    reward: float
    error: AssayError


def fallback_reward(on_error: OnError) -> float | None:
    """The reward of an item that cannot be scored; None means raise."""
    if on_error == "raise":
        return None
    if on_error == "nan":
        return math.nan
    if isinstance(on_error, bool) or not isinstance(on_error, (int, float)):
        raise ValueError(f'invalid on_error {on_error!r}: use "raise", "nan" or a number')
    return float(on_error)


@dataclass(frozen=True)
class FeedbackItem:
    """One rater's labels for one whole response.

    `label` speaks of the response as a whole, `labels` of the aspects that it
    names; at least one of them is required.
    Pass the response (`response`, `messages` or `instances`), or only the
    `response_id` of one that the service has scored and retained. Without an
    `id`, the client derives one from the content, so that resending a response
    is a duplicate and a different label by the same rater is a correction.
    """

    label: Label | None = None
    response: str | None = None
    messages: Sequence[Mapping[str, str]] | None = None
    instances: Sequence[str] | None = None
    prompt: str | None = None
    id: str | None = None
    response_id: str | None = None
    rater: str | None = None
    time: str | datetime.datetime | None = None
    labels: Mapping[str, Label] | None = None

    def to_json(self) -> dict[str, Any]:
        fields = _non_null(self)
        if self.time is not None and not isinstance(self.time, str):
            if self.time.tzinfo is None:
                raise ValueError("time has no time zone: use datetime.now(timezone.utc)")
            fields["time"] = self.time.isoformat()
        return fields


@dataclass(frozen=True)
class Rejection:
    """A feedback item that the service rejected. `index` is its position in the input."""

    index: int
    id: str
    code: str
    message: str


@dataclass(frozen=True)
class Receipt:
    """The outcome of sending feedback. Accepted items are durable."""

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
    """A model version. `raw` is its complete record."""

    name: str
    version: str
    threshold: float
    serving: bool
    current: bool
    state: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Current:
    """The version that every replica must serve, and when, by whom and why it was promoted."""

    version: str
    since: str
    by: str
    reason: str
    previous: tuple[str, ...] = ()


@dataclass(frozen=True)
class Training:
    """The state of training, of which at most one run is in progress across all replicas.

    `phase` is `idle` if there is none; `wait` is the reason why none starts
    now. `raw` is the complete state, documented in /openapi.json.
    """

    phase: str
    id: str
    wait: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Candidate:
    """A scored response worth labeling next. Pass its `id` as the `response_id` of the label."""

    id: str
    model: str
    violation: float
    threshold: float
    score: float
    raw: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Event:
    """An event in the life of models, training runs or labels."""

    sequence: int
    kind: str
    time: str
    reason: str
    raw: Mapping[str, Any] = field(repr=False, compare=False)
