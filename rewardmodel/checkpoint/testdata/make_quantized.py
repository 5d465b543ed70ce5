"""Makes roberta-int8: the model of roberta-two, quantized by compressed-tensors.

    python make_quantized.py

Made with compressed-tensors 0.20.1 and the versions of make_goldens.py.
"""

import json
import os
import shutil

import torch
import transformers as hf
from compressed_tensors.compressors import ModelCompressor
from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
from compressed_tensors.quantization.utils import calculate_qparams

import make_goldens

NAME = "roberta-int8"


def main():
    out = os.path.join(make_goldens.HERE, NAME)
    shutil.rmtree(out, ignore_errors=True)
    cls = hf.RobertaForSequenceClassification
    model = make_goldens.build(cls, make_goldens.config("roberta", id2label=make_goldens.NAMED), 1)
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel"}
    group = {"targets": ["Linear"], "weights": weights, "format": "int-quantized"}
    ignore = ["classifier.dense", "classifier.out_proj"]
    apply_quantization_config(model, QuantizationConfig(config_groups={"group_0": group}, ignore=ignore, format="int-quantized"))
    for module in model.modules():
        if hasattr(module, "weight_scale"):
            w = module.weight.data
            scale, _ = calculate_qparams(w.amin(1, keepdim=True), w.amax(1, keepdim=True), module.quantization_scheme.weights)
            module.weight_scale.data.copy_(scale)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    model.save_pretrained(out)
    compressor.update_config(out)

    again = cls.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
    again(torch.tensor([[0, 2]]))  # the first pass restores the weights
    with open(os.path.join(out, "golden.json"), "w") as f:
        json.dump(make_goldens.golden(again, 1), f)
        f.write("\n")


if __name__ == "__main__":
    main()
