"""A reward server as trainers run one today, to measure assay against.

    python reward_server.py --model DIR --backend torch --precision fp32 --port 5000

POST /get_reward {"query":[utterance]} -> {"rewards":[margin]}: one margin,
logit(violation) - logit(compliant), for each utterance. One request is computed
at a time, as in OpenRLHF's reward server: FastAPI and uvicorn, an asynchronous
handler that calls the model itself, mini-batches padded to their longest
utterance. --sort is that server at its best: a request is tokenized as a whole
and sorted by length before it is cut into mini-batches.
"""

from __future__ import annotations

import argparse
import importlib.metadata

import uvicorn
from backends import load
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from transformers import AutoTokenizer

PACKAGES = {"torch": ["torch"], "onnx": ["onnxruntime"], "openvino": ["openvino", "nncf"], "ctranslate2": ["ctranslate2"]}


class Scorer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(args.model)
        self.margins = load(args)
        self.batch = args.batch
        self.sort = args.sort
        self.longest = args.max_length

    def score(self, texts: list[str]) -> list[float]:
        return self.by_length(texts) if self.sort else self.as_they_come(texts)

    def as_they_come(self, texts: list[str]) -> list[float]:
        out: list[float] = []
        for at in range(0, len(texts), self.batch):
            inputs = self.tokenizer(
                texts[at : at + self.batch],
                padding=True,
                truncation=True,
                max_length=self.longest,
                return_tensors="np",
            )
            out.extend(self.margins(inputs["input_ids"], inputs["attention_mask"]))
        return out

    def by_length(self, texts: list[str]) -> list[float]:
        ids = self.tokenizer(texts, truncation=True, max_length=self.longest)["input_ids"]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        out = [0.0] * len(ids)
        for at in range(0, len(order), self.batch):
            part = order[at : at + self.batch]
            inputs = self.tokenizer.pad({"input_ids": [ids[i] for i in part]}, return_tensors="np")
            margins = self.margins(inputs["input_ids"], inputs["attention_mask"])
            for i, margin in zip(part, margins, strict=True):
                out[i] = margin
        return out


def versions(backend: str) -> dict[str, str]:
    names = ["transformers", "tokenizers", "fastapi", "uvicorn", *PACKAGES[backend]]
    return {name: importlib.metadata.version(name) for name in names}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--model", required=True, help="directory of the checkpoint")
    options.add_argument("--exported", help="directory of the exported model, for all backends but torch")
    options.add_argument("--backend", choices=list(PACKAGES), required=True)
    options.add_argument("--precision", choices=["fp32", "bf16", "int8"], default="fp32")
    options.add_argument("--batch", type=int, default=32, help="utterances of a mini-batch")
    options.add_argument("--sort", action="store_true", help="sort a request by length first")
    options.add_argument("--max-length", type=int, default=512, help="tokens of an utterance")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--violation", type=int, default=0, help="index of that label")
    options.add_argument("--compliant", type=int, default=1)
    options.add_argument("--port", type=int, required=True)
    args = options.parse_args()

    scorer = Scorer(args)
    app = FastAPI()

    @app.post("/get_reward")
    async def get_reward(request: Request) -> JSONResponse:
        data = await request.json()
        return JSONResponse({"rewards": scorer.score(data["query"])})

    @app.get("/health")
    async def health() -> dict[str, str]:
        return versions(args.backend)

    uvicorn.run(app, host="127.0.0.1", port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
