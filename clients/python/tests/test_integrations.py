"""The reward functions, called as the trainers call them."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import Faulty, Handler, Service, error, results

import assay_client as ac
from assay_client.integrations import _base, areal, slime, trl, verl

POLITE = "Drink some water and rest."
RUDE = "Well. You are a stupid idiot and I hate you."
SPAN = "You are a stupid idiot and I hate you."


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Discards the shared clients of earlier tests."""
    yield monkeypatch
    if _base.shared_client.cache_info().currsize:
        _base.shared_client().close()
    _base.shared_client.cache_clear()
    _base.shared_async_client.cache_clear()


@pytest.fixture
def live(service: Service, fresh: pytest.MonkeyPatch) -> Service:
    fresh.setenv("ASSAY_URL", service.url)
    return service


def test_to_item() -> None:
    chat: list[dict[str, Any]] = [
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]},
        {"role": "tool", "content": "t"},
        {"role": "assistant", "content": None, "tool_calls": []},
    ]
    prompt = [{"role": "system", "content": "s"}, {"role": "assistant", "content": "an earlier turn"}]
    item = _base.to_item(chat, prompt)
    assert item.messages is not None
    assert [m["content"] for m in item.messages] == ["a", "t", ""]
    assert item.prompt == "s\nan earlier turn"
    assert _base.strip_special_tokens("Hi.<|im_end|>\n<|endoftext|></s>") == "Hi."
    assert _base.strip_special_tokens("a <|im_end|> in the middle") == "a <|im_end|> in the middle"


@pytest.mark.parametrize(
    "token",
    ["<\uff5cend\u2581of\u2581sentence\uff5c>", "[EOS]", "<bos>", "<unk>", "<|end|>", "<|" + "x" * 62 + "|>"],
)
def test_special_tokens(token: str) -> None:
    assert _base.strip_special_tokens(f"Hi.\u00a0{token}\n {token}{token}\n") == "Hi."
    assert _base.strip_special_tokens(token * 3) == ""
    assert _base.strip_special_tokens(f"{token} Hi. ") == f"{token} Hi."


@pytest.mark.parametrize(
    "text", ["<|a b|>", "<||>", "<|a\uff5c>", "x|>", "<p>", "[ok]", "<|" + "x" * 63 + "|>"]
)
def test_text_that_resembles_a_special_token(text: str) -> None:
    assert _base.strip_special_tokens(text) == text


@pytest.mark.parametrize("piece", [" ", "</s>", "</s> ", "<|a|>", "<|"])
def test_special_tokens_are_removed_in_linear_time(piece: str) -> None:
    began = time.process_time()
    for text in (piece * 50_000 + "x", "x" + piece * 50_000):
        assert _base.strip_special_tokens(text)[-1] in "x|"
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    ("rendered", "plain"),
    [
        ("Why?\n", "Why?\n"),
        ("Is a < b | c > d?", "Is a < b | c > d?"),
        (
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy?\nuser\n<|im_end|>\n"
            "<|im_start|>assistant\n",
            "Be brief.\nWhy?\nuser",
        ),
        ("<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", "Why?"),
        ("<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>", "Why?"),
        ("<pad><bos><start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n", "Why?"),
        ("<s>[INST] Why? [/INST] So.</s>[INST] And? [/INST]", "Why?\nSo.\nAnd?"),
        (
            "<\uff5cbegin▁of▁sentence\uff5c>Be brief.<\uff5cUser\uff5c>What is <think>?"
            "<\uff5cAssistant\uff5c><think>\n",
            "Be brief.\nWhat is <think>?",
        ),
        ("[gMASK]<sop><|user|>\nWhy?<|assistant|>\n", "Why?"),
    ],
)
def test_prompt_text(rendered: str, plain: str) -> None:
    assert _base.prompt_text(rendered) == plain
    assert _base.to_item("So.", [{"role": "user", "content": rendered}]).prompt == plain


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_trl(live: Service, asynchronous: bool, chat: bool) -> None:
    assert live.url
    completions: list[Any] = [POLITE, RUDE, ""]
    prompts: list[Any] = ["p"] * 3
    if chat:
        completions = [[{"role": "assistant", "content": c}] for c in completions]
        prompts = [[{"role": "user", "content": "You idiot!"}]] * 3
    extra: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    given: dict[str, Any] = {
        "prompts": prompts,
        "completions": completions,
        "completion_ids": [[1], [2], [3]],
        "label": ["x"] * 3,
        "trainer_state": None,
        "log_extra": lambda name, values: extra.update({name: values}),
        "log_metric": lambda name, value: metrics.update({name: value}),
    }
    if asynchronous:
        assert inspect.iscoroutinefunction(trl.async_assay_reward)
        assert inspect.iscoroutinefunction(trl.AsyncAssayReward().__call__)
        rewards = asyncio.run(trl.async_assay_reward(**given))
    else:
        assert trl.AssayReward().__name__ == "assay_reward"
        rewards = trl.assay_reward(**given)
    kind, rude, empty = rewards
    assert kind is not None
    assert rude is not None
    assert kind > 0.5 > rude
    assert empty == 0.0
    assert json.loads(extra["assay_witness"][1])["text"] == SPAN
    assert extra["assay_witness"][2] == "null"
    assert metrics["assay/compliant"] == pytest.approx(1 / 3)


def test_trl_older_versions_and_failures(faulty: Faulty) -> None:
    with ac.Client(faulty.url, retry=0) as client:
        reward = trl.AssayReward(client, options=ac.Options(reward="raw"), on_error="nan")
        assert reward(["p"], ["#25"]) == [0.25]
        assert json.loads(faulty.requests[0][2])["options"] == {"reward": "raw", "instances": False}
        faulty.default = error(503, "overloaded")
        assert reward(["p", "q"], ["a", "b"]) == [None, None]
        assert trl.AssayReward(client, on_error=-1.0)(["p"], ["a"]) == [-1.0]
        with pytest.raises(ac.ServiceUnavailableError):
            trl.AssayReward(client)(["p"], ["a"])


def test_aspects(faulty: Faulty) -> None:
    options = ac.Options(aspects=True, combination="sum", weights={"evasion": 2})
    with ac.Client(faulty.url, retry=0) as client:
        result = client.score_one("#25", options=options)
        assert json.loads(faulty.requests[0][2])["options"] == {
            "aspects": True,
            "combination": "sum",
            "weights": {"evasion": 2},
        }
        assert result.aspect == "rudeness"
        assert result.components == {"rudeness": 0.25, "evasion": 0.75}
        assert result.aspects is not None
        assert result.aspects["evasion"].compliant
        assert result.aspects["evasion"].witness is not None
        plain = client.score_one("#25")
        assert plain.aspects is None
        assert plain.components == {}


def test_trl_aspects_share_a_request(faulty: Faulty) -> None:
    metrics: dict[str, float] = {}
    extra: dict[str, list[Any]] = {}
    with ac.Client(faulty.url, retry=0) as client:
        rude, evasive = trl.aspect_rewards(["rudeness", "evasion"], client)
        assert (rude.__name__, evasive.__name__) == ("assay_rudeness", "assay_evasion")
        for batch in (["#25", "#50"], ["#75", "#25"], ["#75", "#25"]):
            given: Any = {"log_metric": metrics.__setitem__, "log_extra": extra.__setitem__}
            rewards = [float(c.replace("#", "0.")) for c in batch]
            assert rude(["p", "q"], batch, **given) == rewards
            assert evasive(["p", "q"], batch, **given) == [1 - r for r in rewards]
        assert len(faulty.requests) == 3, "a batch that is scored again is a new request"
        assert json.loads(faulty.requests[0][2])["responses"][0]["prompt"] == "p"
        assert metrics["assay/evasion/compliant"] == 0.5
        assert extra["assay_rudeness_witness"] == ["#75", "#25"]
        (unknown,) = trl.aspect_rewards(["tone"], client)
        with pytest.raises(ac.InputError, match="it has: evasion, rudeness"):
            unknown(["p"], ["#25"])
        faulty.default = error(503, "overloaded")
        (failing,) = trl.aspect_rewards(["rudeness"], client, on_error="nan")
        assert failing(["p"], ["a"]) == [None]


def test_trl_aspects_in_another_process(faulty: Faulty) -> None:
    """AsyncGRPOTrainer pickles the reward functions, and calls those of a batch concurrently."""
    with ac.Client(faulty.url, retry=0) as client:
        functions = pickle.loads(pickle.dumps(trl.aspect_rewards(["rudeness", "evasion"], client)))
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda f: f(["p", "q"], ["#25", "#50"]), functions))
    assert found == [[0.25, 0.5], [0.75, 0.5]]
    assert len(faulty.requests) == 1


def test_verl_aspects_and_prompt(faulty: Faulty, fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("ASSAY_URL", faulty.url)
    given: dict[str, Any] = {
        "data_sources": ["d"],
        "ground_truths": [None],
        "extra_infos": [{"prompt": [{"role": "user", "content": "Why?"}]}],
    }
    (score,) = verl.compute_score_batch(solution_strs=["#25"], aspects=True, **given)
    assert score["score"] == score["reward_rudeness"] == 0.25
    assert score["violation_evasion"] == 0.25
    assert json.loads(faulty.requests[0][2])["responses"] == [{"response": "#25", "prompt": "Why?"}]


def test_verl_weights(faulty: Faulty, fresh: pytest.MonkeyPatch) -> None:
    """verl converts only the outermost mapping of reward_kwargs to a dict: weights stay a DictConfig."""
    fresh.setenv("ASSAY_URL", faulty.url)
    settings: dict[str, Any] = {"combination": "sum", "weights": MappingProxyType({"evasion": 2.0})}
    verl.compute_score_sync("d", "#25", None, **settings)
    assert json.loads(faulty.requests[0][2])["options"]["weights"] == {"evasion": 2}


def test_verl(live: Service) -> None:
    assert live.url
    given: dict[str, Any] = {"data_source": "d", "ground_truth": None, "extra_info": {"num_turns": 1}}
    scores = [
        asyncio.run(verl.compute_score(solution_str=RUDE, **given)),
        verl.compute_score_sync(solution_str=RUDE, **given),
        *verl.compute_score_batch(["d", "d"], [RUDE, " "], [None, None], [{}, {}]),
    ]
    assert scores[0] == scores[1] == scores[2]
    assert scores[0]["score"] < 0.5
    assert json.loads(scores[0]["witness"])["text"] == SPAN
    assert {k: type(v) for k, v in scores[0].items()} == {k: type(v) for k, v in scores[3].items()}
    raw = verl.compute_score_sync(solution_str=RUDE, reward="raw", reward_router_address="x", **given)
    assert raw["score"] == pytest.approx(1 - raw["violation"], abs=1e-6)


def test_slime(live: Service) -> None:
    assert live.url
    sample = SimpleNamespace(prompt="p", response=RUDE + "<|im_end|>", label=None, metadata={})
    chat = SimpleNamespace(prompt=[{"role": "user", "content": "x"}], response=POLITE, metadata=None)
    args = SimpleNamespace(reward_key=None)
    one = asyncio.run(slime.reward_func(args, sample))
    assert one < 0.5
    assert json.loads(sample.metadata["assay"])["text"] == SPAN
    many = asyncio.run(slime.reward_func(args, [sample, chat], evaluation=True))
    assert many[0] == one
    assert many[1] > 0.5
    keyed = asyncio.run(slime.reward_func(SimpleNamespace(reward_key="score"), sample))
    assert keyed["score"] == one
    assert keyed["compliant"] == 0.0
    empty = SimpleNamespace(prompt=None, response="<|im_end|>", metadata={})
    assert asyncio.run(slime.reward_func(args, empty)) == 0.0
    assert empty.metadata == {"assay": "null"}


def test_slime_scores_only_the_turns_of_the_assistant(live: Service) -> None:
    assert live.url
    insult = "Shut up, you worthless piece of shit."
    header = "<|im_end|>\n<|im_start|>{}\n"
    parts: list[Any] = [{"type": "image", "image": object()}, {"type": "text", "text": "I have a headache."}]
    samples = [
        SimpleNamespace(prompt=[{"role": "user", "content": parts}], response=text, metadata={})
        for text in (
            POLITE + header.format("tool") + insult + header.format("assistant") + POLITE,
            POLITE + header.format("tool") + POLITE + header.format("assistant") + insult,
        )
    ]
    polite, rude = asyncio.run(slime.reward_func(SimpleNamespace(), samples))
    assert polite > 0.5 > rude
    witness = json.loads(samples[1].metadata["assay"])
    assert (witness["text"], witness["message"]) == (insult, 1)


def test_slime_sends_samples_concurrently_and_retries(faulty: Faulty, fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("ASSAY_URL", faulty.url)

    def reply(h: Handler) -> None:
        with h.server.lock:
            assert h.server.lock.wait_for(lambda: len(h.server.requests) > 4, timeout=60)
        body = json.dumps({"responses": [json.loads(h.body)]}).encode()
        h.send(200, results(body)["results"][0])

    faulty.script = [error(503, "overloaded")]
    faulty.default = reply
    group = [SimpleNamespace(prompt="p", response=f"#{k}", metadata=None) for k in range(10, 20)]
    rewards = asyncio.run(slime.reward_func(SimpleNamespace(reward_key=None), group))
    assert rewards == [k / 100 for k in range(10, 20)]
    assert {path for path, _, _ in faulty.requests} == {"/slime/result"}
    assert (len(faulty.requests), faulty.max_in_flight) == (11, 4)


def test_areal(live: Service) -> None:
    assert live.url
    assert areal.reward_fn("p", RUDE + "<|im_end|>", [1], [2], answer="x") < 0.5
    assert areal.reward_fn("p", POLITE, [1], [2]) == areal.reward_fn("p", POLITE + "<|im_end|>", [1], [2])


def test_areal_prompt(faulty: Faulty, fresh: pytest.MonkeyPatch) -> None:
    """AReaL passes the rendered prompt, and the messages as a column of the dataset."""
    fresh.setenv("ASSAY_URL", faulty.url)
    rendered = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    areal.reward_fn(rendered, "#25", [1], [2], messages=[{"role": "user", "content": "Why?"}], answer="x")
    areal.reward_fn(rendered, "#25", [1], [2])
    prompts = [json.loads(body)["responses"][0]["prompt"] for _, _, body in faulty.requests]
    assert prompts == ["Why?", "Why?"]


def test_areal_fails_before_its_timeout(faulty: Faulty, fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("ASSAY_URL", faulty.url)
    fresh.setattr(areal, "DEADLINE", 0.5)
    faulty.default = error(503, "not_ready")
    began = time.monotonic()
    with pytest.raises(ac.DeadlineExceededError) as caught:
        areal.reward_fn("p", POLITE, [1], [2])
    assert time.monotonic() - began < 3
    assert not isinstance(caught.value, TimeoutError)


def test_areal_itself(live: Service, faulty: Faulty, fresh: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("areal.api.reward_api")
    ask = api.AsyncRewardWrapper(areal.reward_fn, max_workers=1)
    assert live.url
    assert asyncio.run(ask("p", POLITE, [1], [2])) > 0.5
    assert faulty.url
    assert fresh


def test_openrlhf(live: Service) -> None:
    torch = pytest.importorskip("torch")
    from assay_client.integrations import openrlhf

    assert live.url
    prompt = "<|im_start|>user\nYou idiot!<|im_end|>\n<|im_start|>assistant\n"
    queries = [prompt + POLITE + "<|im_end|>", prompt + RUDE + "<|im_end|>"]
    found = openrlhf.reward_func(queries, [prompt, prompt], [None, None])
    assert found["rewards"].shape == (2,)
    assert found["rewards"][0] > 0.5 > found["rewards"][1]
    assert torch.equal(found["scores"], found["rewards"])
    assert all(v.shape == (2,) for v in found["extra_logs"].values())


def test_skyrl(live: Service) -> None:
    gym = pytest.importorskip("skyrl_gym")
    assert live.url
    gym.register(id="assay", entry_point="assay_client.integrations.skyrl:AssayEnv")
    env = gym.make("assay", env_config={}, extras={"reward_spec": {}})
    env.init([{"role": "user", "content": "You idiot!"}])
    step = env.step(RUDE + "<|im_end|>")
    assert step["reward"] < 0.5
    assert step["done"]
    assert json.loads(step["metadata"]["witness"])["text"] == SPAN


def test_ms_swift(live: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """With fakes of its base class and registry if ms-swift is not installed."""
    assert live.url
    try:
        from swift.rewards import orms
    except ImportError:

        class ORM:
            def __init__(self, args: Any = None, **_: Any) -> None:
                self.args = args

        orms = {}
        rewards = ModuleType("swift.rewards")
        vars(rewards).update(ORM=ORM, orms=orms)
        monkeypatch.setitem(sys.modules, "swift", ModuleType("swift"))
        monkeypatch.setitem(sys.modules, "swift.rewards", rewards)
    from assay_client.integrations import ms_swift

    made = orms["assay"](args=None)
    found = made([POLITE, RUDE], trainer_state=None, solution=["a", "b"])
    assert found[0] > 0.5 > found[1]
    ms_swift.register_aspects(["default"])
    aspect = orms["assay_default"](args=None)
    assert type(aspect).__name__ == "AssayDefault", "ms-swift logs it by this name"
    chat = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": RUDE}]
    assert aspect([RUDE], messages=[chat], trainer_state=None)[0] < 0.5
