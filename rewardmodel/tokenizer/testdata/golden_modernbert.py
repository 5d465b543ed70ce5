"""Writes a tokenizer as ModernBERT and OLMo have it, around the small byte-level BPE of policy.json, and its golden files.

    python golden_modernbert.py

Needs tokenizers 0.23.3. modernbert.jsonl.gz has the format of golden.py; each line of modernbert_tokens.jsonl.gz is
[text, ids, offsets], for texts with added tokens and runs of spaces.
"""
import json
import os
import random

from tokenizers import AddedToken, Tokenizer, models, normalizers, processors
from tokenizers.pre_tokenizers import ByteLevel

from golden import HERE, folder, golden, write
from strings import SENTENCES

TOKENS = ["|||IP_ADDRESS|||", *(" " * n for n in range(24, 1, -1)), "|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||",
          *(f"[unused{i}]" for i in range(12)), "caf\u00e9!"]
SPECIAL = ["<|padding|>", "<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "x  y"]


def tokenizer():
    with open(os.path.join(HERE, "policy.json"), encoding="utf-8") as f:
        model = json.load(f)["model"]
    tok = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]]))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = ByteLevel(add_prefix_space=False, trim_offsets=True)
    tok.add_special_tokens([AddedToken(t, special=True, normalized="  " in t) for t in SPECIAL])
    tok.add_special_tokens([AddedToken("[MASK]", special=True, lstrip=True, normalized=False)])
    tok.add_tokens([AddedToken(t, normalized=True) for t in TOKENS] + [AddedToken("<code>", normalized=False)])
    cls, sep = (("[CLS]", tok.token_to_id("[CLS]")), ("[SEP]", tok.token_to_id("[SEP]")))
    frame = processors.TemplateProcessing(single="[CLS]:0 $A:0 [SEP]:0", special_tokens=[cls, sep])
    tok.post_processor = processors.Sequence([processors.ByteLevel(add_prefix_space=False, trim_offsets=True), frame])
    return tok


def texts():
    """Mixtures of words, spaces and added tokens, from a fixed seed."""
    rng = random.Random(7)
    words = " ".join(SENTENCES).split()[:200]
    parts = TOKENS + SPECIAL + ["[MASK]", "<code>", "<code", "|||", "e\u0301", "\u0301", "cafe\u0301!", "\n", "\t", "\u00a0", " ", "  ", "   "]
    for n in range(40):
        yield " " * n
        yield "a" + " " * n + "b"
        yield "\n" + " " * n + "x\n" + " " * (n // 2) + "\ty"
    for _ in range(2000):
        yield "".join(rng.choice(parts if rng.random() < 0.6 else words) + rng.choice(["", " ", "", "    "]) for _ in range(rng.randrange(1, 14)))


if __name__ == "__main__":
    tok = tokenizer()
    tok.save(os.path.join(folder("modernbert"), "tokenizer.json"), pretty=False)
    with open(os.path.join(folder("modernbert"), "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "tokenizer_class": "PreTrainedTokenizerFast"}, f)
        f.write("\n")
    golden("modernbert", tok)
    lines = []
    for text in texts():
        e = tok.encode(text, add_special_tokens=False)
        lines.append([text, e.ids, [x for o in e.offsets for x in o]])
    write("modernbert_tokens.jsonl.gz", lines)
    print(len(lines), "texts with tokens")
