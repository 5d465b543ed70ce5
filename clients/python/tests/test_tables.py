"""The integrations for tables and environments, called by the real packages where they are installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from conftest import Faulty, Handler, Service, error, good

import assay_client as ac
from assay_client.integrations import _base
from assay_client.integrations.datasets import AssayColumns, Columns

POLITE = "Drink some water and rest."
RUDE = "You are a stupid idiot and I hate you."


@pytest.fixture
def live(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("ASSAY_URL", service.url)
    yield service
    if _base.shared_client.cache_info().currsize:
        _base.shared_client().close()
    _base.shared_client.cache_clear()


def models(version: str) -> Any:
    one = {"name": "m", "version": version, "threshold": 0.5, "serving": True, "current": True}

    def reply(h: Handler) -> None:
        if h.path == "/v1/models":
            h.send(200, {"data": [one]})
        else:
            good(h)

    return reply


def test_columns_of_a_batch(faulty: Faulty) -> None:
    faulty.default = models("v1")
    with ac.Client(faulty.url, retry=0) as client:
        add = AssayColumns(client, columns=Columns(prefix="a_"), on_error=-1.0)
        found = add({"completion": ["x #25", None], "prompt": ["p", "q"]})
        assert found["a_reward"] == [0.25, -1.0]
        assert found["a_witness_text"] == ["x #25", None]
        assert found["a_model_version"] == ["v1", None]
        assert "NoneType" in found["a_error"][1]
        assert json.loads(faulty.requests[-1][2])["responses"] == [{"response": "x #25", "prompt": "p"}]
        assert json.loads(faulty.requests[-1][2])["model"] == "v1"
        faulty.default = error(503, "overloaded")
        with pytest.raises(ac.ServiceUnavailableError):
            AssayColumns(client)


def test_datasets(faulty: Faulty) -> None:
    datasets = pytest.importorskip("datasets")
    faulty.default = models("v1")
    rows = {"completion": [f"x #{k + 1}" for k in range(100)], "k": list(range(100))}
    data = datasets.Dataset.from_dict(rows)
    with ac.Client(faulty.url) as client:
        scored = data.map(AssayColumns(client), batched=True, batch_size=30)
        assert scored["reward"][:] == [float(f"0.{k + 1}") for k in range(100)]
        assert scored["k"][:] == rows["k"]
        assert scored.features["compliant"].dtype == "bool"
        # The cache key of datasets includes the model version.
        from datasets.fingerprint import Hasher

        first = Hasher.hash(AssayColumns(client))
        assert first == Hasher.hash(AssayColumns(client))
        faulty.default = models("v2")
        assert first != Hasher.hash(AssayColumns(client))


def test_datasets_of_chat_messages_in_processes(live: Service) -> None:
    datasets = pytest.importorskip("datasets")
    assert live.url
    chat = [[{"role": "user", "content": "q"}, {"role": "assistant", "content": c}] for c in (POLITE, RUDE)]
    data = datasets.Dataset.from_dict({"messages": chat * 20})
    scored = data.map(AssayColumns(), batched=True, batch_size=8, num_proc=2)
    assert scored["compliant"][:] == [True, False] * 20
    assert scored["witness_message"][1] == 1
    assert len(set(scored["model_version"])) == 1


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray")
    found.init(
        num_cpus=2,
        object_store_memory=100 << 20,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        configure_logging=False,
    )
    yield found
    found.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_ray_data(live: Service, ray: Any) -> None:
    import ray.data as rd

    from assay_client.integrations.ray import AssayBatches, serving_version

    assert ray.is_initialized()
    with ac.Client(live.url) as client:
        data = rd.from_items([{"response": RUDE if k % 3 == 0 else POLITE, "k": k} for k in range(300)])
        scored = data.map_batches(
            AssayBatches,
            fn_constructor_kwargs={"client": client, "model": serving_version(client)},
            batch_format="pyarrow",
            batch_size=64,
            concurrency=1,
        )
        rows = sorted(scored.take_all(), key=lambda r: int(r["k"]))
        assert [r["compliant"] for r in rows] == [k % 3 != 0 for k in range(300)]
        assert rows[0]["witness_text"] == RUDE
        assert {r["model_version"] for r in rows} == {serving_version(client)}
        with pytest.raises(ac.InputError, match="batch_format"):
            AssayBatches(client)({"response": [POLITE]})


@pytest.mark.filterwarnings("ignore")
def test_gymnasium(live: Service) -> None:
    gym = pytest.importorskip("gymnasium")
    from assay_client.integrations.rllib import AssayReward

    assert live.url
    env = AssayReward(_talk(gym), utterance, add=True)
    env.reset()
    _, reward, done, _, info = env.step(0)
    assert float(reward) > 1.5
    assert not done
    _, reward, done, _, info = env.step(1)
    assert float(reward) < 1.5
    assert json.loads(info["assay"]["witness"])["text"] == RUDE
    _, reward, done, _, info = env.step(2)
    assert (reward, done, "assay" in info) == (1.0, True, False)


def utterance(observation: Any, action: Any, info: Any) -> Any:  # noqa: ARG001
    return info.get("utterance")


def _talk(gym: Any) -> Any:
    import numpy as np

    class Talk(gym.Env):  # type: ignore[misc]
        """Actions 0 and 1 utter a sentence; action 2 ends the episode."""

        observation_space = gym.spaces.Box(0, 1, (1,))
        action_space = gym.spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed, options=options)
            return np.zeros(1, np.float32), {}

        def step(self, action: int) -> Any:
            seen = np.zeros(1, np.float32)
            if action == 2:
                return seen, 1.0, True, False, {}
            return seen, 1.0, False, False, {"utterance": (POLITE, RUDE)[int(action)]}

    return Talk()


@pytest.mark.filterwarnings("ignore")
def test_rllib(live: Service, ray: Any) -> None:
    """An environment runner of PPO samples from a wrapped environment."""
    pytest.importorskip("ray.rllib.algorithms.ppo")
    gym = pytest.importorskip("gymnasium")
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    from assay_client.integrations.rllib import AssayReward

    assert ray.is_initialized()
    assert live.url

    def make(_: Any) -> Any:
        wrapped = AssayReward(_talk(gym), utterance)
        return gym.wrappers.TimeLimit(wrapped, 20)

    from ray.tune.registry import register_env

    register_env("assay", make)
    config = PPOConfig().environment("assay").env_runners(num_env_runners=0)
    runner = SingleAgentEnvRunner(config=config)
    episodes = runner.sample(num_timesteps=40, random_actions=True)
    seen = {}
    for episode in episodes:
        for action, reward in zip(episode.get_actions(), episode.get_rewards()):
            seen[int(action)] = float(reward)
    runner.stop()
    assert seen[0] > 0.5 > seen[1]
    assert seen[2] == 1.0


@pytest.fixture
def nemo(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The integration with NeMo-RL, with a fake of its interface if it is not installed."""
    pytest.importorskip("torch")
    pytest.importorskip("ray")
    try:
        import nemo_rl.environments.interfaces
    except ImportError:

        class EnvironmentReturn(NamedTuple):
            observations: list[dict[str, str]]
            metadata: list[Any]
            next_stop_strings: list[Any]
            rewards: Any
            terminateds: Any
            answers: list[Any] | None

        class EnvironmentInterface:
            pass

        interfaces = ModuleType("nemo_rl.environments.interfaces")
        vars(interfaces).update(
            EnvironmentReturn=EnvironmentReturn, EnvironmentInterface=EnvironmentInterface
        )
        for name in ("nemo_rl", "nemo_rl.environments"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        monkeypatch.setitem(sys.modules, "nemo_rl.environments.interfaces", interfaces)
    from assay_client.integrations import nemo_rl

    return nemo_rl


LOGS = [
    [{"role": "user", "content": "You idiot!"}, {"role": "assistant", "content": POLITE + "<|im_end|>"}],
    [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": POLITE},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": RUDE + "</s>"},
    ],
]


def test_nemo_rl(live: Service, nemo: Any) -> None:
    import torch

    env = nemo.Environment({"url": live.url, "enabled": True})
    found = env.step(LOGS, [{"ground_truth": "x"}, None])
    observations, metadata, stops, rewards, ended, answers = found
    assert rewards.shape == ended.shape == (2,)
    assert rewards.dtype == torch.float32
    assert rewards[0] > 0.5 > rewards[1]
    assert ended.all()
    assert [o["content"] for o in observations] == ["", ""]
    assert metadata[0]["ground_truth"] == "x"
    assert json.loads(metadata[1]["assay"]["witness"])["text"] == RUDE
    assert stops == answers == [None, None]
    batch = {"rewards": rewards}
    assert env.global_post_process_and_metrics(batch) == (
        batch,
        {"assay/mean_reward": pytest.approx(float(rewards.mean()))},
    )


def test_nemo_rl_aspects(faulty: Faulty, nemo: Any) -> None:
    def rewards(aspects: Any, n: int = 2) -> Any:
        config = {"url": faulty.url, "retry": 0, "aspects": aspects, "weights": {"evasion": 2}}
        logs = [
            [{"role": "user", "content": "q"}, {"role": "assistant", "content": r}] for r in ("#25", "#75")
        ]
        found = nemo.Environment(config).step(logs[:n], [None] * n)
        if aspects and n:
            assert found.metadata[0]["assay"]["reward_evasion"] == 0.75
        return found.rewards.tolist()

    assert rewards(["evasion", "rudeness"]) == [[0.75, 0.25], [0.25, 0.75]], "reward1 and reward2 of NeMo-RL"
    assert rewards(["evasion"]) == [0.75, 0.25], "NeMo-RL takes one column for a single reward"
    assert rewards(None) == [0.25, 0.75]
    assert rewards(["evasion", "rudeness"], 0) == []
    assert json.loads(faulty.requests[0][2])["options"]["weights"] == {"evasion": 2}


def test_nemo_rl_itself(live: Service, nemo: Any, ray: Any) -> None:
    """NeMo-RL's own code requests the rewards of a batch from the actor."""
    rollouts = pytest.importorskip("nemo_rl.experience.rollouts")
    from nemo_rl.distributed.batched_data_dict import BatchedDataDict

    env = nemo.AssayEnvironment.remote({"url": live.url})
    batch = BatchedDataDict(
        {"message_log": LOGS, "task_name": ["assay", "assay"], "extra_env_info": [None, {"a": 1}]}
    )
    found = rollouts.calculate_rewards(batch, {"assay": env})
    assert found.rewards[0] > 0.5 > found.rewards[1]
    assert found.terminateds.all()
    ray.kill(env)


class Letters:
    """A tokenizer whose ids are code points; 0 is padding."""

    def batch_decode(self, ids: Any, skip_special_tokens: bool) -> list[str]:
        return ["".join(chr(i) for i in row.tolist() if i or not skip_special_tokens) for row in ids]


@pytest.fixture
def roll(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The integration with ROLL, with fakes of its modules if it is not installed."""
    pytest.importorskip("torch")
    parts: dict[str, dict[str, Any]] = {}

    class Worker:
        def __init__(self, worker_config: Any) -> None:
            self.worker_config = worker_config
            self.rank_info = SimpleNamespace(rank=0, world_size=1)

    try:
        import roll.distributed.scheduler.protocol  # noqa: F401
    except ImportError:

        class DataProto:
            def __init__(self, batch: Any = None, meta_info: Any = None) -> None:
                self.batch, self.meta_info = batch, meta_info or {}

            @classmethod
            def from_dict(cls, tensors: Any) -> DataProto:
                return cls(tensors)

        parts["distributed.scheduler.protocol"] = {"DataProto": DataProto}
    # A real worker connects to a Ray cluster.
    parts["distributed.executor.worker"] = {"Worker": Worker}
    parts["distributed.scheduler.decorator"] = {
        "Dispatch": SimpleNamespace(ONE_TO_ALL=1, DP_MP_COMPUTE=2),
        "register": lambda **_: lambda f: f,
    }
    parts["models.model_providers"] = {"default_tokenizer_provider": lambda **_: Letters()}
    if "distributed.scheduler.protocol" in parts:
        for name in ("", ".distributed", ".distributed.scheduler"):
            monkeypatch.setitem(sys.modules, "roll" + name, ModuleType("roll" + name))
    for name, content in parts.items():
        module = ModuleType("roll." + name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, "roll." + name, module)
    from assay_client.integrations import roll as found

    return found


def test_roll(live: Service, roll: Any) -> None:
    import torch

    assert live.url
    texts = [POLITE, RUDE]
    ids = torch.zeros((2, 60), dtype=torch.long)
    for row, text in zip(ids, texts):
        row[: len(text)] = torch.tensor([ord(c) for c in text])
    data = roll.DataProto.from_dict(tensors={"prompts": ids[:, :3], "responses": ids})
    worker = roll.AssayRewardWorker(SimpleNamespace(model_args=None))
    worker.initialize(None)
    found = worker.compute_rewards(data)
    assert found.batch["scores"].shape == found.batch["response_level_rewards"].shape == (2,)
    assert found.batch["scores"][0] > 0.5 > found.batch["scores"][1]
    assert found.batch["token_level_rewards"].shape == (2, 60)
    assert not found.batch["token_level_rewards"].any()
    assert found.meta_info["metrics"]["assay/compliant"] == 0.5
