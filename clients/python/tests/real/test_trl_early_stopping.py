"""Early stopping with the real transformers and TRL, against a scripted server.

Requires TRL and torch. Model and text are those of examples/trl_grpo.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from live_server import LiveServer, live_server

from assay_client import Client

__all__ = ["live_server"]

WHY = "TRL is not installed (pip install -r examples/trl_grpo/requirements.txt)"
torch = pytest.importorskip("torch", reason=WHY)
trl = pytest.importorskip("trl", reason=WHY)
transformers = pytest.importorskip("transformers", reason=WHY)
datasets = pytest.importorskip("datasets", reason=WHY)

pytestmark = pytest.mark.filterwarnings("ignore")  # of TRL and its dependencies

KEPT = "Hello. You are an idiot \U0001f600."
TEXTS = [
    KEPT + " And so on, without end. And so on.",
    "Hello. Good. Thanks.",
    KEPT,
    "Hello. It has no end and",
]


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    directory = str(ROOT / "examples" / "trl_grpo")
    sys.path.insert(0, directory)
    yield importlib.import_module("train")
    sys.path.remove(directory)


class Script(transformers.LogitsProcessor):  # type: ignore[misc,name-defined]
    """Makes each sequence of a batch say its text, and counts the steps."""

    def __init__(self, ids: list[list[int]], prompt: int) -> None:
        self.ids, self.prompt, self.steps = ids, prompt, 0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        step = input_ids.shape[1] - self.prompt
        self.steps = step + 1
        forced = torch.full_like(scores, float("-inf"))
        for row, ids in enumerate(self.ids):
            forced[row, ids[min(step, len(ids) - 1)]] = 0.0
        return forced


def test_stopping_criteria(example: Any, live_server: LiveServer) -> None:
    from assay_client.integrations.transformers import AssayStoppingCriteria

    rows = example.conversations(50, 0.5, random.Random(0))
    model, tokenizer = importlib.import_module("tiny_policy").random_policy(rows)
    said = [tokenizer.encode(text) for text in TEXTS]
    eos = [tokenizer.eos_token_id]
    script = [ids + eos for ids in said[:3]] + [said[3] * 9]
    prompts = tokenizer(["Hi? "] * len(TEXTS), return_tensors="pt", return_token_type_ids=False)
    prompt = prompts["input_ids"].shape[1]
    limit = max(map(len, script[:3]))
    processor = Script(script, prompt)
    with (
        Client(live_server.url) as client,
        AssayStoppingCriteria(tokenizer, client, prompts=["Hi?"] * len(TEXTS)) as criteria,
    ):
        ids = model.generate(
            **prompts,
            max_new_tokens=limit,
            do_sample=True,
            logits_processor=[processor],
            stopping_criteria=[criteria],
        )
        outcomes = criteria.finish()
    kept = [row[prompt : prompt + o.tokens].tolist() for row, o in zip(ids, outcomes)]
    assert [o.finish_reason for o in outcomes] == ["content_filter", "stop", "stop", "length"]
    assert tokenizer.decode(kept[0]) == KEPT
    assert kept[1] == script[1]
    assert kept[2] == script[2], "it ended by itself after the violation"
    assert len(kept[3]) == limit
    assert [round(o.reward or 0, 6) for o in outcomes] == [0.1, 0.9, 0.1, 0.9]
    assert [opened["prompt"] for opened in live_server.opened] == ["Hi?"] * 5
    assert live_server.texts[4] == KEPT, "what is kept of the stopped one is scored by itself"


def test_stopping_criteria_without_a_service(example: Any) -> None:
    from assay_client.integrations.transformers import AssayStoppingCriteria

    rows = example.conversations(50, 0.5, random.Random(0))
    model, tokenizer = importlib.import_module("tiny_policy").random_policy(rows)
    prompts = tokenizer(["Hi? "] * 2, return_tensors="pt", return_token_type_ids=False)
    with (
        Client("http://127.0.0.1:9", retry=0) as client,
        AssayStoppingCriteria(tokenizer, client) as criteria,
    ):
        model.generate(**prompts, max_new_tokens=5, min_new_tokens=5, stopping_criteria=[criteria])
        assert [(o.tokens, o.finish_reason, o.reward) for o in criteria.finish()] == [(5, "length", None)] * 2


@pytest.fixture(scope="module")
def policy(example: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a model whose answers are all rude."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("policy")
    example.train_sft(example.conversations(2000, 1.0, random.Random(0)), out, steps=100, seed=0)
    return out / "sft"


def test_grpo(example: Any, policy: Path, live_server: LiveServer, tmp_path: Path) -> None:
    from assay_client.integrations.trl_early_stopping import EarlyStoppingGRPOTrainer

    live_server.bad = [sentence.rstrip(".") for sentence in example.RUDE["before"]]
    seen: list[tuple[str, list[int]]] = []

    def reward(completions: list[str], completion_ids: list[list[int]], **_: Any) -> list[float]:
        seen.extend(zip(completions, completion_ids))
        return [float(len(text)) for text in completions]

    def train(kind: type[Any], **settings: Any) -> Any:
        trainer = kind(
            model=transformers.AutoModelForCausalLM.from_pretrained(policy),
            processing_class=transformers.AutoTokenizer.from_pretrained(policy),
            reward_funcs=[reward],
            train_dataset=datasets.Dataset.from_list([{"prompt": f"{q}\n"} for q in example.ANSWERS]),
            args=trl.GRPOConfig(
                **example.common(tmp_path, 2, 7),
                per_device_train_batch_size=16,
                num_generations=4,
                max_completion_length=40,
                logging_steps=1,
                log_completions=True,
                num_completions_to_print=0,
            ),
            **settings,
        )
        trainer.train()
        return [row for row in trainer.state.log_history if "reward" in row]

    with Client(live_server.url) as client:
        rows = train(EarlyStoppingGRPOTrainer, live_client=client)
    early, seen[:] = seen[:], []
    plain = train(trl.GRPOTrainer)
    assert [row["num_tokens"] for row in rows] < [row["num_tokens"] for row in plain]
    stopped = [row["assay/stopped"] for row in rows]
    assert all(0 < share <= 1 for share in stopped), stopped

    # A completion ends with its first bad sentence if anything followed it.
    tokenizer = transformers.AutoTokenizer.from_pretrained(policy)
    assert len(early) == 32
    for text, ids in early:
        ends = [text.find(bad) + len(bad) + 1 for bad in live_server.bad if bad + ". " in text]
        assert not ends or text[min(ends) :].strip() == "", text
        assert tokenizer.pad_token_id not in ids
    pandas = importlib.import_module("pandas")
    table = pandas.read_parquet(next((tmp_path / "completions").glob("*1.parquet")))
    assert "reward" in table


def test_grpo_refuses_what_it_cannot_stop(policy: Path, tmp_path: Path) -> None:
    from assay_client.integrations.trl_early_stopping import EarlyStoppingGRPOTrainer

    with pytest.raises(ValueError, match="mask_truncated_completions"):
        EarlyStoppingGRPOTrainer(
            model=transformers.AutoModelForCausalLM.from_pretrained(policy),
            processing_class=transformers.AutoTokenizer.from_pretrained(policy),
            reward_funcs=[len],
            train_dataset=datasets.Dataset.from_list([{"prompt": "x"}]),
            args=trl.GRPOConfig(
                str(tmp_path), use_cpu=True, bf16=False, report_to="none", mask_truncated_completions=True
            ),
        )
