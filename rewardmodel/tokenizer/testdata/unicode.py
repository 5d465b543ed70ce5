"""Writes ../unicode.txt: the properties of every code point in Hugging Face `tokenizers`.

Its crates pin several versions of Unicode at once (Oniguruma's for \\p{L} and \\p{N},
Unicode 8 for the BERT punctuation and marks, 9 for combining classes, the Rust
compiler's for lower case), and Go's tables follow the Go release. So the classes
are read from the library, one code point at a time.

Run with tokenizers 0.23.3 (pip install tokenizers==0.23.3):  python unicode.py
"""
import itertools
import os
import unicodedata

import tokenizers
from tokenizers import normalizers, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]

gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
bert = pre_tokenizers.BertPreTokenizer()
nfd = normalizers.NFD()


def normalizer(**on):
    flags = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**flags, **on})


clean = normalizer(clean_text=True)
chinese = normalizer(handle_chinese_chars=True)
lower = normalizer(lowercase=True)
strip = normalizer(strip_accents=True)

# Three marks of known combining classes (1, 220, 230), to find the class of another by its position among them.
classes = {name: [] for name in "letter number space punct remove chinese mark decompose".split()}
lowered, combining = {}, {}


def reorders(first, second):
    """Whether canonical ordering swaps the two characters."""
    return nfd.normalize_str("a" + first + second) == "a" + second + first


for c in CODE_POINTS:
    ch = chr(c)
    spans = [o for _, o in gpt2.pre_tokenize_str("a" + ch + "1" + ch + "!")]
    if spans[0] == (0, 2):
        classes["letter"].append(c)
    elif (1, 4) in spans:
        classes["number"].append(c)
    spans = [o for _, o in bert.pre_tokenize_str("a" + ch + "a")]
    if spans == [(0, 1), (1, 2), (2, 3)]:
        classes["punct"].append(c)
    elif spans == [(0, 1), (2, 3)]:
        classes["space"].append(c)
    if clean.normalize_str(ch) == "":
        classes["remove"].append(c)
    if chinese.normalize_str(ch) != ch:
        classes["chinese"].append(c)
    if strip.normalize_str(ch) == "":
        classes["mark"].append(c)
    if nfd.normalize_str(ch) != ch:
        classes["decompose"].append(c)
    low = lower.normalize_str(ch)
    if low != ch and c != 0x130:  # only I with dot above becomes two characters
        assert len(low) == 1
        lowered[c] = ord(low) - c
    ccc = unicodedata.combining(ch)
    # Marks newer than the library's table are starters there: a starter never moves.
    if ccc and nfd.normalize_str(ch) == ch and (reorders(ch, "\u0334") or reorders("\u0345", ch)):
        combining[c] = ccc

# \s of the GPT-2 pattern is the same set as white space of BERT's pre-tokenizer.
for c in classes["space"]:
    spans = [o for _, o in gpt2.pre_tokenize_str("a" + chr(c) + chr(c))]
    assert spans == [(0, 1), (1, 3)], hex(c)
# Every combining class is checked against adjacent ones in the order.
by_class = sorted((v, k) for k, v in combining.items())
for (v, a), (w, b) in itertools.pairwise(by_class):
    assert reorders(chr(b), chr(a)) == (w > v), (hex(a), hex(b))


def runs(values):
    """Maximal runs (low, high, stride, value) of equal values, stride 1 or 2."""
    keys, out = sorted(values), []
    while keys:
        best = []
        for stride in (1, 2):
            run, c, have = [], keys[0], set(keys)
            while c in have and values[c] == values[keys[0]]:
                run.append(c)
                c += stride
            if len(run) > len(best):
                best, step = run, stride
        out.append((best[0], best[-1], step, values[best[0]]))
        gone = set(best)
        keys = [k for k in keys if k not in gone]
    return out


def line(name, low, high, stride, value):
    text = f"{name} {low:x}-{high:x}" + ("/2" if stride == 2 else "")
    return text if value is None else f"{text} {value}"


path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unicode.txt")
with open(path, "w") as f:
    f.write("# Written by testdata/unicode.py from tokenizers 0.23.3: class low-high[/stride] [value]; hexadecimal, inclusive.\n")
    for name, members in classes.items():
        low = prev = None
        for c in members + [None]:
            if low is not None and c != prev + 1 if c is not None else low is not None:
                f.write(line(name, low, prev, 1, None) + "\n")
                low = None
            if low is None:
                low = c
            prev = c
    for run in runs(combining):
        f.write(line("combining", *run) + "\n")
    for run in runs(lowered):
        f.write(line("lower", *run) + "\n")
