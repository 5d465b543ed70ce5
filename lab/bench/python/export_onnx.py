"""Exports a checkpoint to ONNX, fused for the CPU, in fp32 and in int8.

    python export_onnx.py --model DIR --out FOLDER

writes FOLDER/fp32.onnx and FOLDER/int8.onnx. Attention, layer norm and GELU are
fused by onnxruntime.transformers; int8 is dynamic quantisation of all products
with weights, by channel.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import torch
from onnx import TensorProto
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.fusion_options import FusionOptions
from onnxruntime.transformers.optimizer import optimize_model
from transformers import AutoConfig, AutoModelForSequenceClassification


class Logits(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def export(directory: str, out: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    ids = torch.randint(10, 1000, (3, 17))
    names, axes = ["input_ids", "attention_mask"], {0: "batch", 1: "length"}
    # Of both exporters, this one's graph is what the fusions know: with the newer, attention stays in pieces.
    torch.onnx.export(
        Logits(model),
        (ids, torch.ones_like(ids)),
        out,
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: axes for name in names},
        dynamo=False,
        opset_version=17,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--model", required=True)
    options.add_argument("--out", required=True, type=Path)
    args = options.parse_args()
    config = AutoConfig.from_pretrained(args.model)
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out) as scratch:
        plain, fused, small = (Path(scratch, name) for name in ("plain.onnx", "fp32.onnx", "int8.onnx"))
        export(args.model, plain)
        optimized = optimize_model(
            str(plain),
            model_type="bert",
            num_heads=config.num_attention_heads,
            hidden_size=config.hidden_size,
            opt_level=0,
            optimization_options=FusionOptions("bert"),
        )
        fused_attention = optimized.get_fused_operator_statistics()["Attention"]
        if fused_attention != config.num_hidden_layers:
            raise SystemExit(f"attention of {fused_attention} layers was fused, of {config.num_hidden_layers} it should be")
        optimized.save_model_to_file(str(fused))
        quantize_dynamic(
            fused,
            small,
            per_channel=True,
            weight_type=QuantType.QInt8,
            extra_options={"DefaultTensorType": TensorProto.FLOAT},  # of what the fused operators give
        )
        for file in (fused, small):
            os.replace(file, args.out / file.name)


if __name__ == "__main__":
    main()
