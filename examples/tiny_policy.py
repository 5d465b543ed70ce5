"""A tiny policy for the examples with TRL: its model, its fine-tuning and its samples."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

Rows = list[dict[str, str]]


def random_policy(rows: Rows) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
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


def common(out: Path, steps: int, seed: int) -> dict[str, Any]:
    """The settings that all training runs share."""
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


def train_sft(rows: Rows, out: Path, steps: int, seed: int) -> PreTrainedTokenizerFast:
    """Supervised fine-tuning of a random policy, stored in out/sft; returns its tokenizer."""
    set_seed(seed)
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
    trainer.save_model()  # GRPO starts from there, and loads its reference model from there
    return tokenizer


@torch.no_grad()
def sample(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, questions: Iterable[str], n: int
) -> list[tuple[str, str]]:
    """Samples n responses to each question; returns pairs of question and response."""
    tokenizer.padding_side = "left"
    prompts = [f"{q}\n" for q in questions for _ in range(n)]
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    ids = model.eval().generate(**inputs, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=48)
    texts = tokenizer.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    return [(p.strip(), s) for p, s in zip(prompts, texts)]
