"""Writes the golden files: the ids and code-point offsets of Hugging Face `tokenizers`.

    python golden.py train                   trains the small vocabularies again (the trainer breaks ties at random)
    python golden.py small                   writes the golden files of the small vocabularies
    python golden.py roberta DIR             the golden files of RoBERTa's vocab.json and merges.txt
    python golden.py minilm DIR              the golden files of the tokenizer.json of MiniLM-L6 (uncased BERT)

Needs tokenizers 0.23.3. Each line of strings.jsonl.gz is a JSON string whose characters
are the bytes of a text; the same line of NAME.jsonl.gz has [ids, offsets], where
offsets are, for each token, its start minus the end of the token before, and its length.
"""
import gzip
import inspect
import json
import os
import pkgutil
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from strings import repair, strings

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
HERE = os.path.dirname(os.path.abspath(__file__))
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write(name, lines):
    with open(os.path.join(HERE, name), "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
        for value in lines:
            f.write(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")


def golden(name, tok):
    tok.encode_special_tokens = True
    tok.no_truncation()
    tok.no_padding()
    lines = []
    for data in strings():
        e = tok.encode(repair(data), add_special_tokens=False)
        offsets, last = [], 0
        for start, end in e.offsets:
            offsets += [start - last, end - start]
            last = end
        lines.append([e.ids, offsets])
    write(name + ".jsonl.gz", lines)
    print(name, len(lines), "strings", sum(len(l[0]) for l in lines), "tokens")


def corpus():
    """Text to train the small vocabularies on: the standard library's source, and the golden sentences repeated."""
    for module in sorted(m.name for m in pkgutil.iter_modules() if m.module_finder and "lib/python" in str(m.module_finder.path)):
        path = os.path.join(os.path.dirname(inspect.__file__), module + ".py")
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                yield f.read()
    for _ in range(20):
        for data in strings()[:300]:
            yield repair(data)


def roberta(model):
    """RoBERTa's tokenizer around a byte-level BPE."""
    tok = Tokenizer(model)
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    return tok


def roberta_frame(tok):
    tok.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)])
    tok.post_processor = processors.RobertaProcessing(
        ("</s>", tok.token_to_id("</s>")), ("<s>", tok.token_to_id("<s>")), trim_offsets=True, add_prefix_space=False)
    return tok


def bert(model, **flags):
    """BERT's tokenizer around a WordPiece."""
    tok = Tokenizer(model)
    tok.normalizer = normalizers.BertNormalizer(**flags)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tok


def bert_frame(tok):
    tok.add_special_tokens(BERT)
    tok.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", tok.token_to_id("[CLS]")), ("[SEP]", tok.token_to_id("[SEP]"))])
    return tok


def train_bpe(size):
    tok = roberta(models.BPE())
    tok.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, special_tokens=ROBERTA, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return roberta_frame(tok)


def train_wordpiece(size, **flags):
    tok = bert(models.WordPiece(unk_token="[UNK]"), **flags)
    tok.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=size, special_tokens=BERT, show_progress=False))
    return bert_frame(tok)


def folder(name):
    path = os.path.join(HERE, name)
    os.makedirs(path, exist_ok=True)
    return path


def train():
    train_bpe(8300).model.save(folder("bpe"))
    train_wordpiece(8000).model.save(folder("wordpiece"))
    # As tokenizer.json, with additional content that checkpoints may have; the second is cased.
    tok = train_bpe(1000)
    tok.enable_truncation(16)
    tok.enable_padding(pad_id=1, pad_token="<pad>", length=16)
    tok.save(os.path.join(folder("bpe_json"), "tokenizer.json"))
    tok = train_wordpiece(2500, lowercase=False)
    tok.enable_truncation(16)
    tok.enable_padding(pad_id=0, pad_token="[PAD]", length=16)
    tok.save(os.path.join(folder("wordpiece_json"), "tokenizer.json"))


def read_bpe(path):
    return roberta_frame(roberta(models.BPE.from_file(os.path.join(path, "vocab.json"), os.path.join(path, "merges.txt"))))


def small():
    write("strings.jsonl.gz", [data.decode("latin-1") for data in strings()])
    golden("bpe", read_bpe(folder("bpe")))
    for name in "bpe_json", "wordpiece_json":
        golden(name, Tokenizer.from_file(os.path.join(HERE, name, "tokenizer.json")))

    # BERT's settings, and normalizer settings that no checkpoint above has.
    vocab = models.WordPiece.read_file(os.path.join(HERE, "wordpiece", "vocab.txt"))
    for name, flags in {
        "": {},
        "_lower_accents": dict(strip_accents=False),
        "_cased_stripped": dict(lowercase=False, strip_accents=True),
        "_raw": dict(clean_text=False, handle_chinese_chars=False),
    }.items():
        golden("wordpiece" + name, bert_frame(bert(models.WordPiece(vocab, unk_token="[UNK]"), **flags)))

    # A vocabulary of all characters: nothing is unknown, so every offset is checked.
    lowercase = normalizers.BertNormalizer()
    characters = sorted({c for data in strings() for c in lowercase.normalize_str(repair(data)) if not c.isspace()})
    write("characters.jsonl.gz", characters)
    vocab = {token: i for i, token in enumerate(BERT + characters + ["##" + c for c in characters])}
    golden("wordpiece_characters", bert_frame(bert(models.WordPiece(vocab, unk_token="[UNK]"))))


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "train":
        train()
    elif what == "small":
        small()
    elif what == "roberta":
        golden("roberta", read_bpe(sys.argv[2]))
    elif what == "minilm":
        golden("minilm", Tokenizer.from_file(os.path.join(sys.argv[2], "tokenizer.json")))
