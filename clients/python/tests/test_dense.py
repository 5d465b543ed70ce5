"""Spans of sampled tokens, with tokenizers of every kind, trained in the test."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assay_client as ac
from assay_client import dense

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

EMOJI = "\U0001f600"
TEXTS = [
    "Drink some water and rest. You are welcome!",
    f"Well, don't panic {EMOJI}{EMOJI} it isn't that bad.\n\n- first  line\n\t- second 'one'",
    "Größe, naïve café, Ελληνικά, русский; 漢字 and かな. \u00a0 nbsp",
    "a\u0301 e\u0308 \U0001f469\u200d\U0001f469\u200d\U0001f467 #### 12345 ... \\frac{1}{2}",
    "   leading and trailing   ",
    "",
]
CORPUS = ["Drink some water and rest.", "You are welcome, don't panic, it isn't that bad."] * 20
END = "<|end|>"


def byte_level(size: int = 300, prefix: bool = False) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    t.train_from_iterator(CORPUS, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token=END)
    fast.add_tokens(["<call name>"])
    return fast


def byte_fallback() -> Any:
    """The kind of Llama 2 and Gemma."""
    from tokenizers import Tokenizer, decoders, models, normalizers, trainers

    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    t.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", END] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    t.train_from_iterator(["\u2581" + line.replace(" ", "\u2581") for line in CORPUS], trainer)
    import json

    state = json.loads(t.to_str())
    state["added_tokens"] = [a for a in state["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(state))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token=END, unk_token="<unk>")


def word_piece(cleanup: bool = True) -> Any:
    """The kind of BERT: decoding removes and adds white space."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece(cleanup=cleanup)
    trainer = trainers.WordPieceTrainer(
        vocab_size=300,
        special_tokens=["[UNK]", "[CLS]", "[SEP]"],
        initial_alphabet=list("abcdefghijklmnopqrstuvwxyz.,;!?'"),
        show_progress=False,
    )
    t.train_from_iterator(CORPUS, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=t,
        unk_token="[UNK]",
        cls_token="[CLS]",
        eos_token="[SEP]",
        clean_up_tokenization_spaces=cleanup,
    )


def unigram() -> Any:
    """The kind of T5."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<unk>", END], unk_token="<unk>", show_progress=False
    )
    t.train_from_iterator(CORPUS + [c for text in TEXTS for c in text if not c.isspace()], trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token=END, unk_token="<unk>")


def end_of_word() -> Any:
    """The kind of CLIP and GPT-1."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    t = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.BPEDecoder()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<unk>", END], end_of_word_suffix="</w>", show_progress=False
    )
    t.train_from_iterator(CORPUS + TEXTS, trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, eos_token=END, unk_token="<unk>")


def plain_bytes() -> Any:
    """ByT5: implemented in Python, one token per byte."""
    return transformers.ByT5Tokenizer()


def sentence_piece(tmp_path: Path) -> Any:
    """A Python tokenizer that wraps the SentencePiece library."""
    trainer = pytest.importorskip("sentencepiece").SentencePieceTrainer
    model = io.BytesIO()
    trainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=model,
        vocab_size=330,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=1.0,
        pad_id=3,
        minloglevel=2,
        user_defined_symbols=[],
    )
    path = tmp_path / "spiece.model"
    path.write_bytes(model.getvalue())
    return transformers.GPTSw3Tokenizer(str(path))


MAKERS: dict[str, Callable[[], Any]] = {
    "byte_level": byte_level,
    "bytes_only": lambda: byte_level(257),
    "prefix_space": lambda: byte_level(prefix=True),
    "byte_fallback": byte_fallback,
    "word_piece": word_piece,
    "word_piece_spaced": lambda: word_piece(False),
    "unigram": unigram,
    "end_of_word": end_of_word,
    "plain_bytes": plain_bytes,
}


@pytest.fixture(scope="module", params=[*MAKERS, "sentence_piece"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param == "sentence_piece":
        return sentence_piece(tmp_path_factory.mktemp("model"))
    return MAKERS[request.param]()


def check(offsets: list[tuple[int, int]], ids: list[int], text: str) -> None:
    """Asserts valid offsets, in which every character except white space has a token."""
    assert len(offsets) == len(ids)
    starts = [start for start, end in offsets if start < end]
    assert starts == sorted(starts)
    assert all(0 <= start <= end <= len(text) for start, end in offsets)
    covered = {k for start, end in offsets for k in range(start, end)}
    assert all(k in covered or c.isspace() for k, c in enumerate(text))


@pytest.mark.parametrize("text", TEXTS)
def test_sampled_ids(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    ids = [tokenizer.eos_token_id, *ids, tokenizer.eos_token_id, tokenizer.eos_token_id]
    decoded = dense.decode(tokenizer, ids)
    offsets = dense.token_offsets(tokenizer, ids)
    check(offsets, ids, decoded)
    assert offsets[0][0] == offsets[0][1]
    assert offsets[-1][0] == offsets[-1][1]
    for n, (start, end) in enumerate(offsets):
        alone = tokenizer.decode(ids[n : n + 1], skip_special_tokens=True)
        if "\ufffd" not in alone and len(alone.strip()) > 1:
            assert decoded[start:end].strip() == alone.strip().removeprefix("##")


def test_random_ids(tokenizer: Any) -> None:
    """A policy may sample any ids: other splits, incomplete characters, ids outside the vocabulary."""
    chance = random.Random(7)
    for _ in range(60):
        ids = [chance.randrange(len(tokenizer)) for _ in range(chance.randrange(1, 25))]
        check(dense.token_offsets(tokenizer, ids), ids, dense.decode(tokenizer, ids))


def test_text_without_outer_white_space(tokenizer: Any) -> None:
    ids = tokenizer.encode("  Drink some water. ", add_special_tokens=False)
    text = dense.decode(tokenizer, ids).strip()
    check(dense.token_offsets(tokenizer, ids, text), ids, text)


def test_text_of_other_ids(tokenizer: Any) -> None:
    ids = tokenizer.encode("Drink some water.", add_special_tokens=False)
    with pytest.raises(ac.InputError, match="does not match the token ids"):
        dense.token_offsets(tokenizer, ids, "Drink some wine.")


@pytest.mark.parametrize("name", ["bytes_only", "byte_fallback", "plain_bytes"])
def test_an_emoji_of_four_tokens(name: str) -> None:
    t = MAKERS[name]()
    ids = t.encode(f"ab{EMOJI}c", add_special_tokens=False)
    assert len(ids) >= 6
    offsets = dense.token_offsets(t, ids)
    assert offsets[-5:] == [(2, 3)] * 4 + [(3, 4)]
    cut = dense.token_offsets(t, ids[:-3])
    check(cut, ids[:-3], dense.decode(t, ids[:-3]))


def test_ids_are_not_tokenized_again() -> None:
    t = byte_level()
    sampled = [t.convert_tokens_to_ids(c) for c in "water"]
    assert t.encode("water") != sampled
    assert dense.token_offsets(t, sampled) == [(k, k + 1) for k in range(5)]


def test_added_and_special_tokens() -> None:
    t = byte_level()
    call = t.convert_tokens_to_ids("<call name>")
    ids = [call, t.eos_token_id, *t.encode("x"), t.eos_token_id, call]
    assert dense.decode(t, ids) == "<call name>x<call name>"
    assert dense.token_offsets(t, ids) == [(0, 11), (11, 11), (11, 12), (12, 12), (12, 23)]


def test_ids_outside_the_vocabulary() -> None:
    t = byte_level()
    assert dense.token_offsets(t, [*t.encode("x"), len(t) + 5]) == [(0, 1), (1, 1)]


def test_offsets_of_a_fast_tokenizer() -> None:
    """The offsets equal those of a fast tokenizer."""
    t = byte_level()
    for text in TEXTS[:3]:
        encoded = t(text, return_offsets_mapping=True)
        assert dense.token_offsets(t, encoded["input_ids"], text) == encoded["offset_mapping"]


def test_decoding_of_prefixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no encoding of the vocabulary matches, every prefix is decoded."""
    t = byte_level(257)
    ids = t.encode(f"ab {EMOJI} c")
    whole = dense.token_offsets(t, ids)
    monkeypatch.setattr(dense, "spans", lambda *_: None)
    assert dense.token_offsets(t, ids) == whole
    assert dense.token_offsets(t, ids, f"  ab{EMOJI}c")[-1] == (5, 6)


def test_items() -> None:
    t = byte_level()
    torch = pytest.importorskip("torch")
    item = dense.item(t, torch.tensor([*t.encode("Drink."), t.eos_token_id]), prompt="p", id="a")
    assert (item.response, item.prompt, item.id) == ("Drink.", "p", "a")
    assert item.token_offsets is not None
    assert item.token_offsets[-1] == (6, 6)
    assert item.to_json()["token_offsets"] == item.token_offsets
