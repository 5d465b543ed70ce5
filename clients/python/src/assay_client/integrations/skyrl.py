"""SkyRL: a single-turn environment with assay's reward.

    skyrl_gym.register(id="assay", entry_point="assay_client.integrations.skyrl:AssayEnv")

and `environment.env_class=assay`. Follows skyrl-gym 0.4 (`BaseTextEnv`), whose
`step(action)` returns observations, reward, done and metadata. The metadata
include violation and witness. With `aspects: true` in the environment's
configuration, the output also has `reward_components`, the reward of each aspect
(rule) of the model, which advantage estimators such as GDPO normalize separately;
skyrl-gym 0.4 ignores it.
"""

from __future__ import annotations

from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from .. import Options
from ._base import metrics, shared_client, strip_special_tokens, to_item, witness_json


class AssayEnv(BaseTextEnv):
    """Scores the single response to a prompt."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.env_config = env_config
        self.extras = extras or {}
        self._aspects = bool(env_config and env_config.get("aspects")) or None
        self._prompt: Any = None

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        self._prompt = prompt
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        item = to_item(strip_special_tokens(action), self._prompt)
        result = shared_client().score_one(item, options=Options(instances=False, aspects=self._aspects))
        metadata = {**metrics(result), "witness": witness_json(result)}
        output = BaseTextEnvStepOutput(observations=[], reward=result.reward, done=True, metadata=metadata)
        if self._aspects:
            output["reward_components"] = result.components
        return output
