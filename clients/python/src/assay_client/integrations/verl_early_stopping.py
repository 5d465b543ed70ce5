"""verl: an agent loop whose rollouts end when they violate the policy.

    actor_rollout_ref.rollout.agent.default_agent_loop=assay_single_turn_agent
    actor_rollout_ref.rollout.agent.agent_loop_config_path=agent_loops.yaml

with agent_loops.yaml:

    - name: assay_single_turn_agent
      _target_: assay_client.integrations.verl_early_stopping.AssaySingleTurnAgentLoop

Follows verl 0.9.1, whose server manager returns whole responses. So a response
is requested in pieces of `chunk` tokens, each with the prompt and the tokens so
far, which the prefix cache of the engine holds; verl resumes partial rollouts in
the same way. Any agent loop can wrap its server manager in
`EarlyStoppingServer`. The extra field `finish_reason` of a stopped rollout is
`content_filter`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from verl.experimental.agent_loop.agent_loop import register
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from .chunked import EarlyStoppingServer


@register("assay_single_turn_agent")
class AssaySingleTurnAgentLoop(SingleTurnAgentLoop):
    """A single turn, stopped early. `eos_token_ids` are those of `EarlyStoppingServer`."""

    server_manager: Any

    def __init__(self, *args: Any, eos_token_ids: int | Collection[int] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_manager = EarlyStoppingServer(
            self.server_manager, self.tokenizer, self.response_length, eos_token_ids=eos_token_ids
        )
