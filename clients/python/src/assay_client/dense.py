"""Where sampled tokens lie in their text, for a reward a token.

    from assay_client import Client, Options, dense

    items = [dense.item(tokenizer, ids) for ids in completion_ids]
    for r in Client().score(items, options=Options(dense="instance")):
        print(r.token_rewards)  # one for each id; their sum is r.reward

The ids are those that the policy sampled. They are never made again from the
text, which another split into tokens would have, too: a policy is rewarded for
the tokens that it chose. Any tokenizer of `transformers` will do, fast or
slow; this module imports none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._errors import InputError
from ._pieces import Name, Span, align, spans
from ._types import Item


def item(
    tokenizer: Any,
    ids: Iterable[int],
    *,
    prompt: str | None = None,
    id: str | None = None,
    metadata: Any = None,
) -> Item:
    """The response that ids are, with the offsets of each of them."""
    ids = _plain(ids)
    text = decode(tokenizer, ids)
    offsets = token_offsets(tokenizer, ids, text)
    return Item(response=text, prompt=prompt, id=id, metadata=metadata, token_offsets=offsets)


def decode(tokenizer: Any, ids: Iterable[int]) -> str:
    """The text of ids, without special tokens: what trainers score."""
    return str(tokenizer.decode(_plain(ids), skip_special_tokens=True))


def token_offsets(tokenizer: Any, ids: Iterable[int], text: str | None = None) -> list[Span]:
    """`[start, end)` of each of the ids in text, in code points.

    `text` is what the ids decode to without special tokens, which is also its
    default; it may have lost or won white space. Special tokens and those
    of which nothing is left in the text are empty spans. Tokens that are parts
    of one character, such as the bytes of an emoji, all have the span of the
    character. Raises `InputError` for a text of other tokens.
    """
    ids = _plain(ids)
    if text is None:
        text = decode(tokenizer, ids)
    found = spans(_names(tokenizer, ids), text)
    if found is None:
        found = _by_prefixes(tokenizer, ids, text)
    if found is None:
        raise InputError(
            "the text is not what the token ids decode to; give what"
            " tokenizer.decode(ids, skip_special_tokens=True) returns, or no text"
        )
    return found


def _plain(ids: Any) -> list[int]:
    """ids of a list, an array or a tensor."""
    return [int(i) for i in (ids.tolist() if hasattr(ids, "tolist") else ids)]


def _names(tokenizer: Any, ids: list[int]) -> list[Name]:
    """The names of tokens; in bytes what is taken literally, which for special tokens is nothing."""
    added = getattr(tokenizer, "added_tokens_decoder", None) or {}
    special = set(tokenizer.all_special_ids)
    names: list[Name] = []
    for i, name in zip(ids, tokenizer.convert_ids_to_tokens(ids)):
        if name is None or i in special or getattr(added.get(i), "special", False):
            names.append(b"")  # None: beyond the vocabulary, as padded models can sample
        elif i in added:
            names.append(str(added[i]).encode())
        else:
            names.append(name if isinstance(name, bytes) else str(name))
    return names


def _by_prefixes(tokenizer: Any, ids: list[int], text: str) -> list[Span] | None:
    """Spans by decoding the first token, the first two, and so on: slow, but as the tokenizer has it.

    What a prefix has in common with the whole is done. A character that it
    has only begun ends it as U+FFFD.
    """
    whole = decode(tokenizer, ids)
    found: list[Span] = []
    done = 0
    for n in range(1, len(ids) + 1):
        prefix = decode(tokenizer, ids[:n])
        same = _common(prefix, whole, done)
        begun = same < len(whole) and prefix[same : same + 1] == "\ufffd"
        found.append((done, max(done, same + begun)))
        done = max(done, same)
    if text == whole:
        return found
    bounds = align([c.encode() for c in whole], [(c, len(c.encode())) for c in whole], text)
    if bounds is None:
        return None
    return [(bounds[a][0], bounds[b - 1][1]) if a < b else _empty(bounds, a) for a, b in found]


def _empty(bounds: list[Span], at: int) -> Span:
    end = bounds[at - 1][1] if at else 0
    return end, end


def _common(a: str, b: str, known: int) -> int:
    """How many characters a and b begin with alike; probably known ones at least."""
    n = known if a[:known] == b[:known] else 0
    while n < len(a) and n < len(b) and a[n] == b[n]:
        n += 1
    return n
