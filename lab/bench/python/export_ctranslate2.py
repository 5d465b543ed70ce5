"""Converts a checkpoint to CTranslate2, in int8.

    python export_ctranslate2.py --model DIR --out FOLDER

CTranslate2 has the encoder only: FOLDER/head.npz has the weights of the
classification head.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import torch
from ctranslate2.converters import TransformersConverter
from ctranslate2.converters.transformers import RobertaLoader, register_loader
from transformers import AutoModelForSequenceClassification


@register_loader("RobertaConfig")
class Loader(RobertaLoader):
    def get_model_spec(self, model):
        model.config.position_embedding_type = "absolute"  # transformers 5 has no other, nor a field for it
        return super().get_model_spec(model)

    def get_vocabulary(self, model, tokenizer):
        tokens = super().get_vocabulary(model, tokenizer)
        return tokens + [f"unused{i}" for i in range(len(tokens), model.config.vocab_size)]

    def set_position_encodings(self, spec, module):
        spec.encodings = module.weight[module.padding_idx + 1 :]  # also where the padding is token 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--model", required=True)
    options.add_argument("--out", required=True, type=Path)
    args = options.parse_args()
    TransformersConverter(args.model).convert(str(args.out), quantization="int8", force=True)
    model = AutoModelForSequenceClassification.from_pretrained(args.model, dtype=torch.float32)
    head = {name: weight.numpy() for name, weight in model.classifier.state_dict().items()}
    scratch = args.out / "scratch.npz"
    np.savez(scratch, **head)
    os.replace(scratch, args.out / "head.npz")


if __name__ == "__main__":
    main()
