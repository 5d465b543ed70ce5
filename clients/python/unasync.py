#!/usr/bin/env python3
"""Generates the synchronous client, `_sync/`, from the asynchronous one, `_async/`.

python unasync.py           # writes the files
python unasync.py --check   # fails if they are out of date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "assay_client"
SOURCE, TARGET = PACKAGE / "_async", PACKAGE / "_sync"
HEADER = "# Generated from _async/{} by unasync.py: edit that file instead.\n"

# What to replace, in this order, where a word begins, in code and docstrings alike.
REPLACEMENTS = {
    "async def ": "def ",
    "async for ": "for ",
    "async with ": "with ",
    "await ": "",
    "Awaitable[T]": "T",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "AsyncClient": "Client",
    "AsyncLive": "Live",
    "AsyncChannel": "Channel",
    "AsyncIterable": "Iterable",
    "async_open_channel": "open_channel",
    "asynccontextmanager": "contextmanager",
    "AsyncSleep": "Sleep",
    "AsyncTransport": "Transport",
    "async_ordered_map": "ordered_map",
    "async_sleep": "sleep",
    "AsyncIterator, Awaitable, Callable, Iterable": "Callable, Iterable, Iterator",
    "AsyncIterator": "Iterator",
    "asyncio tasks": "threads",
    "An asynchronous": "A synchronous",
    "asynchronous client, from which `_sync` is generated": "synchronous client, generated from `_async`",
    "asynchronous": "synchronous",
    "fork.\n    Several event loops may use a client in turn.": "fork.",
}


def synchronous(name: str, source: str) -> str:
    """The synchronous version of a source file."""
    for old, new in REPLACEMENTS.items():
        source = re.sub(rf"\b{re.escape(old)}", new, source)
    return HEADER.format(name) + source


def main(check: bool) -> int:
    generated = {path.name: synchronous(path.name, path.read_text()) for path in SOURCE.glob("*.py")}
    current = {path.name: path.read_text() for path in TARGET.glob("*.py")}
    if generated == current:
        return 0
    if check:
        print("src/assay_client/_sync is out of date: run python unasync.py", file=sys.stderr)
        return 1
    TARGET.mkdir(exist_ok=True)
    for name in current.keys() - generated.keys():
        (TARGET / name).unlink()
    for name, text in generated.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
