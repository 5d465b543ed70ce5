"""verl: an agent loop that keeps the rewards of all tokens; see `verl_dense`.

    actor_rollout_ref.rollout.agent.agent_loop_manager_class=assay_client.integrations.verl_loop.AssayAgentLoopManager

Follows the trainer `v1` of verl 0.9.1, whose agent loop workers write what they
made to the transfer queue (`verl/trainer/ppo/v1/agent_loop_tq.py`). It also
tells the reward manager which tokens the policy wrote.
"""

from __future__ import annotations

from typing import Any

import ray
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from .verl_dense import spread


class DenseOutput(AgentLoopOutput):
    """What an agent loop made, with a reward for each token."""

    def as_dict(self) -> dict[str, Any]:
        made: dict[str, Any] = super().as_dict()
        if "rm_scores" in made:
            made["rm_scores"] = spread(made["rm_scores"].unsqueeze(0), [self.reward_score]).squeeze(0)
        return made


# The class itself: Ray lets nothing inherit from an actor.
_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class AssayAgentLoopWorker(_Worker):  # type: ignore[misc,valid-type]
    """Scores what the policy wrote, and keeps the shares of its tokens."""

    async def _compute_score(self, outputs: list[AgentLoopOutput], kwargs: dict[str, Any]) -> None:
        last = outputs[-1]
        own = torch.tensor(last.response_mask, dtype=torch.int64).numpy()
        await super()._compute_score(outputs, {**kwargs, "response_mask": own})
        # Built without another look at the fields, which would make a plain float of the reward.
        dense = DenseOutput.model_construct(_fields_set=set(last.model_fields_set), **dict(last))
        outputs[-1] = dense


class AssayAgentLoopManager(AgentLoopManagerTQ):
    """The manager whose workers do that."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(AssayAgentLoopWorker)
