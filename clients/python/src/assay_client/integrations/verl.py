"""verl: custom reward functions.

    custom_reward_function.path=reward.py custom_reward_function.name=compute_score

reward.py contains `from assay_client.integrations.verl import compute_score`.

Follows verl 0.9.1. The reward loop awaits `compute_score`;
`compute_score_sync` is for the managers `naive` and `dapo`, and
`compute_score_batch` for the manager `batch`. verl passes the settings of its
configuration as keyword arguments, of which `reward`, `aggregate`, `top_k`,
`reasoning`, `aspects`, `combination` and `weights` are used as options. verl does
not pass the prompt; a model that reads it gets `extra_info["prompt"]` if the
dataset has that.

With `aspects: true`, the result has `reward_NAME` and `violation_NAME` for each
aspect (rule) of the model. For GDPO, name them to verl:

    algorithm.adv_estimator=gdpo
    algorithm.gdpo_reward_keys=[reward_rudeness,reward_evasion]

The reward is under `score`. verl turns the other keys into numpy arrays, so
they are flat and the same for every sample; the witness is a JSON string.
Leave `compute_score_timeout` unset: verl assigns a reward of 0 after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import Item, Options, Result
from ._base import metrics, shared_async_client, shared_client, to_item, witness_json

Score = dict[str, Any]


async def compute_score(
    data_source: str,  # noqa: ARG001
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Score:
    """Returns the reward of one response and the evidence for it."""
    return _score(
        await shared_async_client().score_one(_item(solution_str, extra_info), options=_options(settings))
    )


def compute_score_sync(
    data_source: str,  # noqa: ARG001
    solution_str: str,
    ground_truth: Any,  # noqa: ARG001
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Score:
    """The synchronous `compute_score`."""
    return _score(shared_client().score_one(_item(solution_str, extra_info), options=_options(settings)))


def compute_score_batch(
    data_sources: Sequence[str],  # noqa: ARG001
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],  # noqa: ARG001
    extra_infos: Sequence[Any] | None = None,
    **settings: Any,
) -> list[Score]:
    """Like `compute_score`, for a batch."""
    infos = [None] * len(solution_strs) if extra_infos is None else extra_infos
    items = [_item(s, info) for s, info in zip(solution_strs, infos)]
    return [_score(r) for r in shared_client().score(items, options=_options(settings))]


def _item(response: str, extra_info: Any) -> Item:
    prompt = extra_info.get("prompt") if isinstance(extra_info, Mapping) else None
    return to_item(response, prompt if prompt is None or isinstance(prompt, str) else list(prompt))


OPTIONS = ("reward", "aggregate", "top_k", "reasoning", "aspects", "combination", "weights")


def _options(settings: Mapping[str, Any]) -> Options:
    options = {k: settings[k] for k in OPTIONS if k in settings}
    return Options(instances=False, **options)


def _score(result: Result) -> Score:
    return {"score": result.reward, **metrics(result), "witness": witness_json(result)}
