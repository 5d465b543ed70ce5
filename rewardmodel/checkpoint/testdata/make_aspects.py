"""Makes the tiny random checkpoints with two aspects and context, and their golden outputs.

    python make_aspects.py

Made with the versions of make_goldens.py, whose README.md describes the layout.

transformers has no model that encodes a context once for several sequences.
Here one of its encoders runs on the context and the sequence concatenated,
with an attention mask that hides the sequence from the context, token type 1
for the context, and positions that start again at the sequence. That a second
sequence after the same context changes nothing shows that it can be shared.
"""

import json
import os

import torch
import transformers as hf

from make_goldens import HERE, build, config

LABELS = {0: "refusal:compliant", 1: "Toxicity:violation", 2: "refusal:violation", 3: "toxicity:compliant"}
MANIFEST = {
    "version": "aspects", "threshold": 0.25, "context": True, "context_tokens": 20, "combination": "sum",
    "aspects": [{"name": "toxicity", "weight": 2, "threshold": 0.25}, {"name": "refusal", "threshold": 0.75}],
}
LENGTHS = ((3, 0), (5, 4), (22, 3), (9, 22), (9, 22), (4, 22), (12, 17), (7, 0), (22, 22))  # of sequence and context


def tokens(cfg, n, generator):
    first, last = (0, 2) if cfg.model_type == "roberta" else (2, 3)
    return [first] + torch.randint(4, cfg.vocab_size, (n - 2,), generator=generator).tolist() + [last]


def forward(model, context, *rows):
    """The last hidden states of the first tokens of rows, which share a context but do not see each other."""
    start = model.config.pad_token_id + 1 if model.config.model_type == "roberta" else 0
    parts = [context, *rows]
    part = torch.cat([torch.full((len(p),), i) for i, p in enumerate(parts)])
    visible = (part[:, None] == part[None, :]) | (part[None, :] == 0)
    visible[: len(context)] = part[None, :] == 0
    mask = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)
    with torch.no_grad():
        hidden = model.base_model(
            input_ids=torch.tensor([sum(parts, [])]),
            attention_mask=mask[None, None],
            token_type_ids=(part == 0).long()[None],
            position_ids=torch.cat([torch.arange(start, start + len(p)) for p in parts])[None],
        ).last_hidden_state
    at = [sum(map(len, parts[: i + 1])) for i in range(len(rows))]
    return hidden[0, at]


def classify(model, hidden):
    with torch.no_grad():
        if model.config.model_type == "roberta":
            return model.classifier(hidden[:, None])
        return model.classifier(model.bert.pooler(hidden[:, None]))


def make(name, cls, cfg, seed):
    out = os.path.join(HERE, name)
    model = build(cls, cfg, seed)
    model.save_pretrained(out)
    with open(os.path.join(out, "assay.json"), "w") as f:
        json.dump(MANIFEST, f, indent=2)
        f.write("\n")
    g = torch.Generator().manual_seed(seed)
    contexts = {n: tokens(cfg, n, g) if n else [] for n in sorted({c for _, c in LENGTHS})}
    rows = [tokens(cfg, n, g) for n, _ in LENGTHS]
    cases = []
    for row, (_, c) in zip(rows, LENGTHS):
        hidden = forward(model, contexts[c], row)
        logits = classify(model, hidden)
        torch.testing.assert_close(forward(model, contexts[c], rows[1], row)[1], hidden[0], atol=1e-5, rtol=0)
        if not c:
            torch.testing.assert_close(model(input_ids=torch.tensor([row])).logits, logits, atol=1e-5, rtol=0)
        cases.append({"input_ids": row, "context": contexts[c], "hidden": hidden[0].tolist(), "logits": logits[0].tolist()})
    with open(os.path.join(out, "golden.json"), "w") as f:
        json.dump({"cases": cases}, f)
        f.write("\n")


def main():
    make("roberta-aspects", hf.RobertaForSequenceClassification, config("roberta", id2label=LABELS, type_vocab_size=2), 21)
    make("bert-aspects", hf.BertForSequenceClassification, config("bert", id2label=LABELS, hidden_act="gelu_new"), 22)


if __name__ == "__main__":
    main()
