# Makes losses.json: the BFGPU loss of one mini-batch and its gradient by autograd, in float64.
# Run with torch 2.15: python make_losses.py
import json
import torch
import torch.nn.functional as F

torch.manual_seed(0)


def symmetric(z, y):  # sigmoid loss: the probability of the other class
    return 1 - F.softmax(z, dim=1).gather(1, y[:, None])[:, 0]


def instance_loss(kind, z, y):
    return F.cross_entropy(z, y, reduction="none") if kind == "cross-entropy" else symmetric(z, y)


def bfgpu(weights, kind, z, y, bag, sigma):
    # classes: 0 violation, 1 compliant; instances of violating bags are trained as violations
    prior = sigma / (sigma + 1)
    total = 0
    if weights == "batch":  # the authors' public code
        for c in (0, 1):
            m = y == c
            if m.any():
                w = F.softmax(z[m, 0], dim=0).detach()
                total = total + (w * instance_loss(kind, z[m], y[m])).sum()
        return total / prior
    g = F.softmax(z, dim=1)[:, 0].detach()
    for b in bag.unique():  # the paper: softmax of g_-1 within the bag
        m = bag == b
        n = (y == y[m][0]).sum()
        total = total + (F.softmax(g[m], dim=0) * instance_loss(kind, z[m], y[m])).sum() / (2 * n)
    return total / prior


cases = []
for weights in ("batch", "paper"):
    for kind in ("cross-entropy", "sigmoid"):
        for sizes, labels in (([3, 2, 4, 1], [0, 1, 0, 1]), ([2, 3], [0, 0]), ([5], [1])):
            bag = torch.tensor([i for i, s in enumerate(sizes) for _ in range(s)])
            y = torch.tensor([labels[i] for i in bag])
            z = (3 * torch.randn(len(bag), 2)).float().double().requires_grad_()
            sigma = 2.5
            loss = bfgpu(weights, kind, z, y, bag, sigma)
            loss.backward()
            cases.append({"weights": weights, "loss": kind, "sigma_micro": sigma, "sizes": sizes,
                          "violation": [l == 0 for l in labels], "logits": z.tolist(), "value": loss.item(),
                          "grad": z.grad.tolist()})
json.dump(cases, open("losses.json", "w"), indent=1)
