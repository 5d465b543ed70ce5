"""SkyRL: token-level rewards.

    class Generator(SkyRLGymGenerator):
        async def generate(self, input_batch, **kwargs):
            output = await super().generate(input_batch, **kwargs)
            output["rewards"] = await token_rewards(
                self.tokenizer, output["response_ids"], output["loss_masks"], prompts=input_batch["prompts"]
            )
            return output

Follows SkyRL 0.4 (`skyrl/train/generators/base.py`): `rewards` of a generator's
output may be a list of floats per response, one per token id. They replace the
rewards of the environment; add any other reward yourself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import AsyncClient, Options
from ._base import Completion, prompt_text, shared_async_client
from ._tokens import column_rewards, to_token_item


async def token_rewards(
    tokenizer: Any,
    response_ids: Sequence[Sequence[int]],
    loss_masks: Sequence[Sequence[int]] | None = None,
    *,
    prompts: Sequence[Completion] | None = None,
    options: Options | None = None,
    client: AsyncClient | None = None,
) -> list[list[float]]:
    """Returns a reward per token id, for each response.

    Ids with a loss mask of 0, such as tool output, are not scored and get 0. A
    response without any other ids gets its whole reward at the last id. The
    default of `options.dense` is `instance`.
    """
    masks = loss_masks or [[1] * len(ids) for ids in response_ids]
    columns = [[k for k, is_policy in enumerate(mask) if is_policy] for mask in masks]
    contexts = [None] * len(columns) if prompts is None else [prompt_text(p) for p in prompts]
    items = [to_token_item(tokenizer, ids, c, p) for ids, c, p in zip(response_ids, columns, contexts)]
    settings = (options or Options()).with_defaults(Options(dense="instance", instances=False))
    results = await (client or shared_async_client()).score(items, options=settings)
    rewards = []
    for ids, c, result in zip(response_ids, columns, results):
        row = column_rewards(result, c)
        row += [0.0] * (len(ids) - len(row))
        if not c and row:
            row[-1] = result.reward
        rewards.append(row)
    return rewards
