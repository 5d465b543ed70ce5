"""Writes golden.json: paired differences of metrics over given resamples, by scikit-learn, and distances by scipy.

Made with Python 3.11, numpy 2.4.6, scikit-learn 1.9.1 and scipy 1.17.1. Run it in this folder.
"""

import json

import numpy as np
from scipy import stats
from sklearn import metrics

cases = []
for seed in range(6):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 60))
    truth = rng.random(n) < 0.4
    shared = rng.normal(size=n) + truth
    # One decimal, so that scores tie; of an odd fifth, so that none meets the threshold.
    score = [np.round(shared + rng.normal(size=n) * 0.7, 1) + 0.02 for _ in range(2)]
    thresholds = [0.5, 0.6]
    draws = []
    while len(draws) < 20:
        draw = rng.integers(0, n, size=n)
        if 0 < truth[draw].sum() < n:
            draws.append(draw)

    def values(model, draw):
        s, t = score[model][draw], truth[draw]
        decided = s > np.log(thresholds[model] / (1 - thresholds[model]))
        return {
            "bag_auroc": metrics.roc_auc_score(t, s),
            "bag_auprc": metrics.average_precision_score(t, s),
            "avg_acc": metrics.balanced_accuracy_score(t, decided),
            "f1_violation": metrics.f1_score(t, decided),
        }

    differences = {}
    for draw in draws:
        current, candidate = values(0, draw), values(1, draw)
        for name in current:
            differences.setdefault(name, []).append(candidate[name] - current[name])
    rewards = [1 / (1 + np.exp(s)) for s in score]
    cases.append({
        "truth": truth.tolist(), "current": score[0].tolist(), "candidate": score[1].tolist(), "thresholds": thresholds,
        "draws": [d.tolist() for d in draws], "differences": differences,
        "distance": {
            "mean_change": float(np.abs(rewards[1] - rewards[0]).mean()),
            "ks": float(stats.ks_2samp(*rewards).statistic),
            "spearman": float(stats.spearmanr(*rewards).statistic),
        },
    })

with open("golden.json", "w") as out:
    json.dump(cases, out, separators=(",", ":"))
    out.write("\n")
