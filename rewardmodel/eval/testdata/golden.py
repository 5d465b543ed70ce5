"""Writes golden.json: metrics of random scores by scikit-learn.

Made with Python 3.11, numpy 2.4.6 and scikit-learn 1.9.1. Run it in this folder.
"""

import json

import numpy as np
from sklearn import metrics


def add_spans(rng, bags):
    """Places the instances of some bags in a text, with gaps between, and draws gold spans, which may overlap."""
    for b in bags:
        b["spans"] = b["gold_spans"] = None
        if rng.random() < 0.3:
            continue
        b["spans"], at = [], 0
        for _ in b["violations"]:
            start = at + int(rng.integers(0, 3))
            at = start + int(rng.integers(1, 30))
            b["spans"].append([start, at])
        if b["violation"]:
            starts = rng.integers(0, at, size=int(rng.integers(0, 4)))
            b["gold_spans"] = [[int(s), int(min(at + 2, s + rng.integers(1, 25)))] for s in starts]


def span_scores(b):
    """IoU and F1 of the witness, and the best IoU, over sets of characters."""
    gold = {c for start, end in b["gold_spans"] for c in range(start, end)}
    own = [set(range(*span)) for span in b["spans"]]
    iou = np.array([len(s & gold) / len(s | gold) for s in own])
    f1 = np.array([2 * len(s & gold) / (len(s) + len(gold)) for s in own])
    top = np.array(b["violations"]) == max(b["violations"])
    return iou[top].mean(), f1[top].mean(), iou.max()


cases = []
for seed in range(12):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(12, 120))
    bags, threshold = [], float(rng.choice([0.3, 0.5, 0.75]))
    digits = int(rng.choice([1, 2, 6]))  # few digits make ties
    for i in range(n):
        violation = bool(rng.random() < 0.4) if i > 1 else bool(i)
        length = int(rng.integers(1, 7))
        gold = [False] * length
        if violation:
            for j in rng.choice(length, size=int(rng.integers(1, length + 1)), replace=False):
                gold[j] = True
        scores = [round(float(rng.beta(2 + 2 * g, 3 - g)), digits) for g in gold]
        known = bool(rng.random() < 0.7) or i < 2
        bags.append({"violation": violation, "violations": scores, "gold": gold if known else None})
    add_spans(np.random.default_rng(1000 + seed), bags)

    score = np.array([max(b["violations"]) for b in bags])
    truth = np.array([b["violation"] for b in bags])
    flagged = score > threshold
    want = {
        "avg_acc": metrics.balanced_accuracy_score(truth, flagged),
        "recall_violation": metrics.recall_score(truth, flagged),
        "recall_compliant": metrics.recall_score(~truth, ~flagged),
        "f1_violation": metrics.f1_score(truth, flagged),
        "f1_compliant": metrics.f1_score(~truth, ~flagged),
        "bag_auroc": metrics.roc_auc_score(truth, score),
        "bag_auprc": metrics.average_precision_score(truth, score),
        "brier": metrics.brier_score_loss(truth, score),
    }
    # Edges in floating point decide for scores that lie on one: multiply as the code does.
    bins = np.minimum((score * 15).astype(int), 14)
    want["ece"] = sum(
        abs(score[bins == b].mean() - truth[bins == b].mean()) * (bins == b).mean() for b in range(15) if (bins == b).any()
    )
    marked = [b for b in bags if b["gold"] is not None]
    flat = lambda bs, key: [x for b in bs for x in b[key]]
    want["instance_auroc"] = metrics.roc_auc_score(flat(marked, "gold"), flat(marked, "violations"))
    mixed = [b for b in marked if b["violation"] and len(set(b["gold"])) == 2]
    if mixed:
        want["instance_auroc_mixed"] = metrics.roc_auc_score(flat(mixed, "gold"), flat(mixed, "violations"))
        want["witness_hit1"] = np.mean(
            [np.mean([g for g, v in zip(b["gold"], b["violations"]) if v == max(b["violations"])]) for b in mixed]
        )
    located = [span_scores(b) for b in bags if b["violation"] and b["spans"] and b["gold_spans"]]
    if located:
        want["span_iou"], want["span_f1"], want["span_iou_best"] = np.mean(located, axis=0)
    cases.append({"threshold": threshold, "bags": bags, "want": {k: float(v) for k, v in want.items()}})

with open("golden.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
