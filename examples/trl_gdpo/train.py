"""Trains a tiny model with two reward components, by GDPO or with their sum as one reward. See README.md."""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

import torch
from datasets import Dataset
from sentences import ANSWERS, EVASIONS, POLITE, RUDE
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from assay_client import Client
from assay_client.integrations.trl import aspect_rewards

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


def random_policy(rows: list[dict[str, str]]) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A randomly initialized Llama with half a million parameters, and a tokenizer trained on rows."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        (r["prompt"] + r["completion"] for r in rows),
        trainers.BpeTrainer(
            vocab_size=800,
            special_tokens=["<pad>", "<eos>"],
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token="<eos>")
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return LlamaForCausalLM(config), tokenizer


def common(out: Path, steps: int, seed: int) -> dict[str, object]:
    return {
        "output_dir": str(out),
        "max_steps": steps,
        "use_cpu": True,
        "bf16": False,
        "seed": seed,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def train_sft(out: Path, steps: int, rude: float, evasive: float, seed: int) -> PreTrainedTokenizerFast:
    """Supervised fine-tuning of the initial policy, which is as often rude and evasive as its text."""
    set_seed(seed)
    rows = conversations(4000, rude, evasive, random.Random(seed))
    model, tokenizer = random_policy(rows)
    settings = SFTConfig(
        **common(out / "sft", steps, seed),
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        lr_scheduler_type="cosine",
        logging_steps=50,
    )
    trainer = SFTTrainer(
        model=model, processing_class=tokenizer, train_dataset=Dataset.from_list(rows), args=settings
    )
    trainer.train()
    trainer.save_model()  # both runs start from there, and load their reference model from there
    return tokenizer


@torch.no_grad()
def sample(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, n: int) -> list[tuple[str, str]]:
    """Samples n responses to each question; returns pairs of question and response."""
    tokenizer.padding_side = "left"
    prompts = [f"{q}\n" for q in ANSWERS for _ in range(n)]
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    ids = model.eval().generate(**inputs, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=48)
    texts = tokenizer.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return [(p.strip(), s) for p, s in zip(prompts, texts)]


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
            tokenizer = train_sft(out, args.teach, args.rude, args.evasive, seed)
            samples["start"] = sample(LlamaForCausalLM.from_pretrained(out / "sft"), tokenizer, 16)
            found["start"].append(truth(samples["start"]))
            for method in AGGREGATION:
                rows, policy = train_grpo(method, client, tokenizer, out, args.steps, seed)
                curves[method, seed] = rows
                samples[method] = sample(policy, tokenizer, 16)
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
