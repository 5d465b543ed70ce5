"""TRL's own trainers with the reward of a real service, which is killed and restarted during a run.

Requires TRL and torch. Model and text are those of examples/trl_grpo.
"""

from __future__ import annotations

import importlib
import json
import logging
import math
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Service

from assay_client import AsyncClient, Client
from assay_client.integrations.trl import AssayReward, AsyncAssayReward, aspect_rewards

WHY = "TRL is not installed (pip install -r examples/trl_grpo/requirements.txt)"
torch = pytest.importorskip("torch", reason=WHY)
trl = pytest.importorskip("trl", reason=WHY)
datasets = pytest.importorskip("datasets", reason=WHY)

pytestmark = pytest.mark.filterwarnings("ignore")  # of TRL and its dependencies

STEPS = 4
Scored = list[tuple[str, float]]


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    directory = str(ROOT / "examples" / "trl_grpo")
    sys.path.insert(0, directory)
    yield importlib.import_module("train")
    sys.path.remove(directory)


@pytest.fixture(scope="module")
def policy(example: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a fine-tuned model, half of whose answers are rude."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("policy")
    rows = example.conversations(4000, 0.5, random.Random(0))
    example.train_sft(rows, out, steps=120, seed=0)
    return out / "sft"


@pytest.fixture
def exact(binary: str, tmp_path: Path) -> Iterator[Service]:
    """A service with reproducible scores: fp32, and no cache that a restart would empty."""
    running = Service(binary, tmp_path / "data", ["--precision", "fp32", "--cache-bytes", "0"])
    running.start()
    yield running
    running.kill()


class Recorded:
    """A reward function that records its rewards."""

    def __init__(self, reward: AssayReward) -> None:
        self.__name__ = "recorded"
        self.scored: Scored = []
        self._reward = reward

    def __call__(self, prompts: Any, completions: Any, **given: Any) -> list[float | None]:
        rewards = self._reward(prompts, completions, **given)
        _keep(self.scored, completions, rewards)
        return rewards


class AsyncRecorded:
    def __init__(self, reward: AsyncAssayReward) -> None:
        self.__name__ = "recorded"
        self.scored: Scored = []
        self._reward = reward

    async def __call__(self, prompts: Any, completions: Any, **given: Any) -> list[float | None]:
        rewards = await self._reward(prompts, completions, **given)
        _keep(self.scored, completions, rewards)
        return rewards


def _keep(scored: Scored, completions: list[str], rewards: list[float | None]) -> None:
    for said, reward in zip(completions, rewards):
        assert reward is not None
        assert math.isfinite(reward)
        # Only an empty completion may have the reward 0.
        assert (reward == 0) == (not said.strip()), said
        scored.append((said, reward))


def train(kind: str, reward: Any, policy: Path, example: Any, out: Path, **settings: Any) -> Any:
    """Trains policy for STEPS steps with one or several reward functions; returns the trainer."""
    transformers = importlib.import_module("transformers")
    trainer = getattr(trl, f"{kind}Trainer")(
        model=transformers.AutoModelForCausalLM.from_pretrained(policy),
        processing_class=transformers.AutoTokenizer.from_pretrained(policy),
        reward_funcs=reward if isinstance(reward, list) else [reward],
        train_dataset=datasets.Dataset.from_list([{"prompt": f"{q}\n"} for q in example.ANSWERS]),
        args=getattr(trl, f"{kind}Config")(
            output_dir=str(out),
            max_steps=STEPS,
            per_device_train_batch_size=16,
            num_generations=4,
            max_completion_length=40,
            learning_rate=1e-3,
            beta=0.02,
            logging_steps=1,
            log_completions=True,
            num_completions_to_print=0,
            use_cpu=True,
            bf16=False,
            seed=7,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **settings,
        ),
    )
    trainer.train()
    assert trainer.state.global_step == STEPS
    return trainer


class ServiceKiller(logging.Handler):
    """Kills the service during a request, and restarts it after three failed attempts.

    It observes requests and attempts in the logs of httpcore and of the client.
    """

    def __init__(self, service: Service, request: int) -> None:
        super().__init__(logging.DEBUG)
        self._service = service
        self._left = request
        self.attempts = 0
        self._failed = threading.Event()
        self._again = threading.Thread(target=self._restart)
        self.killed = False

    def __enter__(self) -> ServiceKiller:
        self._loggers = [logging.getLogger(name) for name in ("httpcore.http11", "assay_client")]
        self._levels = [log.level for log in self._loggers]
        for log in self._loggers:
            log.setLevel(logging.DEBUG)
            log.addHandler(self)
        self._again.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._failed.set()
        self._again.join()
        for log, level in zip(self._loggers, self._levels):
            log.removeHandler(self)
            log.setLevel(level)

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if record.name == "assay_client" and "retrying" in said:
            self.attempts += 1
            if self.attempts == 3:
                self._failed.set()
        elif said.startswith("receive_response_headers.started"):
            self._left -= 1
            if self._left == 0:
                self._service.kill()  # SIGKILL
                self.killed = True

    def _restart(self) -> None:
        self._failed.wait()
        if self.killed:
            self._service.start()


@pytest.mark.parametrize(("kind", "asynchronous"), [("GRPO", False), ("GRPO", True), ("RLOO", False)])
def test_a_restart_of_the_service_changes_no_reward(
    kind: str, asynchronous: bool, exact: Service, policy: Path, example: Any, tmp_path: Path
) -> None:
    def reward() -> Any:
        if asynchronous:
            return AsyncRecorded(AsyncAssayReward(AsyncClient(exact.url)))
        return Recorded(AssayReward(Client(exact.url)))

    calm, hard = reward(), reward()
    undisturbed = train(kind, calm, policy, example, tmp_path / "calm")
    with ServiceKiller(exact, request=2) as killer:
        disturbed = train(kind, hard, policy, example, tmp_path / "hard")
    assert killer.killed
    assert killer.attempts >= 3

    assert len(calm.scored) == STEPS * 16
    assert len({reward for _, reward in calm.scored}) > 8  # the rewards differ between responses
    assert [said for said, _ in hard.scored] == [said for said, _ in calm.scored]
    assert [r for _, r in hard.scored] == pytest.approx([r for _, r in calm.scored], abs=1e-5)
    for name, weight in undisturbed.model.state_dict().items():
        assert torch.allclose(weight, disturbed.model.state_dict()[name], atol=1e-5), name


def test_the_table_of_completions_has_the_witnesses(
    exact: Service, policy: Path, example: Any, tmp_path: Path
) -> None:
    pandas = importlib.import_module("pandas")
    with Client(exact.url) as client:
        trainer = train("GRPO", AssayReward(client), policy, example, tmp_path)
    tables = sorted((tmp_path / "completions").glob("*.parquet"))
    assert len(tables) == STEPS
    for table in tables:
        rows = pandas.read_parquet(table)
        for said, violation, found in zip(rows["completion"], rows["assay_violation"], rows["assay_witness"]):
            witness = json.loads(found)
            assert said[witness["start"] : witness["end"]] == witness["text"]
            assert witness["violation"] == violation
    logged = [row for row in trainer.state.log_history if "reward" in row]
    assert all({"assay/violation", "assay/compliant", "assay/empty"} <= row.keys() for row in logged)


def test_gdpo_normalizes_the_components(exact: Service, policy: Path, example: Any, tmp_path: Path) -> None:
    """The shipped model has the single aspect `default`; the second component is one of the trainer."""

    def brevity(completion_ids: list[list[int]], **_: Any) -> list[float]:
        return [-len(ids) / 40 for ids in completion_ids]

    with Client(exact.url) as client:
        rewards = [*aspect_rewards(["default"], client), brevity]
        trainer = train(
            "GRPO", rewards, policy, example, tmp_path, multi_objective_aggregation="normalize_then_sum"
        )
    logged = [row for row in trainer.state.log_history if "reward" in row]
    assert len(logged) == STEPS
    for row in logged:
        assert 0 < row["rewards/assay_default/mean"] < 1
        assert row["rewards/brevity/mean"] < 0
        assert 0 <= row["assay/default/compliant"] <= 1
