"""verl: a reward for each token, as a reward manager.

    reward.reward_manager.source=importlib
    reward.reward_manager.name=AssayRewardManager
    reward.reward_manager.module.path=pkg://assay_client.integrations.verl_dense
    +reward.reward_kwargs.dense=instance
    actor_rollout_ref.rollout.agent.agent_loop_manager_class=assay_client.integrations.verl_loop.AssayAgentLoopManager

Follows verl 0.9.1. `reward.reward_kwargs` may hold `dense` (`instance` where it
says nothing), `gamma`, `reward`, `aggregate`, `top_k` and `reasoning`, as
`assay_client.Options` has them; a custom reward function is not asked.

Where verl scores whole batches, `assemble_rm_scores` makes the tensor
[batch, response length]. Where the agent loop has each sample scored as soon
as it is done, which is the default, it keeps one number a sample at the last
token: the agent loop manager of the last line keeps all of them. Without it
rewards are the same, and sparse.

Tokens that the policy did not write (padding, and what a tool answered, where
the mask of the response is known) are not scored and get no reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from verl import DataProto
from verl.experimental.reward_loop.reward_manager import register
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
from verl.workers.reward_manager import register as register_batch
from verl.workers.reward_manager.abstract import AbstractRewardManager

from .. import Item, Options, Result
from ._base import figures, plain, shared_async_client, shared_client, witness
from ._tokens import shares, turns


class TokenReward(float):
    """A reward that knows its shares: `tokens` has one for each column of the response, up to the last.

    verl hands it on as the number that it is.
    """

    tokens: tuple[float, ...]

    def __new__(cls, reward: float, tokens: Sequence[float]) -> TokenReward:
        made = super().__new__(cls, reward)
        made.tokens = tuple(tokens)
        return made

    def __getnewargs__(self) -> tuple[float, tuple[float, ...]]:  # type: ignore[override]
        return float(self), self.tokens


@register("assay")
class AssayRewardManager(RewardManagerBase):
    """The manager of the reward loop."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any = None,
        reward_router_address: str | None = None,  # noqa: ARG002
        reward_model_tokenizer: Any = None,  # noqa: ARG002
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        self._options = _options(config.reward.get("reward_kwargs") or {})

    async def run_single(self, data: DataProto) -> dict[str, Any]:
        """The reward of the last sample of data, and why."""
        sample = data[-1:][0]
        columns = written(sample)
        asked = await self.loop.run_in_executor(None, lambda: as_item(self.tokenizer, sample, columns))
        result = await shared_async_client().score_one(asked, options=self._options)
        return {"reward_score": token_reward(result, columns), "reward_extra_info": _explained(result)}

    @classmethod
    def assemble_rm_scores(cls, data: DataProto, scores: Sequence[float]) -> torch.Tensor:
        """Rewards [batch, response length]."""
        made = RewardManagerBase.assemble_rm_scores(data, [float(s) for s in scores])
        return spread(made, scores)


@register_batch("assay")
class AssayBatchRewardManager(AbstractRewardManager):
    """The manager of trainers that call one with a whole batch: `reward_kwargs` are its keyword arguments."""

    def __init__(
        self,
        tokenizer: Any,
        num_examine: int = 0,  # noqa: ARG002
        compute_score: Any = None,  # noqa: ARG002
        reward_fn_key: str = "data_source",  # noqa: ARG002
        **reward_kwargs: Any,
    ) -> None:
        self.tokenizer = tokenizer
        self._options = _options(reward_kwargs)

    def __call__(self, data: DataProto, return_dict: bool = False) -> torch.Tensor | dict[str, Any]:
        known = self._extract_reward_from_rm_scores(data, return_dict)
        if known is not None:
            return known
        samples = [data[k] for k in range(len(data))]
        columns = [written(s) for s in samples]
        asked = [as_item(self.tokenizer, s, c) for s, c in zip(samples, columns)]
        results = shared_client().score(asked, options=self._options)
        scores = [token_reward(r, c) for r, c in zip(results, columns)]
        rewards = AssayRewardManager.assemble_rm_scores(data, scores)
        if not return_dict:
            return rewards
        info = [_explained(r) for r in results]
        return {
            "reward_tensor": rewards,
            "reward_extra_info": {k: [i[k] for i in info] for k in info[0]} if info else {},
        }


def _options(settings: Mapping[str, Any]) -> Options:
    names = ("dense", "gamma", "reward", "aggregate", "top_k", "reasoning")
    given = {k: settings[k] for k in names if settings.get(k) is not None}
    return Options(instances=False, **{"dense": "instance", **given})


def written(sample: Any) -> list[int]:
    """The columns of the response that hold tokens of the policy."""
    width = sample.batch["responses"].shape[-1]
    columns: list[int] = torch.nonzero(sample.batch["attention_mask"][-width:]).flatten().tolist()
    own = sample.batch.get("response_mask", None)
    if own is None:
        own = sample.non_tensor_batch.get("response_mask")
    if own is None:
        return columns
    return [c for c in columns if c < len(own) and own[c]]


def as_item(tokenizer: Any, sample: Any, columns: Sequence[int]) -> Item:
    """What the policy wrote."""
    prompt = sample.non_tensor_batch.get("raw_prompt")
    if prompt is not None:
        prompt = plain(prompt if isinstance(prompt, str) else list(prompt))
    return turns(tokenizer, sample.batch["responses"].tolist(), columns, prompt)


def token_reward(result: Result, columns: Sequence[int]) -> TokenReward:
    """The reward of a result, whose tokens stand in columns."""
    return TokenReward(result.reward, shares(result, columns))


def spread(rewards: torch.Tensor, scores: Sequence[float]) -> torch.Tensor:
    """rewards [batch, response length] with the shares of scores instead of their sum at the last token.

    A response without a token of the policy keeps its reward where verl put it.
    """
    for row, score in zip(rewards, scores):
        tokens = getattr(score, "tokens", ())
        if tokens:
            row.zero_()
            row[: len(tokens)] = row.new_tensor(tokens)
    return rewards


def _explained(result: Result) -> dict[str, Any]:
    return {"score": result.reward, **figures(result), "witness": witness(result)}
