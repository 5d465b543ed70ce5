"""Writes the golden files of the Unigram models; golden.py writes the others.

    python golden_unigram.py train    trains unigram/spm.model.gz and unigram_bytes/tokenizer.json again
    python golden_unigram.py          writes the golden files

Needs tokenizers 0.23.3, transformers 5.23.0 (for its conversion of spm.model), sentencepiece 0.2.3 and
protobuf. The character map is that of nmt_nfkc, as DeBERTa-v2 and v3 use it; because it is large, it is
only in spm.model.gz: "CHARSMAP" is its placeholder in unigram_json/tokenizer.json.

A literal [CLS] in a text is plain text, as in SentencePiece; `tokenizers` would make it the special token. So the
special tokens have names here that occur in no text.
"""
import gzip
import json
import os
import sys
import tempfile
from types import SimpleNamespace

from tokenizers import Regex, Tokenizer, normalizers

from golden import HERE, corpus, golden, write
from strings import repair, strings

SPECIAL = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]


def path(*names):
    os.makedirs(os.path.join(HERE, names[0]), exist_ok=True)
    return os.path.join(HERE, *names)


def train(size, **options):
    import sentencepiece

    with tempfile.TemporaryDirectory() as dir:
        with open(dir + "/corpus", "w") as f:
            for text in corpus():
                f.writelines(line + "\n" for line in text.split("\n") if line.strip())
        sentencepiece.SentencePieceTrainer.train(
            input=dir + "/corpus", model_prefix=dir + "/m", vocab_size=size, model_type="unigram",
            character_coverage=0.999, input_sentence_size=20000, num_threads=1, minloglevel=2,
            pad_id=0, bos_id=1, eos_id=2, unk_id=3,
            **dict(zip(("pad_piece", "bos_piece", "eos_piece", "unk_piece"), SPECIAL)), **options)
        with open(dir + "/m.model", "rb") as f:
            return f.read()


def converted(model, **settings):
    """The conversion of spm.model by transformers, which AutoTokenizer used for every DeBERTa up to version 4."""
    from transformers.convert_slow_tokenizer import DebertaV2Converter

    with tempfile.NamedTemporaryFile(suffix=".model") as f:
        f.write(model)
        f.flush()
        ids = lambda name: SPECIAL.index(name)
        tok = DebertaV2Converter(SimpleNamespace(
            vocab_file=f.name, convert_tokens_to_ids=ids, **{"do_lower_case": False, "split_by_punct": False, **settings})).converted()
    tok.add_special_tokens(["[MASK]"])
    return tok


def plain(tok):
    """The same with special tokens that occur in no text."""
    doc = json.loads(tok.to_str())
    doc["added_tokens"], doc["post_processor"] = [], None
    for i, (token, _) in enumerate(doc["model"]["vocab"]):
        if token in SPECIAL:
            doc["model"]["vocab"][i][0] = "\U0010fffe" + token
    return Tokenizer.from_str(json.dumps(doc))


def save(tok, name):
    """tokenizer.json without the character map."""
    doc = json.loads(tok.to_str())
    for n in doc["normalizer"]["normalizers"]:
        if n["type"] == "Precompiled":
            n["precompiled_charsmap"] = "CHARSMAP"
    with open(path(name, "tokenizer.json"), "w") as f:
        json.dump(doc, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def characters(tok):
    """The same with a vocabulary of all characters: nothing is unknown, so every offset is checked."""
    texts = [repair(data) for data in strings()]
    known = sorted({c for t in texts for c in tok.normalizer.normalize_str(t)} - {" "} | {"▁"})
    doc = json.loads(plain(tok).to_str())
    doc["model"]["vocab"] = doc["model"]["vocab"][:4] + [[c, -1.0] for c in known]
    return known, Tokenizer.from_str(json.dumps(doc))


def main():
    with gzip.open(path("unigram", "spm.model.gz")) as f:
        model = f.read()
    tok = converted(model)
    save(tok, "unigram_json")
    golden("unigram", plain(tok))
    known, every = characters(tok)
    write("unigram_known.jsonl.gz", known)
    golden("unigram_characters", every)
    golden("unigram_lower", plain(converted(model, do_lower_case=True, split_by_punct=True)))

    # As transformers 5 saves a DeBERTa.
    tok.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC(), normalizers.Strip(left=False, right=True)])
    golden("unigram_v5", plain(tok))
    known, every = characters(tok)
    write("unigram_v5_known.jsonl.gz", known)
    golden("unigram_v5_characters", every)

    # As in Llama, with a byte fallback for unknown characters.
    golden("unigram_bytes", plain(Tokenizer.from_file(path("unigram_bytes", "tokenizer.json"))))


if __name__ == "__main__":
    if sys.argv[1:] == ["train"]:
        with open(path("unigram", "spm.model.gz"), "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
            f.write(train(2000, normalization_rule_name="nmt_nfkc"))
        tok = converted(train(900, normalization_rule_name="identity", byte_fallback=True))
        doc = json.loads(tok.to_str())
        doc["model"]["byte_fallback"] = True
        doc["normalizer"] = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
        doc["pre_tokenizer"] = None
        with open(path("unigram_bytes", "tokenizer.json"), "w") as f:
            json.dump(doc, f, ensure_ascii=False, separators=(",", ":"))
            f.write("\n")
    main()
