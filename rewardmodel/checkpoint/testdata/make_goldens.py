"""Makes the tiny random checkpoints of this folder and their golden outputs.

    python make_goldens.py

Made with transformers 5.23.0, torch 2.15.0, safetensors as they require, on a
CPU with one thread. Weights are random (seeded), so nothing here is trained
and no text is involved: the inputs are raw ids. See README.md for the layout.
"""

import json
import os
import shutil

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTHS = (3, 4, 7, 12, 22)  # 22 is the longest that the positions allow
NAMED = {0: "violation", 1: "compliant"}
REVERSED = {0: "Compliant", 1: "VIOLATION"}

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def config(family, **over):
    shape = dict(
        vocab_size=96, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=24, layer_norm_eps=1e-5, attn_implementation="eager",
    )
    if family == "roberta":
        return hf.RobertaConfig(**{**shape, "max_position_embeddings": 24, "type_vocab_size": 1, **over})
    return hf.BertConfig(**{**shape, "max_position_embeddings": 22, **over})


def build(cls, cfg, seed):
    """A model whose every parameter is far from zero, norms and biases too."""
    torch.manual_seed(seed)
    model = cls(cfg).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "LayerNorm.weight" in name or "norm.weight" in name:
                p.copy_(1 + 0.2 * torch.randn_like(p))
            else:
                p.copy_(0.3 * torch.randn_like(p))
    return model


def inputs(cfg, seed):
    """Sequences of ids without the padding id, special tokens at both ends."""
    first, last = (0, 2) if cfg.model_type == "roberta" else (2, 3)
    g = torch.Generator().manual_seed(seed)
    return [[first] + torch.randint(4, cfg.vocab_size, (n - 2,), generator=g).tolist() + [last] for n in LENGTHS]


def forward(model, ids, mask):
    """Logits (None for a base model) and the encoder's last hidden states."""
    with torch.no_grad():
        ids, mask = torch.tensor(ids), torch.tensor(mask)
        base = getattr(model, model.base_model_prefix, model)
        hidden = base(input_ids=ids, attention_mask=mask).last_hidden_state
        logits = model(input_ids=ids, attention_mask=mask).logits if hasattr(model, "classifier") else None
    return logits, hidden


def golden(model, seed):
    rows = inputs(model.config, seed)
    width, pad = max(map(len, rows)), model.config.pad_token_id
    padded = [r + [pad] * (width - len(r)) for r in rows]
    mask = [[1] * len(r) + [0] * (width - len(r)) for r in rows]
    batch_logits, batch_hidden = forward(model, padded, mask)
    cases = []
    for i, row in enumerate(rows):
        logits, hidden = forward(model, [row], [[1] * len(row)])
        mean = getattr(model.config, "classifier_pooling", "cls") == "mean"
        case = {"input_ids": row, "hidden": (hidden[0].mean(dim=0) if mean else hidden[0, 0]).tolist()}
        torch.testing.assert_close(batch_hidden[i, : len(row)], hidden[0], atol=1e-5, rtol=0)
        if logits is not None:
            case["logits"] = logits[0].tolist()
            torch.testing.assert_close(batch_logits[i], logits[0], atol=1e-5, rtol=0)
        cases.append(case)
    return {"cases": cases, "padded": {"input_ids": padded, "attention_mask": mask}}


def make(name, cls, cfg, seed, dtype=torch.float32, shard="1GB", edit=None):
    out = os.path.join(HERE, name)
    shutil.rmtree(out, ignore_errors=True)
    model = build(cls, cfg, seed).to(dtype)
    model.save_pretrained(out, max_shard_size=shard)
    if edit:
        edit(out)
    # The outputs are those of the stored weights, computed in float32. They are read again, because to() also rounds the
    # buffers, such as the frequencies of rotary positions.
    again = cls.from_pretrained(out, dtype=torch.float32, attn_implementation="eager").eval()
    for a, b in zip(model.float().parameters(), again.parameters()):
        assert torch.equal(a, b), name
    with open(os.path.join(out, "golden.json"), "w") as f:
        json.dump(golden(again, seed), f)
        f.write("\n")


def legacy(out):
    """As converted from TensorFlow: gamma and beta, and a position buffer."""
    path = os.path.join(out, "model.safetensors")
    tensors = {}
    for name, t in load_file(path).items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[name] = t
    tensors["bert.embeddings.position_ids"] = torch.arange(22).unsqueeze(0)
    save_file(tensors, path, metadata={"format": "pt"})


def main():
    R, B = hf.RobertaForSequenceClassification, hf.BertForSequenceClassification
    r, b = lambda **o: config("roberta", **o), lambda **o: config("bert", **o)
    make("roberta-two", R, r(id2label=NAMED), 1)
    make("roberta-reversed", R, r(id2label=REVERSED), 2)
    make("roberta-one", R, r(num_labels=1), 3)
    make("roberta-sharded", R, r(), 4, shard="6KB")
    make("roberta-bf16", R, r(id2label=NAMED), 5, dtype=torch.bfloat16)
    make("roberta-mlm", hf.RobertaForMaskedLM, r(), 6)
    make("roberta-model", hf.RobertaModel, r(), 7)
    make("bert-two", B, b(id2label=NAMED), 11)
    make("bert-reversed", B, b(id2label=REVERSED, hidden_act="gelu_new"), 12)
    make("bert-one", B, b(num_labels=1, hidden_act="relu"), 13)
    make("bert-f16", B, b(id2label=NAMED), 14, dtype=torch.float16)
    make("bert-mlm", hf.BertForMaskedLM, b(), 15)
    make("bert-model", hf.BertModel, b(), 16)
    make("bert-pretraining-legacy", hf.BertForPreTraining, b(), 17, edit=legacy)


if __name__ == "__main__":
    main()
