"""TRL: `GRPOTrainer(reward_funcs=[assay_reward], ...)`, and likewise `RLOOTrainer`.

    from assay_client.integrations.trl import AssayReward, assay_reward

    trainer = GRPOTrainer(model=..., reward_funcs=[assay_reward], train_dataset=...)

    client = Client("http://rm:8080")
    trainer = GRPOTrainer(..., reward_funcs=[AssayReward(client, options=Options(reward="logit"))])

A model with several aspects (rules) gives one reward function per aspect, all
of which share one request per batch:

    trainer = GRPOTrainer(
        ...,
        reward_funcs=aspect_rewards(["rudeness", "evasion"], client),
        args=GRPOConfig(multi_objective_aggregation="normalize_then_sum", ...),  # GDPO
    )

Follows TRL 1.16 (`_calculate_rewards` of both trainers), which calls the
function with `prompts`, `completions`, `completion_ids`, the columns of the
dataset, `trainer_state`, `log_extra` and `log_metric`. Older versions that
pass fewer arguments work too. Completions may be strings or lists of chat
messages, of which those with the role assistant are scored. The violation and
witness of each completion are logged with `log_extra` (the table of
completions), their means with `log_metric`.

With `on_error="nan"`, the reward of a completion that cannot be scored is
None. TRL 1.16 excludes it from the baseline and from the update if no reward
function scored it, but counts None as 0 if another reward function did; older
versions may always count it as 0. To avoid that, keep "raise".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import AsyncClient, Client, Failure, Item, Options, Result
from .._types import OnError
from ._base import (
    Completion,
    SharedBatch,
    component,
    shared_async_client,
    shared_client,
    to_item,
    witness_json,
)

LogExtra = Callable[[str, "list[Any]"], None]
LogMetric = Callable[[str, float], None]


class AssayReward:
    """A reward function, which trainers log as `__name__`."""

    def __init__(
        self,
        client: Client | None = None,
        *,
        options: Options | None = None,
        on_error: OnError = "raise",
        deadline: float | None = None,
        name: str = "assay_reward",
    ) -> None:
        self.__name__ = name
        self._client = client
        self._options = Options(instances=False).with_defaults(options or Options())
        self._on_error: OnError = on_error
        self._deadline = deadline

    def __call__(
        self,
        prompts: Sequence[Completion],
        completions: Sequence[Completion],
        *,
        log_extra: LogExtra | None = None,
        log_metric: LogMetric | None = None,
        **_: Any,
    ) -> list[float | None]:
        outcomes = (self._client or shared_client()).score(
            [to_item(c, p) for c, p in zip(completions, prompts)],
            options=self._options,
            on_error=self._on_error,
            deadline=self._deadline,
        )
        return _log_and_unwrap(outcomes, log_extra, log_metric)


class AsyncAssayReward:
    """The asynchronous `AssayReward`, which TRL runs concurrently with other asynchronous functions."""

    def __init__(
        self,
        client: AsyncClient | None = None,
        *,
        options: Options | None = None,
        on_error: OnError = "raise",
        deadline: float | None = None,
        name: str = "assay_reward",
    ) -> None:
        self.__name__ = name
        self._client = client
        self._options = Options(instances=False).with_defaults(options or Options())
        self._on_error: OnError = on_error
        self._deadline = deadline

    async def __call__(
        self,
        prompts: Sequence[Completion],
        completions: Sequence[Completion],
        *,
        log_extra: LogExtra | None = None,
        log_metric: LogMetric | None = None,
        **_: Any,
    ) -> list[float | None]:
        outcomes = await (self._client or shared_async_client()).score(
            [to_item(c, p) for c, p in zip(completions, prompts)],
            options=self._options,
            on_error=self._on_error,
            deadline=self._deadline,
        )
        return _log_and_unwrap(outcomes, log_extra, log_metric)


class AspectReward:
    """The reward of one aspect, from the request that `aspect_rewards` shares."""

    def __init__(self, aspect: str, batch: SharedBatch) -> None:
        self.__name__ = f"assay_{aspect}"
        self._aspect = aspect
        self._batch = batch

    def __call__(
        self,
        prompts: Sequence[Completion],
        completions: Sequence[Completion],
        *,
        log_extra: LogExtra | None = None,
        log_metric: LogMetric | None = None,
        **_: Any,
    ) -> list[float | None]:
        items = [to_item(c, p) for c, p in zip(completions, prompts)]
        outcomes = self._batch.outcomes(self._aspect, items)
        rewards = [_reward(o, component(o, self._aspect)) for o in outcomes]
        aspects = [o.aspects[self._aspect] if isinstance(o, Result) and o.aspects else None for o in outcomes]
        scored = [a for a in aspects if a is not None]
        if log_extra is not None:
            log_extra(f"{self.__name__}_violation", [a and a.violation for a in aspects])
            log_extra(
                f"{self.__name__}_witness", [a.witness.text if a and a.witness else None for a in aspects]
            )
        if log_metric is not None and scored:
            log_metric(f"assay/{self._aspect}/violation", sum(a.violation for a in scored) / len(scored))
            log_metric(f"assay/{self._aspect}/compliant", sum(a.compliant for a in scored) / len(scored))
        return rewards


def aspect_rewards(
    aspects: Sequence[str],
    client: Client | None = None,
    *,
    options: Options | None = None,
    on_error: OnError = "raise",
    deadline: float | None = None,
) -> list[AspectReward]:
    """One reward function for each of the aspects, which together send one request per batch."""
    settings = Options(instances=False, aspects=True).with_defaults(options or Options())
    batch = SharedBatch(partial(_score, client, options=settings, on_error=on_error, deadline=deadline))
    return [AspectReward(aspect, batch) for aspect in aspects]


def _score(client: Client | None, items: Sequence[Item], **settings: Any) -> Sequence[Result | Failure]:
    """Scores a batch; a function of the module, so that TRL can pickle what uses it."""
    return (client or shared_client()).score(items, **settings)


def _reward(outcome: Result | Failure, reward: float) -> float | None:
    """The reward; None for a failure of reward NaN."""
    return None if isinstance(outcome, Failure) and reward != reward else reward


def _log_and_unwrap(
    outcomes: Sequence[Result | Failure], log_extra: LogExtra | None, log_metric: LogMetric | None
) -> list[float | None]:
    """Logs violations and witnesses; returns the rewards."""
    results = [r for r in outcomes if isinstance(r, Result)]
    if log_extra is not None:
        log_extra("assay_violation", [r.violation if isinstance(r, Result) else None for r in outcomes])
        log_extra("assay_witness", [witness_json(r) if isinstance(r, Result) else None for r in outcomes])
    if log_metric is not None and results:
        log_metric("assay/violation", sum(r.violation for r in results) / len(results))
        log_metric("assay/compliant", sum(r.compliant for r in results) / len(results))
        log_metric("assay/empty", sum(r.empty for r in results) / len(results))
    return [_reward(r, r.reward) for r in outcomes]


def assay_reward(
    prompts: Sequence[Completion], completions: Sequence[Completion], **kwargs: Any
) -> list[float | None]:
    """Returns the compliance reward of each completion."""
    return AssayReward()(prompts, completions, **kwargs)


async def async_assay_reward(
    prompts: Sequence[Completion], completions: Sequence[Completion], **kwargs: Any
) -> list[float | None]:
    """The asynchronous `assay_reward`."""
    return await AsyncAssayReward()(prompts, completions, **kwargs)
