"""Writes golden.json: metrics of random scores by scikit-learn.

Made with Python 3.11, numpy 2.4.6 and scikit-learn 1.9.1. Run it in this folder.
"""

import json

import numpy as np
from sklearn import metrics

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
    cases.append({"threshold": threshold, "bags": bags, "want": {k: float(v) for k, v in want.items()}})

with open("golden.json", "w") as file:
    file.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
