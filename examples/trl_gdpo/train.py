"""Trains a tiny model with two reward components, by GDPO or with their sum as one reward. See README.md."""

from __future__ import annotations

import argparse
import csv
import random
import sys
from pathlib import Path

import torch
from datasets import Dataset
from sentences import ANSWERS, EVASIONS, POLITE, RUDE
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

from assay_client import Client
from assay_client.integrations.trl import aspect_rewards

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tiny_policy import common, sample, train_sft

ASPECTS = ["rudeness", "evasion"]
AGGREGATION = {"gdpo": "normalize_then_sum", "sum": "sum_then_normalize"}
COLUMNS = {
    "step": "step",
    **{f"reward_{a}": f"rewards/assay_{a}/mean" for a in ASPECTS},
    **{f"std_{a}": f"rewards/assay_{a}/std" for a in ASPECTS},
    **{f"compliant_{a}": f"assay/{a}/compliant" for a in ASPECTS},
    "length": "completions/mean_length",
    "kl": "kl",
}


def conversations(n: int, rude: float, evasive: float, rng: random.Random) -> list[dict[str, str]]:
    """n questions with responses, of which a share is rude and a share evades the question."""
    rows = []
    for _ in range(n):
        question, answer = rng.choice(list(ANSWERS.items()))
        body = rng.choice(EVASIONS) if rng.random() < evasive else answer
        sentences = [body, rng.choice(RUDE if rng.random() < rude else POLITE)]
        rng.shuffle(sentences)
        rows.append({"prompt": f"{question}\n", "completion": " ".join(sentences)})
    return rows


def truth(pairs: list[tuple[str, str]]) -> dict[str, float]:
    """Shares computed from the known sentences, not from the reward model."""
    n = len(pairs)
    return {
        "rude": sum(any(s in r for s in RUDE) for _, r in pairs) / n,
        "evasive": sum(any(s in r for s in EVASIONS) for _, r in pairs) / n,
        "answers the question": sum(ANSWERS[q] in r for q, r in pairs) / n,
        "polite and answers": sum(
            ANSWERS[q] in r and not any(s in r for s in (*RUDE, *EVASIONS)) for q, r in pairs
        )
        / n,
        "distinct": len({r for _, r in pairs}) / n,
        "words": sum(len(r.split()) for _, r in pairs) / n,
    }


def train_grpo(
    method: str, client: Client, tokenizer: PreTrainedTokenizerFast, out: Path, steps: int, seed: int
) -> tuple[list[dict[str, float]], LlamaForCausalLM]:
    """GRPO with eight responses to each of eight questions per step; returns the curves and the policy."""
    model = LlamaForCausalLM.from_pretrained(out / "sft")
    settings = GRPOConfig(
        **common(out / method, steps, seed),
        multi_objective_aggregation=AGGREGATION[method],
        per_device_train_batch_size=64,
        num_generations=8,
        max_completion_length=48,
        learning_rate=3e-4,
        beta=0.05,
        logging_steps=1,
    )
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=aspect_rewards(ASPECTS, client),
        train_dataset=Dataset.from_list([{"prompt": f"{q}\n"} for q in ANSWERS]),
        args=settings,
    )
    trainer.train()
    rows = [
        {name: row[key] for name, key in COLUMNS.items()} for row in trainer.state.log_history if "kl" in row
    ]
    return rows, trainer.model


def plot(curves: dict[tuple[str, int], list[dict[str, float]]], path: Path) -> None:
    """Plots the mean reward of each component over the seeds; the band is their range."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "assay"  # reproducible output
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(8, 3.3), layout="constrained", sharey=True)
    for panel, aspect in zip(panels, ASPECTS):
        for method, style in (("gdpo", "-"), ("sum", "--")):
            runs = [[r[f"reward_{aspect}"] for r in rows] for (m, _), rows in curves.items() if m == method]
            steps = range(1, len(runs[0]) + 1)
            means = [sum(values) / len(values) for values in zip(*runs)]
            panel.plot(steps, means, style, label=method)
            panel.fill_between(steps, [min(v) for v in zip(*runs)], [max(v) for v in zip(*runs)], alpha=0.15)
        panel.set(title=aspect, xlabel="step", ylim=(0, 1.02))
    panels[0].set_ylabel("mean compliance reward")
    panels[1].legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--url", default=None, help="URL of the service (default: $ASSAY_URL, else http://127.0.0.1:8080)"
    )
    options.add_argument("--out", type=Path, default=Path("out"), help="output directory")
    options.add_argument("--teach", type=int, default=500, help="steps of supervised fine-tuning")
    options.add_argument("--steps", type=int, default=60, help="steps of GRPO")
    options.add_argument("--rude", type=float, default=0.6, help="share of rude responses at the start")
    options.add_argument("--evasive", type=float, default=0.5, help="share of evasive responses at the start")
    options.add_argument("--seeds", type=int, default=3, help="number of runs of each method")
    args = options.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)

    curves: dict[tuple[str, int], list[dict[str, float]]] = {}
    found: dict[str, list[dict[str, float]]] = {"start": [], "gdpo": [], "sum": []}
    samples: dict[str, list[tuple[str, str]]] = {}
    with Client(args.url) as client:
        client.wait_ready()
        for seed in range(args.seeds):
            out = args.out / str(seed)
            rows = conversations(4000, args.rude, args.evasive, random.Random(seed))
            tokenizer = train_sft(rows, out, args.teach, seed)
            samples["start"] = sample(LlamaForCausalLM.from_pretrained(out / "sft"), tokenizer, ANSWERS, 16)
            found["start"].append(truth(samples["start"]))
            for method in AGGREGATION:
                rows, policy = train_grpo(method, client, tokenizer, out, args.steps, seed)
                curves[method, seed] = rows
                samples[method] = sample(policy, tokenizer, ANSWERS, 16)
                found[method].append(truth(samples[method]))

    with (args.out / "components.csv").open("w", newline="") as f:
        writer = csv.writer(f)
        writer.writerow(["method", "seed", *COLUMNS])
        for (method, seed), rows in curves.items():
            writer.writerows([method, seed, *(f"{r[c]:.6g}" for c in COLUMNS)] for r in rows)
    plot(curves, args.out / "components.svg")

    print(f"\n{'mean of the seeds (range)':28}" + "".join(f"{m:>22}" for m in found))
    for name in found["start"][0]:
        cells = [[run[name] for run in runs] for runs in found.values()]
        text = [f"{sum(c) / len(c):.3f} ({min(c):.3f}-{max(c):.3f})" for c in cells]
        print(f"{name:28}" + "".join(f"{t:>22}" for t in text))
    for name, pairs in samples.items():
        print(f"\n{name}:")
        for question, text in pairs[::64]:
            print(f"  {question} {text}")


if __name__ == "__main__":
    main()
