"""RLlib: an environment wrapper with assay's reward.

    from ray.tune.registry import register_env
    from assay_client.integrations.rllib import AssayReward

    def text(observation, action, info):
        return info.get("utterance")  # None: this step has no text

    register_env("assay", lambda cfg: AssayReward(MyEnv(cfg), text))

Follows Ray 2.60 (the new API stack) and Gymnasium 1, and works with any
Gymnasium environment. A step with text gets the reward of the text, plus the
reward of the environment with `add=True`; other steps keep the reward of the
environment. The info of the step has violation and witness under `assay`.
RLlib steps the environments of a runner one after the other, so to fill the
batches of the service, add runners rather than environments per runner.

A failure raises. RLlib restarts a failed environment only with
`restart_failed_sub_environments`, and discards its episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium

from .. import Client, Options
from ._base import Completion, metrics, shared_client, to_item, witness_json

Text = Callable[[Any, Any, Mapping[str, Any]], "Completion | None"]


class AssayReward(gymnasium.Wrapper):
    """Rewards the text of a step, a string or chat messages returned by text(observation, action, info)."""

    def __init__(
        self,
        env: Any,
        text: Text,
        *,
        client: Client | None = None,
        options: Options | None = None,
        add: bool = False,
    ) -> None:
        super().__init__(env)
        self._text = text
        self._client = client
        self._options = Options(instances=False).with_defaults(options or Options())
        self._add = add

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        content = self._text(observation, action, info)
        if content is None:
            return observation, reward, terminated, truncated, info
        result = (self._client or shared_client()).score_one(to_item(content), options=self._options)
        info = {**info, "assay": {**metrics(result), "witness": witness_json(result)}}
        scored = result.reward + (float(reward) if self._add else 0.0)
        return observation, scored, terminated, truncated, info
