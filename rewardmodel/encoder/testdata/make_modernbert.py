# Makes modernbert_steps.json: what three steps of torch.optim.Adam do to the tiny ModernBERT checkpoints of
# ../../checkpoint/testdata, without dropout, on the mean cross-entropy of labels that alternate, violation first.
# Run with transformers 5.23 and torch 2.15: python make_modernbert.py
import json
import os

import torch
from transformers import AutoModelForSequenceClassification

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDERS = os.path.join(HERE, "..", "..", "checkpoint", "testdata")
LR, STEPS = 1e-3, 3
torch.set_num_threads(1)


def numbers(t):
    return [float(f"{x:.7g}") for x in t.detach().flatten().tolist()]


result = {}
for name in ("modernbert-two", "modernbert-mean"):
    folder = os.path.join(FOLDERS, name)
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.eval()  # no dropout
    with open(os.path.join(folder, "golden.json")) as f:
        batch = [c["input_ids"] for c in json.load(f)["cases"]]
    violation = 1 if name == "modernbert-mean" else 0
    labels = torch.tensor([violation if i % 2 == 0 else 1 - violation for i in range(len(batch))])
    adam = torch.optim.Adam(model.parameters(), lr=LR)
    kept = [n for n, _ in model.named_parameters() if any(part in n for part in (
        "embeddings.norm", "layers.0", "layers.1.attn", "final_norm", "head"))]
    tensors = {n: {} for n in kept}
    losses = []
    for step in range(STEPS):
        adam.zero_grad()
        logits = torch.cat([model(input_ids=torch.tensor([ids])).logits for ids in batch])
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            for n, p in model.named_parameters():
                if n in tensors:
                    tensors[n]["gradient"] = numbers(p.grad)
        adam.step()
    for n, p in model.named_parameters():
        if n in tensors:
            tensors[n]["weights"] = numbers(p)
    result[name] = {"losses": losses, "tensors": {n.removeprefix("model."): t for n, t in tensors.items()}}

with open(os.path.join(HERE, "modernbert_steps.json"), "w") as f:
    json.dump(result, f, separators=(",", ":"))
    f.write("\n")
