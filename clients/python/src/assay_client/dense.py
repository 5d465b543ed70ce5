"""The spans of sampled tokens in the response, for token-level rewards.

    from assay_client import Client, Options, dense

    items = [dense.item(tokenizer, ids) for ids in completion_ids]
    for r in Client().score(items, options=Options(dense="instance")):
        print(r.token_rewards)  # one per id; their sum is r.reward

The ids are those that the policy sampled. The text is never tokenized again,
because that could split it differently from what the policy sampled. Any
tokenizer of `transformers` works, fast or slow; this module imports none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._errors import InputError
from ._token_spans import Name, Span, align, spans
from ._types import Item


def item(
    tokenizer: Any,
    ids: Iterable[int],
    *,
    prompt: str | None = None,
    id: str | None = None,
    metadata: Any = None,
) -> Item:
    """The item for a response of these token ids, with the offsets of each."""
    ids = _to_list(ids)
    text = decode(tokenizer, ids)
    offsets = token_offsets(tokenizer, ids, text)
    return Item(response=text, prompt=prompt, id=id, metadata=metadata, token_offsets=offsets)


def decode(tokenizer: Any, ids: Iterable[int]) -> str:
    """The text of the ids without special tokens."""
    return str(tokenizer.decode(_to_list(ids), skip_special_tokens=True))


def token_offsets(tokenizer: Any, ids: Iterable[int], text: str | None = None) -> list[Span]:
    """The span `[start, end)` of each of the ids in text, in code points.

    `text` defaults to what the ids decode to without special tokens; it may
    differ from that in white space. Special tokens, and tokens that the text
    does not contain, have empty spans. Tokens that encode parts of one
    character, such as the bytes of an emoji, all have the span of the
    character. Raises `InputError` if the text does not match the ids.
    """
    ids = _to_list(ids)
    if text is None:
        text = decode(tokenizer, ids)
    offsets = spans(_names(tokenizer, ids), text)
    if offsets is None:
        offsets = _by_prefixes(tokenizer, ids, text)
    if offsets is None:
        raise InputError(
            "the text does not match the token ids; pass the result of"
            " tokenizer.decode(ids, skip_special_tokens=True), or no text"
        )
    return offsets


def _to_list(ids: Any) -> list[int]:
    """The ids in a list, an array or a tensor, as a list of int."""
    return [int(i) for i in (ids.tolist() if hasattr(ids, "tolist") else ids)]


def _names(tokenizer: Any, ids: list[int]) -> list[Name]:
    """The vocabulary entries of tokens. Bytes stand for literal text, which is empty for special tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    special = set(tokenizer.all_special_ids)
    names: list[Name] = []
    for i, name in zip(ids, tokenizer.convert_ids_to_tokens(ids)):
        if name is None or i in special or getattr(added.get(i), "special", False):
            names.append(b"")  # None: outside the vocabulary, which models with padded embeddings can sample
        elif i in added:
            names.append(str(added[i]).encode())
        else:
            names.append(name if isinstance(name, bytes) else str(name))
    return names


def _by_prefixes(tokenizer: Any, ids: list[int], text: str) -> list[Span] | None:
    """Computes spans by decoding every prefix of the ids, which is slow but works for any tokenizer.

    The common prefix of the decoded prefix and the whole text is complete. An
    incomplete character at its end decodes to U+FFFD.
    """
    whole = decode(tokenizer, ids)
    offsets: list[Span] = []
    done = 0
    for n in range(1, len(ids) + 1):
        prefix = decode(tokenizer, ids[:n])
        common = _common_prefix(prefix, whole, done)
        incomplete = common < len(whole) and prefix[common : common + 1] == "\ufffd"
        offsets.append((done, max(done, common + incomplete)))
        done = max(done, common)
    if text == whole:
        return offsets
    bounds = align([c.encode() for c in whole], [(c, len(c.encode())) for c in whole], text)
    if bounds is None:
        return None
    return [(bounds[a][0], bounds[b - 1][1]) if a < b else _empty(bounds, a) for a, b in offsets]


def _empty(bounds: list[Span], at: int) -> Span:
    end = bounds[at - 1][1] if at else 0
    return end, end


def _common_prefix(a: str, b: str, known: int) -> int:
    """The length of the common prefix of a and b, which is probably at least known."""
    n = known if a[:known] == b[:known] else 0
    while n < len(a) and n < len(b) and a[n] == b[n]:
        n += 1
    return n
