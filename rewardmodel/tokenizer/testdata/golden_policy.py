"""Writes the golden files of policy tokenizers: the results of Hugging Face `tokenizers` for the
pre-tokenizers of the usual policy models, around one small byte-level BPE.

    python golden_policy.py train        trains the vocabulary again (the trainer breaks ties at random)
    python golden_policy.py              writes policy.json's variants and their golden files

Needs tokenizers 0.23.3. policy.json is {"model", "variants": {name: the rest of a tokenizer.json}};
policy_strings.jsonl.gz and policy_NAME.jsonl.gz have the format of golden.py.
"""
import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, processors, trainers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

from golden import HERE, corpus, write
from strings import repair, strings

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
LLAMA = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SYMBOLS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
PLAIN = ByteLevel(add_prefix_space=False, use_regex=False)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
EXTRA = [
    "It'ſ fine, I'LL go, YOU'RE 'Re 'VE '\u017f '\u212a x'D", "<think>\nWell\n</think>\n\nOk<|im_end|>\n", "<|im_start|><|im_start", "a<think></think",
    "cafe\u0301! cafe\u0301!! caf\u00e9! x", "  <think>  x  </think>  \n", "e\u0301<|im_end|>\u0301e", "1234567 12,345.678 ١٢٣٤ ①②③ ½⅓ 一二三 Ⅻ", "\u00a0\u00a0x \u3000 y\u2028\u2029z\x85\x1c\x1f",
    "\r\n\r\n \n  \n\tx\t\t\ty   ", "HTTPServer's iPhone's McDONALD'S ǅungla ʰʱ ªº", "\ufffd \ufeff\u200b\u200d x", "\u1100\u1161\u11a8 \uac00\u11a8", "Å\u0323\u0307 q\u0307\u0323 \u0344",
]


def isolated(pattern):
    return Split(Regex(pattern), "isolated")


def variant(model, pre, post, normalizer=None, tokens=(), ignore_merges=False):
    tok = Tokenizer(models.BPE(**model, ignore_merges=ignore_merges))
    tok.pre_tokenizer = pre
    tok.post_processor = post
    if normalizer:
        tok.normalizer = normalizer
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    tok.add_tokens(list(tokens))
    return tok


def variants(model):
    think = [AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)]
    bos = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", len(model["vocab"]))])
    untrimmed = processors.ByteLevel(add_prefix_space=False, trim_offsets=False)
    return {
        "qwen": variant(model, Sequence([isolated(QWEN), PLAIN]), untrimmed, normalizers.NFC(), think + [AddedToken("caf\u00e9!", normalized=True)]),
        "llama": variant(model, Sequence([isolated(LLAMA), PLAIN]), processors.Sequence([processors.ByteLevel(trim_offsets=True), bos]), ignore_merges=True),
        "gpt2": variant(model, ByteLevel(add_prefix_space=False), untrimmed),
        "digits": variant(model, Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]),
                          processors.ByteLevel(add_prefix_space=False, trim_offsets=True), tokens=["  ", "x y "]),
        "runs": variant(model, Sequence([Digits(), Split(Regex(CASED), "removed", invert=True), PLAIN]), bos, normalizers.Sequence([])),
        "symbols": variant(model, Sequence([isolated(r"\p{N}{1,3}"), isolated("[一-龥\u3040-ゟ゠-ヿ]+"), isolated(SYMBOLS), PLAIN]), untrimmed,
                           normalizers.Sequence([normalizers.NFC()]), think),
        "cased": variant(model, Sequence([isolated(CASED), PLAIN]), untrimmed),
    }


def texts():
    return strings()[::4] + [t.encode() for t in EXTRA]


if __name__ == "__main__":
    path = os.path.join(HERE, "policy.json")
    if sys.argv[1:] == ["train"]:
        tok = Tokenizer(models.BPE())
        tok.pre_tokenizer = Sequence([isolated(LLAMA), PLAIN])
        tok.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=1500, initial_alphabet=ByteLevel.alphabet(), show_progress=False))
        stored = json.loads(tok.to_str())["model"]
    else:
        stored = json.load(open(path, encoding="utf-8"))["model"]
    model = {"vocab": stored["vocab"], "merges": [tuple(m) for m in stored["merges"]]}
    parts = {}
    write("policy_strings.jsonl.gz", ["".join(map(chr, t)) for t in texts()])
    for name, tok in variants(model).items():
        parts[name] = {k: v for k, v in json.loads(tok.to_str()).items() if k in ("added_tokens", "normalizer", "pre_tokenizer", "post_processor")}
        parts[name]["ignore_merges"] = name == "llama"
        lines = []
        for data in texts():
            e = tok.encode(repair(data), add_special_tokens=False)
            lines.append([e.ids, [x for o in e.offsets for x in o]])
        write(f"policy_{name}.jsonl.gz", lines)
        print(name, len(lines), "strings", sum(len(l[0]) for l in lines), "tokens")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"model": {"type": "BPE", **stored}, "variants": parts}, f, ensure_ascii=False, separators=(",", ":"))
