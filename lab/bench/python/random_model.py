"""Makes a checkpoint of RoBERTa-base's shape with random weights: enough for speed.

python random_model.py --tokenizer DIR --out FOLDER [--layers N --hidden N]
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

VOCABULARY = 50265  # of RoBERTa; a smaller tokenizer leaves the last rows unused


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--tokenizer", required=True, type=Path, help="directory with vocab.json and merges.txt, or vocab.txt")
    options.add_argument("--out", required=True, type=Path)
    options.add_argument("--layers", type=int, default=12)
    options.add_argument("--hidden", type=int, default=768)
    args = options.parse_args()
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=514,
        pad_token_id=0 if (args.tokenizer / "vocab.txt").exists() else 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        num_hidden_layers=args.layers,
        hidden_size=args.hidden,
        intermediate_size=4 * args.hidden,
        num_attention_heads=args.hidden // 64,
        initializer_range=0.05,  # wider than for training, so that scores differ between texts
        id2label={0: "violation", 1: "compliant"},
        label2id={"violation": 0, "compliant": 1},
    )
    RobertaForSequenceClassification(config).save_pretrained(args.out)
    for name in ("vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        if (args.tokenizer / name).exists():
            shutil.copy(args.tokenizer / name, args.out / name)


if __name__ == "__main__":
    main()
