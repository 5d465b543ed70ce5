"""verl: token-level rewards, as a reward manager.

    reward.reward_manager.source=importlib
    reward.reward_manager.name=AssayRewardManager
    reward.reward_manager.module.path=pkg://assay_client.integrations.verl_dense
    +reward.reward_kwargs.dense=instance
    actor_rollout_ref.rollout.agent.agent_loop_manager_class=assay_client.integrations.verl_loop.AssayAgentLoopManager

Follows verl 0.9.1. `reward.reward_kwargs` may set `dense` (default
`instance`), `gamma` and the options of `assay_client.integrations.verl`; see
`assay_client.Options`. A custom reward function is not called.

If verl scores whole batches, `assemble_rm_scores` builds the tensor [batch,
response length]. If the agent loop scores each sample as soon as it is
complete, which is the default, verl keeps one number per sample at the last
token; the agent loop manager of the last line keeps all token rewards. Without
it, the rewards are the same but sparse.

Tokens that the policy did not write (padding, and tool output if the response
mask is known) are not scored and get no reward.
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
from ._base import metrics, prompt_text, shared_async_client, shared_client, witness_json
from ._tokens import column_rewards, to_token_item
from .verl import OPTIONS


class TokenReward(float):
    """A reward with its token rewards: one per column of the response, up to the last scored one.

    verl passes it through as a float.
    """

    tokens: tuple[float, ...]

    def __new__(cls, reward: float, tokens: Sequence[float]) -> TokenReward:
        value = super().__new__(cls, reward)
        value.tokens = tuple(tokens)
        return value

    def __getnewargs__(self) -> tuple[float, tuple[float, ...]]:  # type: ignore[override]
        return float(self), self.tokens


@register("assay")
class AssayRewardManager(RewardManagerBase):
    """The reward manager of the reward loop."""

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
        """Returns the reward of the last sample of data and the evidence for it."""
        sample = data[-1:][0]
        columns = policy_columns(sample)
        item = await self.loop.run_in_executor(None, lambda: sample_item(self.tokenizer, sample, columns))
        result = await shared_async_client().score_one(item, options=self._options)
        return {"reward_score": token_reward(result, columns), "reward_extra_info": _extra_info(result)}

    @classmethod
    def assemble_rm_scores(cls, data: DataProto, scores: Sequence[float]) -> torch.Tensor:
        """Returns token-level rewards [batch, response length]."""
        rewards = RewardManagerBase.assemble_rm_scores(data, [float(s) for s in scores])
        return scatter(rewards, scores)


@register_batch("assay")
class AssayBatchRewardManager(AbstractRewardManager):
    """The reward manager of trainers that score whole batches, configured by `reward_kwargs`."""

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
        precomputed = self._extract_reward_from_rm_scores(data, return_dict)
        if precomputed is not None:
            return precomputed
        samples = [data[k] for k in range(len(data))]
        columns = [policy_columns(s) for s in samples]
        items = [sample_item(self.tokenizer, s, c) for s, c in zip(samples, columns)]
        results = shared_client().score(items, options=self._options)
        scores = [token_reward(r, c) for r, c in zip(results, columns)]
        rewards = AssayRewardManager.assemble_rm_scores(data, scores)
        if not return_dict:
            return rewards
        info = [_extra_info(r) for r in results]
        return {
            "reward_tensor": rewards,
            "reward_extra_info": {k: [i[k] for i in info] for k in info[0]} if info else {},
        }


def _options(settings: Mapping[str, Any]) -> Options:
    options = {k: settings[k] for k in ("dense", "gamma", *OPTIONS) if settings.get(k) is not None}
    return Options(instances=False, **{"dense": "instance", **options})


def policy_columns(sample: Any) -> list[int]:
    """The columns of the response whose tokens the policy wrote."""
    width = sample.batch["responses"].shape[-1]
    columns: list[int] = torch.nonzero(sample.batch["attention_mask"][-width:]).flatten().tolist()
    mask = sample.batch.get("response_mask", None)
    if mask is None:
        mask = sample.non_tensor_batch.get("response_mask")
    if mask is None:
        return columns
    return [c for c in columns if c < len(mask) and mask[c]]


def sample_item(tokenizer: Any, sample: Any, columns: Sequence[int]) -> Item:
    """The item for the tokens of a sample that the policy wrote."""
    prompt = sample.non_tensor_batch.get("raw_prompt")
    if prompt is not None:
        prompt = prompt_text(prompt if isinstance(prompt, str) else list(prompt))
    return to_token_item(tokenizer, sample.batch["responses"].tolist(), columns, prompt)


def token_reward(result: Result, columns: Sequence[int]) -> TokenReward:
    """The reward of a result whose tokens are in these columns."""
    return TokenReward(result.reward, column_rewards(result, columns))


def scatter(rewards: torch.Tensor, scores: Sequence[float]) -> torch.Tensor:
    """Replaces the rewards at the last tokens, [batch, response length], by the token rewards of scores.

    A response without tokens of the policy keeps the reward where verl put it.
    """
    for row, score in zip(rewards, scores):
        tokens = getattr(score, "tokens", ())
        if tokens:
            row.zero_()
            row[: len(tokens)] = row.new_tensor(tokens)
    return rewards


def _extra_info(result: Result) -> dict[str, Any]:
    return {"score": result.reward, **metrics(result), "witness": witness_json(result)}
