"""Trains a tiny rude model to be polite, by GRPO with assay's compliance reward. See README.md."""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import time
from pathlib import Path

import pandas
import torch
from datasets import Dataset
from sentences import ANSWERS, POLITE, RUDE
from transformers import LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

from assay_client import Client
from assay_client.integrations.trl import AssayReward

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tiny_policy import common, sample, train_sft

COLUMNS = [
    "step",
    "reward",
    "reward_std",
    "assay/violation",
    "assay/compliant",
    "assay/empty",
    "assay/stopped",
    "completions/mean_length",
    "kl",
    "entropy",
]
RUDE_SENTENCES = [s for part in RUDE.values() for s in part]


def conversations(n: int, rude: float, rng: random.Random) -> list[dict[str, str]]:
    """n questions with answers, of which a share has rude sentences before the answer, after it, or both."""
    rows = []
    for _ in range(n):
        question, answer = rng.choice(list(ANSWERS.items()))
        tone = RUDE if rng.random() < rude else POLITE
        before, after = rng.choice([(True, False), (False, True), (True, True)])
        sentences = [rng.choice(tone["before"])] * before + [answer] + [rng.choice(tone["after"])] * after
        rows.append({"prompt": f"{question}\n", "completion": " ".join(sentences)})
    return rows


def evaluate(client: Client, pairs: list[tuple[str, str]]) -> dict[str, float]:
    """The mean reward, and metrics computed from the known sentences rather than from the reward model."""
    results, n = client.score([answer for _, answer in pairs]), len(pairs)
    rude = [any(s in answer for s in RUDE_SENTENCES) for _, answer in pairs]
    return {
        "mean reward": sum(r.reward for r in results) / n,
        "compliant": sum(r.compliant for r in results) / n,
        "contains a rude sentence": sum(rude) / n,
        "rude but compliant": sum(is_rude and r.compliant for is_rude, r in zip(rude, results)) / n,
        "still answers the question": sum(ANSWERS[q] in answer for q, answer in pairs) / n,
        "distinct": len({answer for _, answer in pairs}) / n,
        "empty": sum(r.empty for r in results) / n,
        "words": sum(len(answer.split()) for _, answer in pairs) / n,
    }


def train_grpo(
    model, tokenizer, reward, out: Path, steps: int, seed: int, kind: type[GRPOTrainer] = GRPOTrainer, **settings
) -> GRPOTrainer:
    """GRPO with eight answers to each of eight questions per step, and no other reward."""
    trainer = kind(
        model=model,
        processing_class=tokenizer,
        reward_funcs=[reward],
        train_dataset=Dataset.from_list([{"prompt": f"{q}\n"} for q in ANSWERS]),
        args=GRPOConfig(
            **common(out, steps, seed),
            per_device_train_batch_size=64,
            num_generations=8,
            max_completion_length=48,
            learning_rate=3e-4,
            beta=0.05,
            scale_rewards="none",
            logging_steps=1,
            log_completions=True,
            num_completions_to_print=0,
        ),
        **settings,
    )
    trainer.train()
    return trainer


def early_stopping(client: Client, when: str) -> dict:
    """The arguments of train_grpo for a choice of --early-stopping."""
    if when == "off":
        return {}
    from assay_client.integrations.early_stopping import final, violation
    from assay_client.integrations.trl_early_stopping import EarlyStoppingGRPOTrainer

    verdicts = {"final": final, "violation": violation}
    return {"kind": EarlyStoppingGRPOTrainer, "live_client": client, "when": verdicts[when]}


def witnesses(table: Path, n: int) -> list[str]:
    """n violations of a step from the table that TRL stored, with the witness marked."""
    rows = pandas.read_parquet(table)
    rows = rows[rows["assay_reward"] < 0.5][:n]
    lines = []
    for completion, reward, witness in zip(rows["completion"], rows["assay_reward"], rows["assay_witness"]):
        span = json.loads(witness)
        marked = (
            f"{completion[: span['start']]}[[{span['text']}]]{completion[span['end'] :]}"
            if span
            else "(empty)"
        )
        lines.append(f"{reward:.2f} {marked}")
    return lines


def mean(rows: list[dict[str, float]], column: str) -> float:
    """The mean of a column, 0 where it is missing."""
    return sum(r.get(column, 0.0) for r in rows) / max(len(rows), 1)


def plot(rows: list[dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "assay"  # reproducible output
    from matplotlib import pyplot

    steps, rewards = [r["step"] for r in rows], [r["reward"] for r in rows]
    spread = [r["reward_std"] for r in rows]
    figure, axes = pyplot.subplots(figsize=(7, 3.5), layout="constrained")
    axes.fill_between(
        steps,
        [r - s for r, s in zip(rewards, spread)],
        [min(1, r + s) for r, s in zip(rewards, spread)],
        alpha=0.2,
    )
    axes.plot(steps, rewards, label="mean compliance reward (band: standard deviation)")
    axes.plot(steps, [r["assay/compliant"] for r in rows], "--", label="fraction of compliant responses")
    axes.set(xlabel="GRPO step", ylim=(0, 1.02))
    axes.legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--url", default=None, help="URL of the service (default: $ASSAY_URL, else http://127.0.0.1:8080)"
    )
    options.add_argument("--out", type=Path, default=Path("out"), help="output directory")
    options.add_argument("--teach", type=int, default=400, help="steps of supervised fine-tuning")
    options.add_argument("--steps", type=int, default=100, help="steps of GRPO")
    options.add_argument(
        "--rude", type=float, default=0.7, help="fraction of rude answers in supervised fine-tuning"
    )
    options.add_argument("--seed", type=int, default=0)
    options.add_argument(
        "--early-stopping",
        choices=["off", "violation", "final"],
        default="off",
        help="stop completions that are not compliant so far, or (final) that can no longer become so",
    )
    args = options.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)

    with Client(args.url) as client:
        client.wait_ready()
        rows = conversations(4000, args.rude, random.Random(args.seed))
        tokenizer = train_sft(rows, args.out, args.teach, args.seed)
        model = LlamaForCausalLM.from_pretrained(args.out / "sft")
        first = sample(model, tokenizer, ANSWERS, 8)
        before = evaluate(client, first)

        start = time.monotonic()
        trainer = train_grpo(
            model,
            tokenizer,
            AssayReward(client),
            args.out,
            args.steps,
            args.seed,
            **early_stopping(client, args.early_stopping),
        )
        seconds = time.monotonic() - start
        last = sample(model, tokenizer, ANSWERS, 8)
        after = evaluate(client, last)

    rows = [r for r in trainer.state.log_history if "reward" in r]
    with (args.out / "metrics.csv").open("w", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, args.out / "reward.svg")

    tokens = sum(r["completions/mean_length"] for r in rows) * trainer.args.per_device_train_batch_size
    tail = rows[-10:]
    print(f"\nearly stopping: {args.early_stopping}; stopped: {mean(rows, 'assay/stopped'):.3f}")
    print(f"{len(rows)} GRPO steps in {seconds:.1f} s, {tokens:.0f} tokens in completions")
    print(f"mean reward of the last {len(tail)} steps: {mean(tail, 'reward'):.4f}")
    print(f"\n{'of 128 sampled responses':30} before  after")
    for name in before:
        print(f"{name:30} {before[name]:6.3f} {after[name]:6.3f}")
    for title, pairs in (("before", first), ("after", last)):
        print(f"\n{title}:")
        for question, answer in pairs[::16]:
            print(f"  {question} {answer}")
    print("\nviolations of the first GRPO step, with the witness in brackets:")
    for line in witnesses(args.out / "completions" / "completions_00001.parquet", 6):
        print(f"  {line}")


if __name__ == "__main__":
    main()
