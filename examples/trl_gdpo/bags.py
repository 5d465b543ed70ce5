"""Writes bags that label two aspects, rudeness and evasion. See README.md."""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from sentences import ANSWERS, EVASIONS, POLITE, RUDE


def response(rude: bool, evasive: bool, rng: random.Random) -> str:
    """A response of two or three sentences in random order. The rest of the response is harmless."""
    body = rng.choice(EVASIONS if evasive else list(ANSWERS.values()))
    tone = [rng.choice(RUDE if rude else POLITE)]
    if rng.random() < 0.5:
        tone.append(rng.choice(POLITE))
    sentences = [body, *tone]
    rng.shuffle(sentences)
    return " ".join(sentences)


def bag(i: int, name: str, rng: random.Random) -> dict[str, object]:
    """A response with the labels of both aspects; every fourth one has only one of them."""
    rude, evasive = rng.random() < 0.5, rng.random() < 0.5
    labels = {
        "rudeness": "violation" if rude else "compliant",
        "evasion": "violation" if evasive else "compliant",
    }
    if i % 4 == 0:
        del labels[rng.choice(sorted(labels))]
    return {"id": f"{name}-{i}", "labels": labels, "response": response(rude, evasive, rng)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path("out"), help="output directory")
    options.add_argument("--n", type=int, default=300, help="number of bags of each training run")
    args = options.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, n, seed in (("train", args.n, 1), ("more", args.n, 3), ("test", 300, 2)):
        rng = random.Random(seed)
        with (args.out / f"{name}.jsonl").open("w") as f:
            f.writelines(json.dumps(bag(i, name, rng)) + "\n" for i in range(n))


if __name__ == "__main__":
    main()
