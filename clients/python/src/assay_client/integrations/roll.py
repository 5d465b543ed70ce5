"""ROLL: a reward worker.

    rewards:
      assay:
        worker_cls: assay_client.integrations.roll.AssayRewardWorker
        tag_included: [...]
        model_args: ${reward_pretrain's or the policy's, for its tokenizer}
        world_size: 4
        system_envs: {ASSAY_URL: "http://rm:8080"}

Follows ROLL 0.3 (`roll/pipeline/rlvr/rewards`): a worker whose
`compute_rewards` takes the token ids of prompts and responses and returns
`scores` and `response_level_rewards` [batch], and `token_level_rewards`
[batch, length]. The latter are 0, as in ROLL's own workers: ROLL itself
assigns the reward of a response to its last token. Responses are decoded
without special tokens, and prompts lose their chat template. The metrics
include violation and compliance. A failure raises once the retries are
exhausted.
"""

from __future__ import annotations

from typing import Any

import torch
from roll.distributed.executor.worker import Worker
from roll.distributed.scheduler.decorator import Dispatch, register
from roll.distributed.scheduler.protocol import DataProto
from roll.models.model_providers import default_tokenizer_provider

from .. import Options
from ._base import shared_client, to_item


class AssayRewardWorker(Worker):
    """Computes the compliance reward of each response."""

    def __init__(self, worker_config: Any) -> None:
        super().__init__(worker_config=worker_config)
        self.rank_info.dp_rank = self.rank_info.rank
        self.rank_info.dp_size = self.rank_info.world_size
        self.tokenizer = default_tokenizer_provider(model_args=worker_config.model_args)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def initialize(self, pipeline_config: Any) -> None:
        """Does nothing: the service has already loaded the model."""

    @register(dispatch_mode=Dispatch.DP_MP_COMPUTE, clear_cache=False)
    def compute_rewards(self, data: DataProto) -> DataProto:
        responses = self.tokenizer.batch_decode(data.batch["responses"], skip_special_tokens=True)
        # With the special tokens, by which to_item finds the chat template.
        prompts = self.tokenizer.batch_decode(data.batch["prompts"], skip_special_tokens=False)
        items = [to_item(r, p) for r, p in zip(responses, prompts)]
        results = shared_client().score(items, options=Options(instances=False))
        rewards = torch.tensor([r.reward for r in results], dtype=torch.float32)
        output = DataProto.from_dict(
            tensors={
                "token_level_rewards": torch.zeros_like(data.batch["responses"], dtype=torch.float32),
                "response_level_rewards": rewards,
                "scores": rewards.clone(),
            }
        )
        n = max(len(results), 1)
        output.meta_info = {
            "metrics": {
                "assay/violation": sum(r.violation for r in results) / n,
                "assay/compliant": sum(r.compliant for r in results) / n,
            }
        }
        return output
