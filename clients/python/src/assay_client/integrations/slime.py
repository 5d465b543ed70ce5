"""slime and miles: `--custom-rm-path assay_client.integrations.slime.reward_func`.

Follows slime's `slime/rollout/rm_hub/__init__.py` and `slime/utils/types.py`
(2026): `await f(args, sample)`, or `await f(args, samples)` with `--group-rm`.
With `--reward-key`, the reward is a dict that holds it under that key.
`sample.metadata["assay"]` receives the witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import Item, Options, Result
from ._base import metrics, shared_async_client, strip_special_tokens, to_item, witness_json


async def reward_func(args: Any, sample: Any, **_: Any) -> Any:
    """Returns the reward of a sample, or the rewards of a list of samples."""
    is_group = isinstance(sample, (list, tuple))
    samples: Sequence[Any] = sample if is_group else [sample]
    results = await shared_async_client().score([_item(s) for s in samples], options=Options(instances=False))
    rewards = [_reward(args, s, r) for s, r in zip(samples, results)]
    return rewards if is_group else rewards[0]


def _item(sample: Any) -> Item:
    return to_item(strip_special_tokens(sample.response), sample.prompt)


def _reward(args: Any, sample: Any, result: Result) -> Any:
    if isinstance(getattr(sample, "metadata", None), dict):
        sample.metadata["assay"] = witness_json(result)
    key = getattr(args, "reward_key", None)
    if not key:
        return result.reward
    return {**metrics(result), key: result.reward}
