"""slime and miles: `--custom-rm-path assay_client.integrations.slime.reward_func`.

Follows slime's `slime/rollout/rm_hub/__init__.py` and `slime/utils/types.py`
(2026): `await f(args, sample)`, or `await f(args, samples)` with
`--group-rm`. With `--reward-key` the reward is a dict that has it under that
key. The span goes to `sample.metadata["assay"]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import Item, Options, Result
from ._base import figures, item, shared_async_client, without_end, witness


async def reward_func(args: Any, sample: Any, **_: Any) -> Any:
    """The reward of a sample, or the rewards of a list of samples."""
    many = isinstance(sample, (list, tuple))
    samples: Sequence[Any] = sample if many else [sample]
    found = await shared_async_client().score([_item(s) for s in samples], options=Options(instances=False))
    rewards = [_reward(args, s, r) for s, r in zip(samples, found)]
    return rewards if many else rewards[0]


def _item(sample: Any) -> Item:
    return item(without_end(sample.response), sample.prompt)


def _reward(args: Any, sample: Any, result: Result) -> Any:
    if isinstance(getattr(sample, "metadata", None), dict):
        sample.metadata["assay"] = witness(result)
    key = getattr(args, "reward_key", None)
    if not key:
        return result.reward
    return {**figures(result), key: result.reward}
