"""NeMo-RL: a single-turn environment with assay's reward.

    from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY
    from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
    from nemo_rl.environments.utils import register_env

    NAME = "assay_client.integrations.nemo_rl.AssayEnvironment"
    ACTOR_ENVIRONMENT_REGISTRY[NAME] = PY_EXECUTABLES.SYSTEM
    register_env("assay", NAME)

and in the configuration

    env:
      assay: {url: "http://rm:8080", reward: compliance}
    data:
      train: {env_name: assay}

Install assay-client into the Python environment that starts the run. Follows
NeMo-RL 0.6 (`nemo_rl/environments/interfaces.py`,
`nemo_rl/experience/rollouts.py`): a Ray actor whose `step` takes message logs
of `role` and `content`, and the metadata of each. All assistant messages of a
log are scored, without trailing special tokens. The metadata of each log
receives its violation and witness under `assay`; nothing is appended to the
log.

The configuration may set `url`, `model`, `reward`, `aggregate`, `top_k`,
`reasoning`, `combination`, `weights`, `aspects` and `retry`. With
`aspects: [rudeness, evasion]`, the rewards of these aspects (rules) of the
model take the place of the combined reward: one column each, which NeMo-RL
names `reward1` and `reward2` for GDPO (`grpo.adv_estimator.name=gdpo`), and
adds up otherwise. The metadata then have `reward_NAME` and `violation_NAME` of
all aspects. A failure raises, which ends the run: NeMo-RL has no
reward for a response that could not be scored. While the service restarts, the
environment retries for `retry` seconds (300).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ray
import torch
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn

from .. import Client, Item, Options, Result
from ._base import component, metrics, strip_special_tokens, to_item, witness_json

Message = Mapping[str, Any]


class Environment(EnvironmentInterface):
    """`AssayEnvironment` without Ray."""

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        cfg = cfg or {}
        names = ("reward", "aggregate", "top_k", "reasoning", "combination", "weights")
        options = {k: cfg[k] for k in names if cfg.get(k) is not None}
        self._aspects = list(cfg.get("aspects") or ())
        self._options = Options(instances=False, aspects=bool(self._aspects) or None, **options)
        self._client = Client(cfg.get("url"), model=cfg.get("model"), retry=cfg.get("retry"))

    def step(
        self, message_log_batch: Sequence[Sequence[Message]], metadata: Sequence[dict[str, Any] | None]
    ) -> EnvironmentReturn:
        """Scores each log and terminates it. The rewards are [batch], of several aspects [batch, aspects]."""
        results = self._client.score([_item(log) for log in message_log_batch], options=self._options)
        annotated = [
            {**(m or {}), "assay": {**metrics(r), "witness": witness_json(r)}}
            for m, r in zip(metadata, results)
        ]
        n = len(results)
        return EnvironmentReturn(
            observations=[{"role": "environment", "content": ""} for _ in results],
            metadata=annotated,
            next_stop_strings=[None] * n,
            rewards=torch.tensor([self._reward(r) for r in results], dtype=torch.float32),
            terminateds=torch.ones(n, dtype=torch.bool),
            answers=[None] * n,
        )

    def _reward(self, result: Result) -> float | list[float]:
        if not self._aspects:
            return result.reward
        components = [component(result, name) for name in self._aspects]
        return components if len(components) > 1 else components[0]

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Returns the batch unchanged, and the mean reward."""
        rewards = batch["rewards"] if "rewards" in batch else batch.get("total_reward")
        if rewards is None or len(rewards) == 0:
            return batch, {}
        return batch, {"assay/mean_reward": float(rewards.float().mean())}


def _item(log: Sequence[Message]) -> Item:
    """The assistant messages of a log; the messages before the first of them are the prompt."""
    first = next((k for k, m in enumerate(log) if m["role"] == "assistant"), len(log))
    turns = [{**m, "content": strip_special_tokens(str(m["content"]))} for m in log[first:]]
    if len(turns) == 1:
        return to_item(turns[0]["content"], log[:first])
    return to_item(turns, log[:first])


AssayEnvironment = ray.remote(max_restarts=-1, max_task_retries=-1, max_concurrency=64)(Environment)
