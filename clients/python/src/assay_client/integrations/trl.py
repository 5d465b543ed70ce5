"""TRL: `GRPOTrainer(reward_funcs=[assay_reward], ...)`, and `RLOOTrainer` alike.

    from assay_client.integrations.trl import AssayReward, assay_reward

    trainer = GRPOTrainer(model=..., reward_funcs=[assay_reward], train_dataset=...)

    client = Client("http://rm:8080")
    trainer = GRPOTrainer(..., reward_funcs=[AssayReward(client, options=Options(reward="logit"))])

Follows TRL 1.16 (`_calculate_rewards` of both trainers): called with
`prompts`, `completions`, `completion_ids`, the columns of the data set,
`trainer_state`, `log_extra` and `log_metric`. Older versions that pass fewer
of them work, too. Completions may be strings or lists of chat messages; the
messages of role assistant are scored. Violation and witness of each completion
go to `log_extra` (the table of completions), their means to `log_metric`.

With `on_error="nan"` a completion without a score gets None. TRL 1.16 leaves it
out of the baseline and of the update where no reward function scored it, but
counts None as 0 beside another reward function that did; older versions may
count it as 0 in any case. Where that is not wanted, keep "raise".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import AsyncClient, Client, Failure, Options, Result
from .._types import OnError
from ._base import Completion, item, shared_async_client, shared_client, witness

LogExtra = Callable[[str, "list[Any]"], None]
LogMetric = Callable[[str, float], None]


class AssayReward:
    """A reward function. Trainers log it under `__name__`."""

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
        self._options = Options(instances=False).over(options or Options())
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
        found = (self._client or shared_client()).score(
            [item(c, p) for c, p in zip(completions, prompts)],
            options=self._options,
            on_error=self._on_error,
            deadline=self._deadline,
        )
        return _told(found, log_extra, log_metric)


class AsyncAssayReward:
    """`AssayReward` that TRL awaits together with other asynchronous reward functions."""

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
        self._options = Options(instances=False).over(options or Options())
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
        found = await (self._client or shared_async_client()).score(
            [item(c, p) for c, p in zip(completions, prompts)],
            options=self._options,
            on_error=self._on_error,
            deadline=self._deadline,
        )
        return _told(found, log_extra, log_metric)


def _told(
    found: Sequence[Result | Failure], log_extra: LogExtra | None, log_metric: LogMetric | None
) -> list[float | None]:
    results = [r for r in found if isinstance(r, Result)]
    if log_extra is not None:
        log_extra("assay_violation", [r.violation if isinstance(r, Result) else None for r in found])
        log_extra("assay_witness", [witness(r) if isinstance(r, Result) else None for r in found])
    if log_metric is not None and results:
        log_metric("assay/violation", sum(r.violation for r in results) / len(results))
        log_metric("assay/compliant", sum(r.compliant for r in results) / len(results))
        log_metric("assay/empty", sum(r.empty for r in results) / len(results))
    return [None if isinstance(r, Failure) and r.reward != r.reward else r.reward for r in found]


def assay_reward(
    prompts: Sequence[Completion], completions: Sequence[Completion], **kwargs: Any
) -> list[float | None]:
    """The compliance reward of each completion."""
    return AssayReward()(prompts, completions, **kwargs)


async def async_assay_reward(
    prompts: Sequence[Completion], completions: Sequence[Completion], **kwargs: Any
) -> list[float | None]:
    """`assay_reward` as a coroutine."""
    return await AsyncAssayReward()(prompts, completions, **kwargs)
