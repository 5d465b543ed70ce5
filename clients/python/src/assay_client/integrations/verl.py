"""verl: custom reward functions.

    custom_reward_function.path=reward.py custom_reward_function.name=compute_score

where reward.py is `from assay_client.integrations.verl import compute_score`.

Follows verl 0.9.1. `compute_score` is what the reward loop awaits;
`compute_score_sync` is for managers that call functions (`naive`, `dapo`), and
`compute_score_batch` for the manager `batch`. verl adds the settings of its
configuration as keyword arguments: `reward`, `aggregate` and `top_k` are taken
as options.

The reward is under `score`. The other keys become columns of numpy arrays, so
that they are the same for every sample and flat; the span is a JSON string.
Leave `compute_score_timeout` unset: verl gives a reward of 0 after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import Options, Result
from ._base import figures, shared_async_client, shared_client, witness

Score = dict[str, Any]


async def compute_score(
    data_source: str,  # noqa: ARG001
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,  # noqa: ARG001
    **settings: Any,
) -> Score:
    """The reward of one response, and why."""
    return _score(await shared_async_client().score_one(solution_str, options=_options(settings)))


def compute_score_sync(
    data_source: str,  # noqa: ARG001
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,  # noqa: ARG001
    **settings: Any,
) -> Score:
    """`compute_score` as a plain function."""
    return _score(shared_client().score_one(solution_str, options=_options(settings)))


def compute_score_batch(
    data_sources: Sequence[str],  # noqa: ARG001
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],  # noqa: ARG001
    extra_infos: Sequence[Any],  # noqa: ARG001
    **settings: Any,
) -> list[Score]:
    """The rewards of a batch."""
    return [_score(r) for r in shared_client().score(list(solution_strs), options=_options(settings))]


def _options(settings: Mapping[str, Any]) -> Options:
    given = {k: settings[k] for k in ("reward", "aggregate", "top_k", "reasoning") if k in settings}
    return Options(instances=False, **given)


def _score(result: Result) -> Score:
    return {"score": result.reward, **figures(result), "witness": witness(result)}
