"""The spans of tokens in a text, derived from their vocabulary entries.

The encoding of an entry is unknown: `\u0120a` of byte-level vocabularies,
`\u2581a` and `<0x0A>` of SentencePiece, `##a` and `a</w>` of word pieces, or a
byte as a character. Each encoding is tried until one yields the characters of
the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Union

Span = tuple[int, int]
# A vocabulary entry, or the literal bytes of a token where they are known.
Name = Union[str, bytes]


def spans(names: Sequence[Name], text: str) -> list[Span] | None:
    """The span `[start, end)` of each token in text; None if no encoding matches.

    White space that only one of the two contains is skipped. Tokens that
    encode parts of one character all have its span; tokens that the text does
    not contain have empty spans.
    """
    for decode in (_byte_level, _sentence_pieces, _sentence_pieces_byte_runs, _word_pieces, _plain_bytes):
        pieces = decode(names)
        for characters in _decode(b"".join(pieces)):
            result = align(pieces, characters, text)
            if result is not None:
                return result
    return None


def align(pieces: Sequence[bytes], characters: Sequence[tuple[str, int]], text: str) -> list[Span] | None:
    """Spans in text of pieces whose concatenation is characters, given with their lengths in bytes."""
    byte_spans: list[Span | None] = []
    at = 0
    for character, length in characters:
        if character.isspace():
            if text[at : at + 1] != character:
                byte_spans += [None] * length
                continue
        else:
            while at < len(text) and text[at] != character and text[at].isspace():
                at += 1
            if text[at : at + 1] != character:
                return None
        byte_spans += [(at, at + 1)] * length
        at += 1
    if text[at:].strip():
        return None
    result: list[Span] = []
    first = end = 0
    for piece in pieces:
        covered = [s for s in byte_spans[first : first + len(piece)] if s is not None]
        first += len(piece)
        span = (covered[0][0], covered[-1][1]) if covered else (end, end)
        end = span[1]
        result.append(span)
    return result


def _decode(data: bytes) -> Iterator[list[tuple[str, int]]]:
    """Yields the characters of data with their lengths in bytes, once per convention for invalid UTF-8.

    Some tokenizers decode an incomplete character to one U+FFFD, others to one
    per byte.
    """
    parts: list[tuple[str, int]] = []  # text and its length in bytes; "" if it is invalid
    while data:
        try:
            parts.append((data.decode(), len(data)))
            break
        except UnicodeDecodeError as e:
            parts += [(data[: e.start].decode(), e.start), ("", e.end - e.start)]
            data = data[e.end :]
    valid = all(text for text, length in parts if length)
    for per_byte in (False,) if valid else (False, True):
        characters: list[tuple[str, int]] = []
        for text, length in parts:
            if text:
                characters += [(c, len(c.encode())) for c in text]
            elif per_byte:
                characters += [("\ufffd", 1)] * length
            elif length:
                characters.append(("\ufffd", length))
        yield characters


def _each(read: Callable[[str], bytes], names: Sequence[Name]) -> list[bytes]:
    return [name if isinstance(name, bytes) else read(name) for name in names]


@cache
def _bytes_of_characters() -> dict[str, int]:
    """The printable characters that represent bytes in byte-level vocabularies, as defined by GPT-2."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + k): b for k, b in enumerate(shifted)}


def _byte_level(names: Sequence[Name]) -> list[bytes]:
    table = _bytes_of_characters()

    def read(name: str) -> bytes:
        try:
            return bytes(table[c] for c in name)
        except KeyError:
            return name.encode()

    return _each(read, names)


_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _sentence_pieces(names: Sequence[Name]) -> list[bytes]:
    def read(name: str) -> bytes:
        byte = _BYTE.fullmatch(name)
        return bytes([int(byte[1], 16)]) if byte else name.replace("\u2581", " ").encode()

    return _each(read, names)


def _sentence_pieces_byte_runs(names: Sequence[Name]) -> list[bytes]:
    """Like `_sentence_pieces`, but every byte of an invalid UTF-8 run becomes U+FFFD."""
    pieces = _sentence_pieces(names)
    run: list[int] = []
    for k, name in enumerate([*names, ""]):
        if isinstance(name, str) and _BYTE.fullmatch(name):
            run.append(k)
            continue
        if name == b"":  # a special token does not end a run
            continue
        try:
            b"".join(pieces[i] for i in run).decode()
        except UnicodeDecodeError:
            for i in run:
                pieces[i] = "\ufffd".encode()
        run = []
    return pieces


def _word_pieces(names: Sequence[Name]) -> list[bytes]:
    def read(name: str) -> bytes:
        if name.startswith("##"):
            return name[2:].encode()
        for suffix in ("</w>", "@@"):
            if name.endswith(suffix):
                return name[: -len(suffix)].encode()
        return name.encode()

    return _each(read, names)


def _plain_bytes(names: Sequence[Name]) -> list[bytes]:
    return _each(
        lambda name: bytes([ord(name)]) if len(name) == 1 and ord(name) < 256 else name.encode(), names
    )
