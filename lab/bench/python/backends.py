"""The models behind reward_server.py: token ids and mask to margins."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

Margins = Callable[[np.ndarray, np.ndarray], list[float]]


def load(args: argparse.Namespace) -> Margins:
    return torch_model(args) if args.backend == "torch" else onnx_model(args)


def torch_model(args: argparse.Namespace) -> Margins:
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.set_num_threads(args.threads)
    dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
    model = AutoModelForSequenceClassification.from_pretrained(
        args.model, dtype=dtype, attn_implementation="sdpa"
    ).eval()

    @torch.inference_mode()
    def margins(ids: np.ndarray, mask: np.ndarray) -> list[float]:
        logits = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).logits.float()
        return (logits[:, args.violation] - logits[:, args.compliant]).tolist()

    return margins


def onnx_model(args: argparse.Namespace) -> Margins:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(args.onnx, options, providers=["CPUExecutionProvider"])
    wanted = {one.name: np.int32 if "int32" in one.type else np.int64 for one in session.get_inputs()}

    def margins(ids: np.ndarray, mask: np.ndarray) -> list[float]:
        given = {"input_ids": ids, "attention_mask": mask}
        (logits,) = session.run(None, {name: given[name].astype(kind) for name, kind in wanted.items()})
        return (logits[:, args.violation] - logits[:, args.compliant]).tolist()

    return margins
