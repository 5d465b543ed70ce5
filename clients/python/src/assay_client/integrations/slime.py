"""slime and miles: `--custom-rm-path assay_client.integrations.slime.reward_func`.

Follows slime's `slime/rollout/rm_hub/__init__.py` and `slime/utils/types.py`
(2026): `await f(args, sample)`, or `await f(args, samples)` with `--group-rm`.
With `--reward-key`, the reward is a dict that holds it under that key.
`sample.metadata["assay"]` receives the witness. `/slime/result` of the service
scores the turns of the assistant in the rollout of an agent, not those of tools
and users.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from .. import AsyncClient, Result
from .._concurrency import AsyncSleep, async_ordered_map
from .._types import ModelInfo
from .._wire import Request, encode_item, parse_result
from ._base import metrics, prompt_text, shared_async_client, witness_json


async def reward_func(args: Any, sample: Any, **_: Any) -> Any:
    """Returns the reward of a sample, or the rewards of a list of samples."""
    is_group = isinstance(sample, (list, tuple))
    samples: Sequence[Any] = sample if is_group else [sample]
    client = shared_async_client()
    scored = async_ordered_map(partial(_score, client), enumerate(samples), client._config.concurrency)
    results = [result async for result in scored]
    rewards = [_reward(args, s, r) for s, r in zip(samples, results)]
    return rewards if is_group else rewards[0]


async def _score(client: AsyncClient, indexed: tuple[int, Any], sleep: AsyncSleep) -> list[Result]:
    index, sample = indexed
    prompt = sample.prompt
    if isinstance(prompt, (list, tuple)):
        prompt = prompt_text(prompt)  # the service refuses images
    body = encode_item({"prompt": prompt, "response": sample.response}, index)
    return [await client._call(Request("POST", "/slime/result", body), _result, sleep=sleep)]


def _result(body: Any) -> Result:
    return parse_result(body, ModelInfo("", "", ""), "codepoint")


def _reward(args: Any, sample: Any, result: Result) -> Any:
    if isinstance(getattr(sample, "metadata", None), dict):
        sample.metadata["assay"] = witness_json(result)
    key = getattr(args, "reward_key", None)
    if not key:
        return result.reward
    return {**metrics(result), key: result.reward}
