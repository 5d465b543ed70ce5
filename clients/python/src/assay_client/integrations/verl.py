"""verl: custom reward functions.

    custom_reward_function.path=reward.py custom_reward_function.name=compute_score

reward.py contains `from assay_client.integrations.verl import compute_score`.

Follows verl 0.9.1. The reward loop awaits `compute_score`;
`compute_score_sync` is for the managers `naive` and `dapo`, and
`compute_score_batch` for the manager `batch`. verl passes the settings of its
configuration as keyword arguments, of which `reward`, `aggregate`, `top_k` and
`reasoning` are used as options.

The reward is under `score`. verl turns the other keys into numpy arrays, so
they are flat and the same for every sample; the witness is a JSON string.
Leave `compute_score_timeout` unset: verl assigns a reward of 0 after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import Options, Result
from ._base import metrics, shared_async_client, shared_client, witness_json

Score = dict[str, Any]


async def compute_score(
    data_source: str,  # noqa: ARG001
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,  # noqa: ARG001
    **settings: Any,
) -> Score:
    """Returns the reward of one response and the evidence for it."""
    return _score(await shared_async_client().score_one(solution_str, options=_options(settings)))


def compute_score_sync(
    data_source: str,  # noqa: ARG001
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,  # noqa: ARG001
    **settings: Any,
) -> Score:
    """The synchronous `compute_score`."""
    return _score(shared_client().score_one(solution_str, options=_options(settings)))


def compute_score_batch(
    data_sources: Sequence[str],  # noqa: ARG001
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],  # noqa: ARG001
    extra_infos: Sequence[Any],  # noqa: ARG001
    **settings: Any,
) -> list[Score]:
    """Like `compute_score`, for a batch."""
    return [_score(r) for r in shared_client().score(list(solution_strs), options=_options(settings))]


def _options(settings: Mapping[str, Any]) -> Options:
    options = {k: settings[k] for k in ("reward", "aggregate", "top_k", "reasoning") if k in settings}
    return Options(instances=False, **options)


def _score(result: Result) -> Score:
    return {"score": result.reward, **metrics(result), "witness": witness_json(result)}
