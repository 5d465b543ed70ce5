"""verl: an agent loop that keeps token-level rewards; see `verl_dense`.

    actor_rollout_ref.rollout.agent.agent_loop_manager_class=assay_client.integrations.verl_loop.AssayAgentLoopManager

Follows the trainer `v1` of verl 0.9.1, whose agent loop workers write their
output to the transfer queue (`verl/trainer/ppo/v1/agent_loop_tq.py`). It also
passes the reward manager the mask of the tokens that the policy wrote.
"""

from __future__ import annotations

from typing import Any

import ray
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from .verl_dense import scatter


class DenseOutput(AgentLoopOutput):
    """The output of an agent loop, with token-level rewards."""

    def as_dict(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().as_dict()
        if "rm_scores" in fields:
            fields["rm_scores"] = scatter(fields["rm_scores"].unsqueeze(0), [self.reward_score]).squeeze(0)
        return fields


# The class behind the actor: Ray does not allow inheriting from an actor.
_Worker = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class AssayAgentLoopWorker(_Worker):  # type: ignore[misc,valid-type]
    """Scores the tokens that the policy wrote, and keeps their rewards."""

    async def _compute_score(self, outputs: list[AgentLoopOutput], kwargs: dict[str, Any]) -> None:
        last = outputs[-1]
        mask = torch.tensor(last.response_mask, dtype=torch.int64).numpy()
        await super()._compute_score(outputs, {**kwargs, "response_mask": mask})
        # Constructed without validation, which would convert the TokenReward to a float.
        dense = DenseOutput.model_construct(_fields_set=set(last.model_fields_set), **dict(last))
        outputs[-1] = dense


class AssayAgentLoopManager(AgentLoopManagerTQ):
    """The manager of `AssayAgentLoopWorker`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(AssayAgentLoopWorker)
