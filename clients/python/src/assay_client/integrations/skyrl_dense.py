"""SkyRL: a reward for each token.

    class Generator(SkyRLGymGenerator):
        async def generate(self, input_batch, **kwargs):
            output = await super().generate(input_batch, **kwargs)
            output["rewards"] = await token_rewards(
                self.tokenizer, output["response_ids"], output["loss_masks"]
            )
            return output

Follows SkyRL 0.4 (`skyrl/train/generators/base.py`): `rewards` of what a
generator returns may be a list of floats for each response, as long as its
ids. They replace those of the environment, so that another reward is added by
hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import AsyncClient, Options
from ._base import shared_async_client
from ._tokens import shares, turns


async def token_rewards(
    tokenizer: Any,
    response_ids: Sequence[Sequence[int]],
    loss_masks: Sequence[Sequence[int]] | None = None,
    *,
    options: Options | None = None,
    client: AsyncClient | None = None,
) -> list[list[float]]:
    """A reward for each of the ids of each response.

    Ids whose loss mask is 0 are not scored and get 0: a tool wrote them. A
    response of no other ids has its whole reward at the last one. `options`
    are those of `assay_client.Options`, `dense="instance"` where they name none.
    """
    masks = loss_masks or [[1] * len(ids) for ids in response_ids]
    columns = [[k for k, own in enumerate(mask) if own] for mask in masks]
    asked = [turns(tokenizer, ids, c) for ids, c in zip(response_ids, columns)]
    wanted = (options or Options()).over(Options(dense="instance", instances=False))
    results = await (client or shared_async_client()).score(asked, options=wanted)
    rewards = []
    for ids, c, result in zip(response_ids, columns, results):
        row = shares(result, c)
        row += [0.0] * (len(ids) - len(row))
        if not c and row:
            row[-1] = result.reward
        rewards.append(row)
    return rewards
