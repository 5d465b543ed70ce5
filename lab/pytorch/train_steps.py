"""The same optimizer steps as `assay-lab bench train`, in PyTorch.

Reads the work that `assay-lab bench train` wrote ({"model", "lr", "lambda", "threads", "warmup", "steps": [{"sequences":
[[ids]], "violation": [bool]}]}), takes each step on a transformers model as one would: a padded mini-batch, the BFGPU
loss with the weights of the authors' code, torch.optim.Adam. Prints one JSON line: the loss of each step and the seconds
that the steps after the warm-up took.

Needs torch, transformers and safetensors; run with the versions that requirements.txt of your project pins.
"""

import json
import sys
import time

import torch
from torch.nn.functional import cross_entropy, softmax
from transformers import AutoModelForSequenceClassification


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as f:
        work = json.load(f)
    torch.set_num_threads(work["threads"])
    model = AutoModelForSequenceClassification.from_pretrained(
        work["model"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout=0.0,
        torch_dtype=torch.float32,
    )
    model.train()
    pad = model.config.pad_token_id
    optimizer = torch.optim.Adam(model.parameters(), lr=work["lr"])
    losses, began = [], 0.0
    for number, step in enumerate(work["steps"]):
        if number == work["warmup"]:
            began = time.perf_counter()
        longest = max(map(len, step["sequences"]))
        ids = torch.tensor([s + [pad] * (longest - len(s)) for s in step["sequences"]])
        mask = torch.tensor([[1] * len(s) + [0] * (longest - len(s)) for s in step["sequences"]])
        logits = model(input_ids=ids, attention_mask=mask).logits  # column 0 is the violation
        violation = torch.tensor(step["violation"])
        loss = torch.zeros(())
        for members, label in ((violation, 0), (~violation, 1)):
            if members.any():
                z = logits[members]
                weight = softmax(z[:, 0].detach(), dim=0)
                loss = loss + (weight * cross_entropy(z, torch.full((len(z),), label), reduction="none")).sum()
        loss = work["lambda"] * loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    json.dump({"losses": losses, "seconds": time.perf_counter() - began, "torch": torch.__version__}, sys.stdout)


if __name__ == "__main__":
    main()
