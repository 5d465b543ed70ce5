"""SkyRL: an environment of one turn whose reward is assay's.

    skyrl_gym.register(id="assay", entry_point="assay_client.integrations.skyrl:AssayEnv")

and `environment.env_class=assay`. Follows skyrl-gym 0.4 (`BaseTextEnv`):
`step(action)` returns observations, reward, done and metadata; the metadata
hold violation and witness.
"""

from __future__ import annotations

from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from .. import Options
from ._base import figures, item, shared_client, without_end, witness


class AssayEnv(BaseTextEnv):
    """Scores the one response to the prompt."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.env_config = env_config
        self.extras = extras or {}
        self._prompt: Any = None

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        self._prompt = prompt
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        asked = item(without_end(action), self._prompt)
        result = shared_client().score_one(asked, options=Options(instances=False))
        metadata = {**figures(result), "witness": witness(result)}
        return BaseTextEnvStepOutput(observations=[], reward=result.reward, done=True, metadata=metadata)
