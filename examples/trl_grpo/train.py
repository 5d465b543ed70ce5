"""GRPO with assay's compliance reward teaches a tiny, rude model to be polite. See README.md."""

from __future__ import annotations

import argparse
import csv
import json
import random
from pathlib import Path

import pandas
import torch
from datasets import Dataset
from sentences import ANSWERS, POLITE, RUDE
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from assay_client import Client
from assay_client.integrations.trl import AssayReward

COLUMNS = [
    "step",
    "reward",
    "reward_std",
    "assay/violation",
    "assay/compliant",
    "assay/empty",
    "kl",
    "entropy",
]
RUDE_SENTENCES = [s for part in RUDE.values() for s in part]


def conversations(n: int, rude: float, rng: random.Random) -> list[dict[str, str]]:
    """n questions with answers, a share of them rude before or after the answer, or both."""
    rows = []
    for _ in range(n):
        question, answer = rng.choice(list(ANSWERS.items()))
        manner = RUDE if rng.random() < rude else POLITE
        before, after = rng.choice([(True, False), (False, True), (True, True)])
        said = [rng.choice(manner["before"])] * before + [answer] + [rng.choice(manner["after"])] * after
        rows.append({"prompt": f"{question}\n", "completion": " ".join(said)})
    return rows


def blank(rows: list[dict[str, str]]) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A Llama of half a million weights that knows nothing, and a tokenizer of its words."""
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


def taught(out: Path, steps: int, rude: float, seed: int) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """The policy that GRPO begins with: it answers, and is rude as often as its text."""
    set_seed(seed)
    rows = conversations(4000, rude, random.Random(seed))
    model, tokenizer = blank(rows)
    trainer = SFTTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=Dataset.from_list(rows),
        args=SFTConfig(
            output_dir=str(out / "taught"),
            max_steps=steps,
            per_device_train_batch_size=32,
            learning_rate=3e-3,
            lr_scheduler_type="cosine",
            logging_steps=50,
            use_cpu=True,
            bf16=False,
            seed=seed,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
    )
    trainer.train()
    trainer.save_model()  # GRPO reads its reference from there
    return LlamaForCausalLM.from_pretrained(out / "taught"), tokenizer


@torch.no_grad()
def speak(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, times: int) -> list[tuple[str, str]]:
    """Sampled answers to each question, `times` of each."""
    tokenizer.padding_side = "left"
    prompts = [f"{q}\n" for q in ANSWERS for _ in range(times)]
    given = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    ids = model.eval().generate(**given, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=48)
    said = tokenizer.batch_decode(ids[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
    return [(p.strip(), s) for p, s in zip(prompts, said)]


def judged(client: Client, pairs: list[tuple[str, str]]) -> dict[str, float]:
    """The reward, and what the reward does not tell: known from the sentences, not from the model."""
    results, n = client.score([said for _, said in pairs]), len(pairs)
    rude = [any(s in said for s in RUDE_SENTENCES) for _, said in pairs]
    return {
        "mean reward": sum(r.reward for r in results) / n,
        "compliant": sum(r.compliant for r in results) / n,
        "contains a rude sentence": sum(rude) / n,
        "rude and yet compliant": sum(was and r.compliant for was, r in zip(rude, results)) / n,
        "still answers the question": sum(ANSWERS[q] in said for q, said in pairs) / n,
        "distinct": len({said for _, said in pairs}) / n,
        "empty": sum(r.empty for r in results) / n,
        "words": sum(len(said.split()) for _, said in pairs) / n,
    }


def polished(model, tokenizer, reward, out: Path, steps: int, seed: int) -> GRPOTrainer:
    """GRPO: eight answers to each of eight questions a step, the reward alone says which were better."""
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=[reward],
        train_dataset=Dataset.from_list([{"prompt": f"{q}\n"} for q in ANSWERS]),
        args=GRPOConfig(
            output_dir=str(out),
            max_steps=steps,
            per_device_train_batch_size=64,
            num_generations=8,
            max_completion_length=48,
            learning_rate=3e-4,
            beta=0.05,
            scale_rewards="none",
            logging_steps=1,
            log_completions=True,
            num_completions_to_print=0,
            use_cpu=True,
            bf16=False,
            seed=seed,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
    )
    trainer.train()
    return trainer


def witnesses(table: Path, n: int) -> list[str]:
    """n completions of a step that break the policy, as TRL stored them, with the span of log_extra."""
    rows = pandas.read_parquet(table)
    rows = rows[rows["assay_reward"] < 0.5][:n]
    shown = []
    for said, reward, witness in zip(rows["completion"], rows["assay_reward"], rows["assay_witness"]):
        span = json.loads(witness)
        marked = f"{said[: span['start']]}[[{span['text']}]]{said[span['end'] :]}" if span else "(empty)"
        shown.append(f"{reward:.2f} {marked}")
    return shown


def plot(rows: list[dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "assay"  # the same figures, the same file
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
    axes.plot(steps, [r["assay/compliant"] for r in rows], "--", label="share of compliant responses")
    axes.set(xlabel="step of GRPO", ylim=(0, 1.02))
    axes.legend(loc="lower right")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--url", default=None, help="the service; default $ASSAY_URL or http://127.0.0.1:8080"
    )
    options.add_argument("--out", type=Path, default=Path("out"), help="folder of what is written")
    options.add_argument("--teach", type=int, default=400, help="steps of the supervised pass")
    options.add_argument("--steps", type=int, default=100, help="steps of GRPO")
    options.add_argument(
        "--rude", type=float, default=0.7, help="share of rude answers in the supervised pass"
    )
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)

    with Client(args.url) as client:
        client.wait_ready()
        model, tokenizer = taught(args.out, args.teach, args.rude, args.seed)
        first = speak(model, tokenizer, 8)
        before = judged(client, first)

        trainer = polished(model, tokenizer, AssayReward(client), args.out, args.steps, args.seed)
        last = speak(model, tokenizer, 8)
        after = judged(client, last)

    rows = [r for r in trainer.state.log_history if "reward" in r]
    with (args.out / "metrics.csv").open("w", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, args.out / "reward.svg")

    print(f"\n{'of 128 sampled responses':30} before  after")
    for name in before:
        print(f"{name:30} {before[name]:6.3f} {after[name]:6.3f}")
    for title, pairs in (("before", first), ("after", last)):
        print(f"\n{title}:")
        for question, said in pairs[::16]:
            print(f"  {question} {said}")
    print("\nwhat the first step of GRPO was told, the witness in brackets:")
    for line in witnesses(args.out / "completions" / "completions_00001.parquet", 6):
        print(f"  {line}")


if __name__ == "__main__":
    main()
