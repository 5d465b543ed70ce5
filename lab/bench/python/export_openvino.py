"""Exports a checkpoint to OpenVINO, in fp32 and in int8.

    python export_openvino.py --model DIR --out FOLDER --sentences FILE

writes FOLDER/fp32.xml and FOLDER/int8.xml, each with its weights in .bin. bf16 is
the fp32 model, compiled for that precision. int8 is NNCF's quantisation after
training: SmoothQuant, and scales calibrated with the sentences, a JSON list, in
mini-batches of 32.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import nncf
import openvino
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

BATCH = 32


class Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def convert(directory: str) -> openvino.Model:
    model = AutoModelForSequenceClassification.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    ids = torch.randint(10, 1000, (3, 17))
    mask = torch.ones_like(ids)
    mask[0, 9:] = 0  # a mask of ones only is traced as none
    shape = openvino.PartialShape([-1, -1])
    return openvino.convert_model(
        Logits(model),
        example_input={"input_ids": ids, "attention_mask": mask},
        input=[("input_ids", shape, openvino.Type.i64), ("attention_mask", shape, openvino.Type.i64)],
    )


def batches(directory: str, sentences: list[str], longest: int) -> list[dict]:
    tokenizer = AutoTokenizer.from_pretrained(directory)
    parts = [sentences[at : at + BATCH] for at in range(0, len(sentences), BATCH)]
    options = {"padding": True, "truncation": True, "max_length": longest, "return_tensors": "np"}
    tokenized = [tokenizer(part, **options) for part in parts]
    return [{name: part[name] for name in ("input_ids", "attention_mask")} for part in tokenized]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--model", required=True)
    options.add_argument("--out", required=True, type=Path)
    options.add_argument("--sentences", required=True, type=Path)
    options.add_argument("--max-length", type=int, required=True, help="tokens of a sentence")
    args = options.parse_args()
    sentences = json.loads(args.sentences.read_text(encoding="utf-8"))
    if not sentences:
        raise SystemExit("there are no sentences to calibrate with")
    given = batches(args.model, sentences, args.max_length)
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out) as scratch:
        plain = convert(args.model)
        openvino.save_model(plain, Path(scratch, "fp32.xml"), compress_to_fp16=False)
        small = nncf.quantize(
            plain, nncf.Dataset(given), model_type=nncf.ModelType.TRANSFORMER, subset_size=len(given)
        )
        openvino.save_model(small, Path(scratch, "int8.xml"), compress_to_fp16=False)
        for name in ("fp32.xml", "fp32.bin", "int8.xml", "int8.bin"):
            os.replace(Path(scratch, name), args.out / name)


if __name__ == "__main__":
    main()
