# Makes heads.json: the loss of one mini-batch of every method, here and in lab/paper/baseline, with its gradients by autograd in float64, with respect
# to logits, or to features and to the method's own parameters.
# Run with torch 2.15: python make_heads.py
import json
import torch
import torch.nn.functional as F

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)

SIZES, LABELS = [3, 2, 4, 1], [True, False, True, False]
BAG = [i for i, s in enumerate(SIZES) for _ in range(s)]
V = torch.tensor([LABELS[b] for b in BAG])  # instances of violating bags
STARTS = [sum(SIZES[:i]) for i in range(len(SIZES) + 1)]
SIGMA = 2.5
PI = SIGMA / (SIGMA + 1)
cases = []


def draw(*shape, scale=1.0):
    # few binary digits: exact in float32, and short in the file
    return ((torch.randn(*shape) * scale * 256).round() / 256).requires_grad_()


def add(method, x, value, params=(), **more):
    grads = torch.autograd.grad(value, [x, *params])
    flat = [[round(v, 12) for v in g.flatten().tolist()] for g in grads[1:]]
    cases.append({"method": method, "sizes": SIZES, "violation": LABELS, "input": x.tolist(), "value": value.item(),
                  "grad": [[round(v, 12) for v in row] for row in grads[0].tolist()],
                  "params": [p.flatten().tolist() for p in params], "param_grads": flat, **more})


# Losses of logits: column 0 is the violation.
def target(violation):
    return (~violation).long()


def instance_loss(kind, z, violation):
    if kind == "cross-entropy":
        return F.cross_entropy(z, target(violation), reduction="none")
    return 1 - F.softmax(z, 1).gather(1, target(violation)[:, None])[:, 0]


for kind in ("cross-entropy", "sigmoid"):
    z = draw(10, 2, scale=2)
    add("plain", z, 0.5 * instance_loss(kind, z, V).mean(), loss=kind)
    for weights in ("batch", "paper"):
        for normaliser in ("sum", "count"):
            z, total = draw(10, 2, scale=2), 0
            losses, bag = instance_loss(kind, z, V), torch.tensor(BAG)
            for side in (V, ~V):
                if weights == "batch":
                    parts = [(side, F.softmax(z[side, 0].detach(), 0))]
                else:
                    g = F.softmax(z, 1)[:, 0].detach()
                    parts = [(bag == b, F.softmax(g[bag == b], 0)) for b in bag[side].unique()]
                scale = 1 / len(parts) if normaliser == "sum" else 1 / (2 * side.sum())
                total = total + scale * sum((w * losses[m]).sum() for m, w in parts)
            add("bfgpu", z, total / PI, loss=kind, weights=weights, normaliser=normaliser)

# PU risks of g = z_normal - z_violation; the second mini-batch of each is where the correction of nnPU and of
# balancedPU applies: unlabeled instances that look more anomalous than normal ones result in a negative risk.
for method, l in (("upu", lambda m: F.softplus(-m)), ("nnpu", lambda m: F.softplus(-m)), ("balancedpu", lambda m: torch.sigmoid(-m))):
    for corrected in (False, True):
        z = draw(10, 2, scale=1)
        with torch.no_grad():
            z[:, 0] += torch.where(V, 4.0, -4.0) * (1 if corrected else -0.25)
        g = z[:, 1] - z[:, 0]
        p, u = g[~V], g[V]
        negative = l(-u).mean() - PI * l(-p).mean()
        assert (negative < 0) == corrected
        if method == "upu":
            risk = PI * l(p).mean() + negative
        elif method == "nnpu":
            risk = -negative if corrected else PI * l(p).mean() + negative
        else:  # the balanced risk without its constants: l(z) + l(-z) = 1
            risk = -negative if corrected else l(-u).mean() - l(-p).mean()
        add(method, z, risk, corrected=corrected)

for epoch in (0, 3, 20):  # RobustPU: the weights come from the scores before the epoch
    z = draw(10, 2, scale=1)
    h = min(0.1 + 0.19 * epoch, 2)
    losses = F.cross_entropy(z, target(V), reduction="none")
    add("robustpu", z, (torch.exp(-losses.detach() / h**2) * losses).mean(), epoch=epoch)

for top in (1, 3):
    z, total = draw(10, 2, scale=2), 0
    for b, violation in enumerate(LABELS):
        own = z[STARTS[b]:STARTS[b + 1]]
        best = (own[:, 0] - own[:, 1]).topk(min(top, len(own))).indices
        total = total + F.cross_entropy(own[best].mean(0)[None], target(torch.tensor([violation]))) / len(LABELS)
    add("mil-max" if top == 1 else "mil-topk", z, total, top=top)

# Losses of features.
WIDTH, ETA, EPS = 3, 5.0, 1e-6
for method in ("sad-micro", "sad-macro", "svdd"):
    x, centre = draw(4 if method == "sad-macro" else 10, WIDTH), draw(WIDTH).detach()
    v = torch.tensor(LABELS) if method == "sad-macro" else V
    d = (x - centre).pow(2).sum(1) + EPS
    if method == "svdd":
        v = torch.zeros(10, dtype=torch.bool)
    add(method, x, torch.where(v, ETA / d, d).mean(), centre=centre.tolist())


def bags(x, score):  # score gives the log probabilities of a bag
    total = 0
    for b, violation in enumerate(LABELS):
        total = total - score(x[STARTS[b]:STARTS[b + 1]])[0 if violation else 1] / len(LABELS)
    return total


x, v, w = draw(10, WIDTH), draw(128, WIDTH), draw(128, scale=0.3)
c, cb = draw(2, WIDTH), draw(2)


def attention(h):
    a = F.softmax(torch.tanh(h @ v.T) @ w, 0)
    return F.log_softmax(F.linear(a @ h, c, cb), 0)


add("mil-attention", x, bags(x, attention), (v, w, c, cb))

HIDDEN, UNITS = 4, 5
x, c, cb = draw(10, WIDTH), draw(2, WIDTH), draw(2)
gru = torch.nn.GRU(WIDTH, HIDDEN, bidirectional=True, batch_first=True)
with torch.no_grad():
    for p in gru.parameters():
        p.copy_(draw(*p.shape, scale=0.7))
a, ab, u = draw(UNITS, 2 * HIDDEN), draw(UNITS), draw(UNITS)


def fgsa(h):
    weights = F.softmax(torch.tanh(F.linear(gru(h[None])[0][0], a, ab)) @ u, 0)
    return torch.log(weights @ F.softmax(F.linear(h, c, cb), 1))


order = [f"{kind}_{part}_l0{side}" for side in ("", "_reverse") for part in ("ih", "hh") for kind in ("weight", "bias")]
add("mil-fgsa", x, bags(x, fgsa), (c, cb, *(getattr(gru, n) for n in order), a, ab, u), hidden=HIDDEN, attention=UNITS)

x, c, cb = draw(10, WIDTH), draw(1, 2 * WIDTH), draw(1)
partner = torch.randperm(10)
score = F.linear(torch.cat([x, x[partner]], 1), c, cb)[:, 0]
add("mil-prenet", x, F.mse_loss(score, (V.double() + V[partner].double()) / 2), (c, cb), partner=partner.tolist())

json.dump(cases, open("heads.json", "w"), separators=(",", ":"))
