# Makes steps.json: what five steps of torch.optim.Adam do to the tiny RoBERTa of ../../checkpoint/testdata, without
# dropout, on the mean cross-entropy of labels that alternate, violation first. Each step has a mini-batch of its own, so
# that some rows of the word embeddings rest in some steps. "dense" updates all with Adam; "touched" updates the word
# embeddings with torch.optim.SparseAdam.
# Run with transformers 5.23 and torch 2.15: python make_steps.py
import json
import os

import torch
from transformers import AutoModelForSequenceClassification

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "..", "checkpoint", "testdata", "roberta-two")
LR = 1e-3
BATCHES = [
    [[0, 10, 11, 12, 2], [0, 13, 2]],
    [[0, 20, 21, 10, 22, 2], [0, 23, 23, 2]],
    [[0, 11, 2], [0, 30, 31, 32, 33, 34, 2]],
    [[0, 13, 20, 2], [0, 40, 2]],
    [[0, 10, 41, 2], [0, 42, 11, 2]],
]
torch.set_num_threads(1)


def run(touched):
    model = AutoModelForSequenceClassification.from_pretrained(FOLDER, dtype=torch.float64)
    model.eval()  # no dropout
    word = model.roberta.embeddings.word_embeddings
    rest = [p for p in model.parameters() if p is not word.weight]
    word.padding_idx, word.sparse = None, touched
    optimizers = [torch.optim.Adam(rest, lr=LR)]
    optimizers.append((torch.optim.SparseAdam if touched else torch.optim.Adam)([word.weight], lr=LR))
    losses = []
    for batch in BATCHES:
        for o in optimizers:
            o.zero_grad()
        logits = torch.cat([model(input_ids=torch.tensor([ids])).logits for ids in batch])
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor([i % 2 for i in range(len(batch))]))
        loss.backward()
        losses.append(loss.item())
        for o in optimizers:
            o.step()
    kept = {"embeddings.word_embeddings.weight": word.weight, "classifier.out_proj.weight": model.classifier.out_proj.weight}
    return {"losses": losses, "tensors": {n: [float(f"{x:.7g}") for x in t.detach().flatten().tolist()] for n, t in kept.items()}}


with open(os.path.join(HERE, "steps.json"), "w") as f:
    json.dump({"batches": BATCHES, "dense": run(False), "touched": run(True)}, f, separators=(",", ":"))
    f.write("\n")
