"""Writes ../properties.txt: the code points of each property that the regular expressions of a
tokenizer.json may name, as the Oniguruma of Hugging Face `tokenizers` has them.

Run with tokenizers 0.23.3 (pip install tokenizers==0.23.3):  python properties.py
"""
import os

import tokenizers
from tokenizers import Regex, pre_tokenizers

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, POINTS))
NAMES = ["L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "N", "Nd", "P", "S", "Z", "C", "Han", "Hiragana", "Katakana", "Hangul"]
PATTERNS = {name: r"\p{%s}" % name for name in NAMES} | {"space": r"\s", "digit": r"\d"}

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "properties.txt"), "w") as f:
    f.write("# Written by testdata/properties.py from tokenizers 0.23.3: name low-high...; hexadecimal, inclusive.\n")
    def row(name, spans):
        f.write(name)
        for start, end in spans:
            low, high = POINTS[start], POINTS[end - 1]
            # A run that includes the surrogates, which are not characters, is one run.
            f.write(f" {low:x}-{high:x}" if high > low else f" {low:x}")
        f.write("\n")

    for name, pattern in PATTERNS.items():
        split = pre_tokenizers.Split(Regex(pattern + "+"), "removed", invert=True)
        row(name, [span for _, span in split.pre_tokenize_str(TEXT)])
    # The digits of the pre-tokenizer Digits: 0 is one, and digits and other characters alternate.
    pieces = [span for _, span in pre_tokenizers.Digits().pre_tokenize_str(TEXT)]
    first = next(i for i, (start, end) in enumerate(pieces) if start <= ord("0") < end)
    row("numeric", pieces[first % 2::2])
