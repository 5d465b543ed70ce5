"""What each token stands for in a text, by its name in the vocabulary.

A name does not say how it is to be read: `\u0120a` of byte-level vocabularies,
`\u2581a` and `<0x0A>` of SentencePiece, `##a` and `a</w>` of word pieces, a byte
as a character. Each reading is tried, and the one whose characters are those of
the text is the right one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Union

Span = tuple[int, int]
# A name of the vocabulary, or what a token stands for where that is known.
Name = Union[str, bytes]


def spans(names: Sequence[Name], text: str) -> list[Span] | None:
    """`[start, end)` of each token in text; None where no reading fits.

    White space that only one of the two has is passed over. Tokens that are
    parts of one character all have it as their span; those that have nothing
    in the text are empty.
    """
    for read in (_byte_level, _sentence_pieces, _whole_runs, _words, _plain_bytes):
        pieces = read(names)
        for characters in _decode(b"".join(pieces)):
            found = align(pieces, characters, text)
            if found is not None:
                return found
    return None


def align(pieces: Sequence[bytes], characters: Sequence[tuple[str, int]], text: str) -> list[Span] | None:
    """Spans in text of pieces that together are characters, each with its length in bytes."""
    where: list[Span | None] = []  # of each byte
    at = 0
    for character, length in characters:
        if character.isspace():
            if text[at : at + 1] != character:
                where += [None] * length
                continue
        else:
            while at < len(text) and text[at] != character and text[at].isspace():
                at += 1
            if text[at : at + 1] != character:
                return None
        where += [(at, at + 1)] * length
        at += 1
    if text[at:].strip():
        return None
    found: list[Span] = []
    first = end = 0
    for piece in pieces:
        seen = [w for w in where[first : first + len(piece)] if w is not None]
        first += len(piece)
        span = (seen[0][0], seen[-1][1]) if seen else (end, end)
        end = span[1]
        found.append(span)
    return found


def _decode(data: bytes) -> Iterator[list[tuple[str, int]]]:
    """The characters of data, with their lengths in bytes.

    What is no UTF-8 becomes U+FFFD, by some once for the beginning of a
    character, by others for each byte.
    """
    parts: list[tuple[str, int]] = []  # valid text, or "" for as many bytes
    while data:
        try:
            parts.append((data.decode(), len(data)))
            break
        except UnicodeDecodeError as e:
            parts += [(data[: e.start].decode(), e.start), ("", e.end - e.start)]
            data = data[e.end :]
    valid = all(text for text, length in parts if length)
    for each in (False,) if valid else (False, True):
        found: list[tuple[str, int]] = []
        for text, length in parts:
            if text:
                found += [(c, len(c.encode())) for c in text]
            elif each:
                found += [("\ufffd", 1)] * length
            elif length:
                found.append(("\ufffd", length))
        yield found


def _each(read: Callable[[str], bytes], names: Sequence[Name]) -> list[bytes]:
    return [name if isinstance(name, bytes) else read(name) for name in names]


@cache
def _bytes_of_characters() -> dict[str, int]:
    """The printable characters by which GPT-2 wrote bytes, and all after it."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + k): b for k, b in enumerate(moved)}


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


def _whole_runs(names: Sequence[Name]) -> list[bytes]:
    """Sentence pieces; a run of bytes that is no UTF-8 is U+FFFD for each of them."""
    pieces = _sentence_pieces(names)
    run: list[int] = []
    for k, name in enumerate([*names, ""]):
        if isinstance(name, str) and _BYTE.fullmatch(name):
            run.append(k)
            continue
        if name == b"":  # a special token: it is not there
            continue
        try:
            b"".join(pieces[i] for i in run).decode()
        except UnicodeDecodeError:
            for i in run:
                pieces[i] = "\ufffd".encode()
        run = []
    return pieces


def _words(names: Sequence[Name]) -> list[bytes]:
    def read(name: str) -> bytes:
        if name.startswith("##"):
            return name[2:].encode()
        for mark in ("</w>", "@@"):
            if name.endswith(mark):
                return name[: -len(mark)].encode()
        return name.encode()

    return _each(read, names)


def _plain_bytes(names: Sequence[Name]) -> list[bytes]:
    return _each(
        lambda name: bytes([ord(name)]) if len(name) == 1 and ord(name) < 256 else name.encode(), names
    )
