"""verl's own code with token-level rewards; skipped if verl is not installed."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Faulty, dense_results, error
from test_dense import EMOJI, byte_level

import assay_client as ac
from assay_client.integrations import _base

pytest.importorskip("verl")
np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

RUDE = f"Hello {EMOJI}. You are rude."
pytestmark = pytest.mark.filterwarnings("ignore")  # of verl and its dependencies


@pytest.fixture
def server(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    faulty.default = lambda h: h.send(200, dense_results(h.body))
    monkeypatch.setenv("ASSAY_URL", faulty.url)
    yield faulty
    if _base.shared_client.cache_info().currsize:
        _base.shared_client().close()
    _base.shared_client.cache_clear()
    _base.shared_async_client.cache_clear()


def config(**kwargs: Any) -> Any:
    from omegaconf import OmegaConf

    return OmegaConf.create(
        {
            "reward": {
                "reward_manager": {
                    "source": "importlib",
                    "name": "AssayRewardManager",
                    "module": {"path": "pkg://assay_client.integrations.verl_dense"},
                },
                "reward_kwargs": kwargs,
                "custom_reward_function": {"path": None},
                "reward_model": {"enable": False},
            }
        }
    )


def batch(
    tokenizer: Any, responses: list[list[int]], width: int, masks: list[list[int]] | None = None
) -> Any:
    """A batch of the trainers: prompts padded on the left, responses on the right."""
    from tensordict import TensorDict
    from verl import DataProto

    n, prompt = len(responses), 4
    tensors = {
        "prompts": torch.full((n, prompt), tokenizer.eos_token_id),
        "responses": torch.full((n, width), tokenizer.eos_token_id),
        "attention_mask": torch.zeros(n, prompt + width, dtype=torch.int64),
    }
    for k, ids in enumerate(responses):
        tensors["responses"][k, : len(ids)] = torch.tensor(ids, dtype=torch.int64)
        tensors["attention_mask"][k, prompt - 2 : prompt + len(ids)] = 1
    if masks is not None:
        tensors["response_mask"] = torch.zeros(n, width, dtype=torch.int64)
        for k, mask in enumerate(masks):
            tensors["response_mask"][k, : len(mask)] = torch.tensor(mask)
    prompts = np.empty(n, dtype=object)
    prompts[:] = [[{"role": "user", "content": "You idiot!"}]] * n
    other = {"raw_prompt": prompts, "data_source": np.array(["d"] * n, dtype=object)}
    return DataProto(batch=TensorDict(tensors, batch_size=n), non_tensor_batch=other)


def sent(server: Faulty) -> list[dict[str, Any]]:
    found = [item for _, _, body in server.requests for item in json.loads(body)["responses"]]
    return sorted(found, key=lambda item: str(item["response"]))


def test_the_reward_loop_of_verl(server: Faulty) -> None:
    """The worker and the manager of `verl.experimental.reward_loop`, without Ray."""
    from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
    from verl.trainer.ppo.reward import load_reward_manager, resolve_reward_manager_cls

    t = byte_level(257)
    ids = [*t.encode(RUDE), t.eos_token_id]
    data = batch(t, [ids, t.encode("Hello."), [t.eos_token_id], []], 60)
    cfg = config(dense="witness", aggregate="mean")
    worker = RewardLoopWorker.__new__(RewardLoopWorker)
    worker.config = cfg

    async def run() -> list[dict[str, Any]]:
        worker.reward_manager = load_reward_manager(
            cfg, t, reward_router_address=None, reward_model_tokenizer=None
        )
        found: list[dict[str, Any]] = await worker.compute_score_batch(data)
        return found

    found = pickle.loads(pickle.dumps(asyncio.run(run())))  # as Ray does
    scores = [f["reward_score"] for f in found]
    rewards = resolve_reward_manager_cls(cfg).assemble_rm_scores(data, scores)
    assert rewards.shape == (4, 60)
    assert torch.allclose(rewards.sum(1), torch.tensor([float(s) for s in scores]))
    assert rewards[0].nonzero().flatten().tolist() == list(
        range(len(ids) - 1)
    )  # the fake spreads rewards evenly
    assert rewards[0, len(ids) - 1 :].abs().sum() == 0
    assert rewards[2].nonzero().flatten().tolist() == [0]
    assert rewards[3].nonzero().flatten().tolist() == [59]  # no tokens: where verl puts it
    keys = [sorted(f["reward_extra_info"]) for f in found]
    assert all(k == keys[0] for k in keys)
    assert all(np.array([f["reward_extra_info"][k] for f in found]).ndim == 1 for k in keys[0])
    asked = json.loads(server.requests[0][2])
    assert asked["options"] == {"dense": "witness", "aggregate": "mean", "instances": False}
    item = next(i for i in sent(server) if i["response"] == RUDE)
    assert item["prompt"] == "You idiot!"
    assert len(item["token_offsets"]) == len(ids)


def test_the_batch_reward_manager(server: Faulty) -> None:
    from verl.workers.reward_manager import get_reward_manager_cls

    import assay_client.integrations.verl_dense  # noqa: F401

    t = byte_level()
    manager = get_reward_manager_cls("assay")(
        tokenizer=t, num_examine=1, compute_score=None, gamma=0.9, dense="shaped"
    )
    data = batch(t, [t.encode(RUDE), t.encode("Hello.")], 40)
    rewards: Any = manager(data)
    found: Any = manager(data, return_dict=True)
    assert torch.equal(found["reward_tensor"], rewards)
    assert [len(v) for v in found["reward_extra_info"].values()] == [2] * len(found["reward_extra_info"])
    assert torch.allclose(rewards.sum(1), torch.tensor(found["reward_extra_info"]["score"]))
    assert json.loads(server.requests[0][2])["options"] == {
        "dense": "shaped",
        "gamma": 0.9,
        "instances": False,
    }
    assert len(server.requests) == 2
    data.batch["rm_scores"] = rewards
    assert manager(data) is rewards


def test_tool_output_is_not_scored(server: Faulty) -> None:
    from assay_client.integrations.verl_dense import AssayBatchRewardManager

    t = byte_level()
    first, tool, last = t.encode("I ask."), t.encode("You fool!"), [*t.encode("I see."), t.eos_token_id]
    mask = [1] * len(first) + [0] * len(tool) + [1] * len(last)
    data = batch(t, [[*first, *tool, *last], tool], 40, [mask, [0] * len(tool)])
    rewards: Any = AssayBatchRewardManager(t)(data)
    assert sent(server)[1]["response"] == "I ask.\n\nI see."
    own = torch.tensor(mask, dtype=torch.bool)
    assert rewards[0, : len(mask)][~own].abs().sum() == 0
    assert rewards[0, : len(mask)][own][:-1].min() > 0
    assert rewards[0, len(mask) :].abs().sum() == 0
    assert rewards[1].nonzero().flatten().tolist() == [len(tool) - 1]


def test_no_reward_is_made_up(server: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    from assay_client.integrations.verl_dense import AssayBatchRewardManager

    t = byte_level()
    data = batch(t, [t.encode("Hello.")], 20)

    def without(h: Any) -> None:
        body = dense_results(h.body)
        del body["results"][0]["token_rewards"]
        h.send(200, body)

    server.script = [without, error(400, "invalid", "options.dense")]
    with pytest.raises(ac.InvalidResponseError, match="no token rewards for"):
        AssayBatchRewardManager(t)(data)
    with pytest.raises(ac.BadRequestError):
        AssayBatchRewardManager(t)(data)
    assert monkeypatch


def test_the_agent_loop_of_verl(server: Faulty) -> None:
    """The worker of the trainer v1, up to its output to the transfer queue."""
    pytest.importorskip("transfer_queue")
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
    from verl.trainer.ppo.reward import load_reward_manager

    from assay_client.integrations.verl_loop import AssayAgentLoopWorker

    t = byte_level()
    first, tool, last = t.encode("I ask."), t.encode("You fool!"), [*t.encode("I see."), t.eos_token_id]
    output = AgentLoopOutput(
        prompt_ids=t.encode("p"),
        response_ids=[*first, *tool, *last],
        response_mask=[1] * len(first) + [0] * len(tool) + [1] * len(last),
        metrics=AgentLoopMetrics(),
    )

    class Handle:
        """A fake Ray handle of a reward loop worker."""

        def __init__(self, manager: Any) -> None:
            self.compute_score = self
            self._manager = manager

        async def remote(self, data: Any) -> Any:
            return pickle.loads(pickle.dumps(await self._manager.run_single(data)))

    async def run() -> dict[str, Any]:
        worker = AssayAgentLoopWorker.__new__(AssayAgentLoopWorker)
        worker.reward_loop_worker_handles = [Handle(load_reward_manager(config(), t))]
        worker._compute_multi_modal_inputs = lambda *_: {}
        worker._get_mm_processor_kwargs = lambda *_: {}
        worker._compute_position_ids = lambda ids, *_: torch.arange(ids.shape[1]).unsqueeze(0)
        outputs = [output]
        kwargs = {"raw_prompt": [{"role": "user", "content": "x"}], "index": 3, "data_source": "d"}
        await worker._compute_score(outputs, kwargs=kwargs)
        made: dict[str, Any] = outputs[-1].as_dict()
        assert "response_mask" not in kwargs
        return made

    made = asyncio.run(run())
    assert sent(server)[0]["response"] == "I ask.\n\nI see."
    rewards = made["rm_scores"]
    own = made["response_mask"].bool()
    assert rewards.shape == own.shape
    assert rewards[own][:-1].min() > 0
    assert rewards[~own].abs().sum() == 0
    assert rewards.sum() == pytest.approx(made["extra_fields"]["reward_extra_info"]["score"])
    assert "reward_score" not in made
