"""OpenRLHF's own rollout code, from the executor that requests the reward to the advantages.

Only its dependencies for generation and training, which require a GPU, are
replaced by mocks (vllm, deepspeed, flash_attn).
"""

from __future__ import annotations

import asyncio
import importlib
import shlex
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from conftest import ROOT, Service, Texts

EXAMPLE = ROOT / "examples" / "openrlhf"
PROMPT = "<|im_start|>user\nHow do I cure a headache?<|im_end|>\n<|im_start|>assistant\n"


class MockFinder(MetaPathFinder, Loader):
    """Imports mocks of the packages that require a GPU."""

    names = ("vllm", "flash_attn", "deepspeed")

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.names else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        made: Any = MagicMock()
        made.__path__, made.__spec__, made.__name__ = [], spec, spec.name
        return made  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        pass


@pytest.fixture(scope="module")
def openrlhf() -> Iterator[Any]:
    """The modules of OpenRLHF, by the last component of their names."""
    pytest.importorskip("openrlhf", reason="pip install --no-deps openrlhf, and torch")
    finder = MockFinder()
    sys.meta_path.append(finder)
    names: tuple[str, ...] = (
        "utils.agent",
        "trainer.ppo_utils.samples_generator",
        "trainer.ppo_utils.experience_maker",
    )
    names += ("trainer.ppo_utils.experience", "trainer.ppo_trainer")
    modules = {name.split(".")[-1]: importlib.import_module(f"openrlhf.{name}") for name in names}
    yield SimpleNamespace(**modules)
    sys.meta_path.remove(finder)


class Tokenizer:
    """A tokenizer with one token per character."""

    pad_token_id = 0

    def __call__(self, text: str, **_: Any) -> Any:
        import torch

        return {"input_ids": torch.tensor([[ord(c) for c in text]])}

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(map(chr, ids))


class Engine:
    """A fake engine that generates a fixed text."""

    def __init__(self, text: str) -> None:
        self.ids = [ord(c) for c in text]

    async def generate(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(
            outputs=[SimpleNamespace(token_ids=self.ids, finish_reason="stop", logprobs=None)]
        )


def rollout(openrlhf: Any, where: Any, texts: list[str]) -> list[Any]:
    """The experiences of the samples of one prompt, with rewards from the given URLs or file."""
    executor = openrlhf.agent.SingleTurnAgentExecutor(where)
    params = SimpleNamespace(max_tokens=400, logprobs=None)

    async def run() -> list[Any]:
        asked = (
            executor.execute(PROMPT, "", params, 600, Tokenizer(), Engine(f"{t}<|im_end|>\n")) for t in texts
        )
        return await asyncio.gather(*asked)

    generator = openrlhf.samples_generator.SamplesGenerator.__new__(
        openrlhf.samples_generator.SamplesGenerator
    )
    return [generator._process_response_into_experience(r, max_len=600) for r in asyncio.run(run())]


@pytest.fixture(params=["url", "two urls", "file"])
def where(request: pytest.FixtureRequest, service: Service, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Values of --reward.remote_url."""
    if request.param == "file":
        from assay_client.integrations import _base

        monkeypatch.setenv("ASSAY_URL", service.url)
        _base.shared_client.cache_clear()
        return [str(EXAMPLE / "reward.py")]
    return [f"{service.url}/get_reward"] * (2 if request.param == "two urls" else 1)


def test_rewards_reach_advantages(openrlhf: Any, where: Any, service: Service, texts: Texts) -> None:
    import torch

    experiences = rollout(openrlhf, where, [texts.polite, texts.rude])
    want = texts.rewards(service)
    # A list of one element becomes [1,1], as with OpenRLHF's own reward server; a tensor of one element [1].
    assert {tuple(e.rewards.shape) for e in experiences} in ({(1, 1)}, {(1,)})
    assert [e.rewards.item() for e in experiences] == pytest.approx(want, abs=5e-3)
    assert [e.scores[0].item() for e in experiences] == pytest.approx(want, abs=5e-3)
    info = experiences[1].info
    start, end = int(info["witness_start"]), int(info["witness_end"])
    assert texts.rude[start:end] == texts.violation
    assert all(v.dtype.is_floating_point for k, v in info.items() if k != "response_clip_ratio")

    # Evaluation, batches, splits and advantages.
    metrics = openrlhf.ppo_trainer.compute_eval_metrics([[["set"], [PROMPT], [""], [None]]], experiences, 2)
    assert metrics["eval_set_pass1"] == pytest.approx(sum(want) / 2, abs=5e-3)
    assert metrics["eval_set_pass2"] == pytest.approx(max(want), abs=5e-3)
    maker = experience_maker(openrlhf)
    (batch,) = maker.split_rollout_samples(experiences)
    assert batch.rewards.reshape(-1).tolist() == pytest.approx(want, abs=5e-3)
    batch.kl = torch.zeros_like(batch.action_mask, dtype=torch.float32)
    (batch,) = maker.compute_advantages_and_returns([batch])
    half = (want[0] - want[1]) / 2
    assert batch.info["return"].tolist() == pytest.approx([half, -half], abs=5e-3)
    singles = openrlhf.experience.split_experience_batch(batch)
    again = openrlhf.experience.make_experience_batch(singles)
    assert again.rewards.reshape(-1).tolist() == pytest.approx(want, abs=5e-3)
    assert torch.tensor(again.info["violation"], dtype=torch.float).mean() < 1


def experience_maker(openrlhf: Any) -> Any:
    def of(**kw: Any) -> SimpleNamespace:
        return SimpleNamespace(**kw)

    args = of(
        train=of(dynamic_batch_enable=False),
        rollout=of(micro_batch_size=2, n_samples_per_prompt=2),
        algo=of(advantage=of(estimator="dr_grpo", gamma=1.0, no_std_norm=False)),
        reward=of(clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None),
    )
    made = openrlhf.experience_maker.RemoteExperienceMaker
    return made(None, None, None, None, of(value=0.0), of(args=args), Tokenizer())


@pytest.mark.usefixtures("openrlhf")
def test_flags_of_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenRLHF's own parser and validation accept the flags of the example."""
    flags = (EXAMPLE / "train.sh").read_text().split("openrlhf.cli.train_ppo_ray", 1)[1]
    flags = flags.replace("\\\n", " ").replace("$ASSAY_URL", "http://rm:8080")
    module = importlib.import_module("openrlhf.cli.train_ppo_ray")
    monkeypatch.setattr(sys, "argv", ["train_ppo_ray", *shlex.split(flags)])
    # The last line of the module starts the training: run the others and take its arguments.
    file = Path(str(module.__file__))
    head, found, tail = file.read_text().rpartition("    train(args)")
    assert found
    assert not tail.strip()
    seen: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(head, str(file), "exec"), seen)
    args = seen["args"]
    assert args.reward.remote_url == ["http://rm:8080/get_reward"]
    assert args.rollout.n_samples_per_prompt > 1
