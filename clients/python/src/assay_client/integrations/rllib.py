"""RLlib: an environment wrapper whose reward is assay's.

    from ray.tune.registry import register_env
    from assay_client.integrations.rllib import AssayReward

    def text(observation, action, info):
        return info.get("said")  # None: nothing was said in this step

    register_env("assay", lambda cfg: AssayReward(MyEnv(cfg), text))

Follows Ray 2.60 (the new API stack) and Gymnasium 1, whose environments it
wraps wherever they are used. A step in which something was said gets its
reward, added to that of the environment with `add=True`; the other steps keep
theirs. Violation and witness are in the step's info under `assay`. RLlib steps
the environments of a runner one after the other, so more runners fill the
batches of the service, not more environments in each.

A failure raises. RLlib starts such an environment anew only where
`restart_failed_sub_environments` says so; the episode is lost then, and no
reward is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

import gymnasium

from .. import Client, Options
from ._base import Completion, figures, item, shared_client, witness

Text = Callable[[Any, Any, Mapping[str, Any]], "Completion | None"]


class AssayReward(gymnasium.Wrapper):
    """Rewards what text(observation, action, info) finds in a step: a string or chat messages."""

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
        self._options = Options(instances=False).over(options or Options())
        self._add = add

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        said = self._text(observation, action, info)
        if said is None:
            return observation, reward, terminated, truncated, info
        result = (self._client or shared_client()).score_one(item(said), options=self._options)
        info = {**info, "assay": {**figures(result), "witness": witness(result)}}
        scored = result.reward + (float(reward) if self._add else 0.0)
        return observation, scored, terminated, truncated, info
