"""The models behind reward_server.py: token ids and mask to margins."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

Margins = Callable[[np.ndarray, np.ndarray], list[float]]


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
    file = Path(args.exported, args.precision + ".onnx")
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    wanted = {one.name: np.int32 if "int32" in one.type else np.int64 for one in session.get_inputs()}

    def margins(ids: np.ndarray, mask: np.ndarray) -> list[float]:
        given = {"input_ids": ids, "attention_mask": mask}
        (logits,) = session.run(None, {name: given[name].astype(kind) for name, kind in wanted.items()})
        return (logits[:, args.violation] - logits[:, args.compliant]).tolist()

    return margins


def openvino_model(args: argparse.Namespace) -> Margins:
    import openvino
    from openvino.properties import hint, inference_num_threads

    file = Path(args.exported, "int8.xml" if args.precision == "int8" else "fp32.xml")
    model = openvino.Core().compile_model(
        file,
        "CPU",
        {
            inference_num_threads: args.threads,
            hint.performance_mode: hint.PerformanceMode.LATENCY,  # all threads on one mini-batch
            hint.inference_precision: openvino.Type.bf16,  # of int8, what is not quantized
        },
    )
    request = model.create_infer_request()

    def margins(ids: np.ndarray, mask: np.ndarray) -> list[float]:
        logits = request.infer({"input_ids": ids, "attention_mask": mask})[0]
        return (logits[:, args.violation] - logits[:, args.compliant]).tolist()

    return margins


def ctranslate2_model(args: argparse.Namespace) -> Margins:
    import ctranslate2

    encoder = ctranslate2.Encoder(
        args.exported, device="cpu", compute_type=args.precision, inter_threads=1, intra_threads=args.threads
    )
    head = np.load(Path(args.exported, "head.npz"))

    def margins(ids: np.ndarray, mask: np.ndarray) -> list[float]:
        inputs, lengths = (ctranslate2.StorageView.from_array(a.astype(np.int32)) for a in (ids, mask.sum(axis=1)))
        first = np.asarray(encoder.forward_batch(inputs, lengths).last_hidden_state)[:, 0]
        hidden = np.tanh(first @ head["dense.weight"].T + head["dense.bias"])
        logits = hidden @ head["out_proj.weight"].T + head["out_proj.bias"]
        return (logits[:, args.violation] - logits[:, args.compliant]).tolist()

    return margins


MODELS = {"torch": torch_model, "onnx": onnx_model, "openvino": openvino_model, "ctranslate2": ctranslate2_model}


def load(args: argparse.Namespace) -> Margins:
    return MODELS[args.backend](args)
