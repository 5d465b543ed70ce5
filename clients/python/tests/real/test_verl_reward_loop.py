"""verl's own reward loop: its reward model client, its router and its reward manager."""

from __future__ import annotations

import asyncio
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Service, Texts

EXAMPLE = ROOT / "examples" / "verl"


@pytest.fixture(scope="module")
def verl() -> Any:
    pytest.importorskip("verl", reason="pip install --no-deps verl, and torch, tensordict, ray")
    from verl.experimental import reward_loop

    return reward_loop


class Tokenizer:
    """A tokenizer with one token per character and the ChatML template."""

    bos_token = None
    eos_token = "\x03"

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        text = "".join(map(chr, ids.tolist()))
        return text.replace(self.eos_token, "") if skip_special_tokens else text

    def apply_chat_template(self, chat: list[Any], **_: Any) -> str:
        return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in chat)


def sample(*responses: str) -> Any:
    """A batch of the form that verl's rollouts produce."""
    import numpy as np
    import torch
    from verl import DataProto

    width = max(map(len, responses)) + 1
    ids = torch.zeros(len(responses), width, dtype=torch.long)
    mask = torch.ones(len(responses), 4 + width, dtype=torch.long)
    for i, text in enumerate(responses):
        ids[i, : len(text) + 1] = torch.tensor([*map(ord, text), 3])
        mask[i, 4 + len(text) + 1 :] = 0

    def column(value: Any) -> Any:
        made = np.empty(len(responses), dtype=object)
        made[:] = [value] * len(responses)
        return made

    return DataProto.from_dict(
        tensors={
            "prompts": torch.ones(len(responses), 4, dtype=torch.long),
            "responses": ids,
            "attention_mask": mask,
        },
        non_tensors={
            "raw_prompt": column([{"role": "user", "content": "How do I cure a headache?"}]),
            "data_source": column("set"),
            "reward_model": column({"ground_truth": ""}),
            "extra_info": column({}),
        },
    )


def worker(verl: Any, engine: str, address: str) -> Any:
    """A reward loop worker that does not load tokenizers from a hub."""
    from omegaconf import OmegaConf

    made = verl.RewardLoopWorker.__new__(verl.RewardLoopWorker)
    made.config = OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {"path": None},
                "reward_model": {
                    "enable": True,
                    "model_path": "my/reward-model",
                    "rollout": {"name": engine},
                },
            }
        }
    )
    made.reward_router_address = address
    made.input_tokenizer = made.reward_model_tokenizer = Tokenizer()
    return made


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_reward_model(verl: Any, service: Service, texts: Texts, engine: str) -> None:
    asked = worker(verl, engine, service.url.split("//")[1])
    found = asyncio.run(asked.compute_score_batch(sample(texts.polite, texts.rude)))
    assert [f["reward_score"] for f in found] == pytest.approx(texts.rewards(service), abs=5e-3)


@pytest.fixture
def router(verl: Any, service: Service) -> Iterator[str]:  # noqa: ARG001
    """verl's own router in front of two workers, both of which are the same service."""
    import uvicorn
    from verl.experimental.reward_loop.router.naive_router import NaiveRouter

    app = NaiveRouter([service.url, service.url.replace("127.0.0.1", "localhost")]).app
    server: Any = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    ready = threading.Event()
    started = server.startup

    async def startup(*args: Any, **kw: Any) -> None:
        await started(*args, **kw)
        ready.set()

    server.startup = startup
    thread.start()
    assert ready.wait(30)
    yield "{}:{}".format(*server.servers[0].sockets[0].getsockname())
    server.should_exit = True
    thread.join()


def test_router(verl: Any, router: str, service: Service, texts: Texts) -> None:
    found = asyncio.run(
        worker(verl, "vllm", router).compute_score_batch(sample(*[texts.polite, texts.rude] * 8))
    )
    assert [f["reward_score"] for f in found] == pytest.approx(texts.rewards(service) * 8, abs=5e-3)


def config() -> Any:
    """The configuration of the example, composed by hydra with verl's own files."""
    import verl.trainer
    from hydra import compose, initialize_config_dir

    script = (EXAMPLE / "train.sh").read_text().split("verl.trainer.main_ppo", 1)[1]
    overrides = shlex.split(script.replace("\\\n", " ").replace("$here", str(EXAMPLE)))
    directory = Path(str(verl.trainer.__file__)).parent / "config"
    with initialize_config_dir(config_dir=str(directory), version_base=None):
        return compose(config_name="ppo_trainer", overrides=overrides)


def test_example(verl: Any, service: Service, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reward file of the example, called by the reward manager that it configures."""
    from verl.trainer.ppo.reward import load_reward_manager

    from assay_client.integrations import _base

    monkeypatch.setenv("ASSAY_URL", service.url)
    _base.shared_async_client.cache_clear()
    migrated = verl.migrate_legacy_reward_impl(config())
    batch = sample(texts.polite, texts.rude)

    async def run() -> Any:
        manager = load_reward_manager(migrated, Tokenizer())
        manager.loop = asyncio.get_running_loop()
        return manager, [await manager.run_single(batch[i : i + 1]) for i in range(2)]

    manager, found = asyncio.run(run())
    want = texts.rewards(service)
    assert [f["reward_score"] for f in found] == pytest.approx(want, abs=5e-3)
    info = found[1]["reward_extra_info"]
    assert texts.rude[int(info["witness_start"]) : int(info["witness_end"])] == texts.violation
    tensor = manager.assemble_rm_scores(batch, [f["reward_score"] for f in found])
    assert tensor.sum(-1).tolist() == pytest.approx(want, abs=5e-3)
    assert tensor[1, len(texts.rude)] == pytest.approx(want[1], abs=5e-3)
