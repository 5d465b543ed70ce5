"""What the adapters share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Union

from .. import AsyncClient, Client, Item, Result

Completion = Union[str, Sequence[Mapping[str, Any]]]


@cache
def shared_client() -> Client:
    """The client of a process."""
    return Client()


@cache
def shared_async_client() -> AsyncClient:
    """The asynchronous client of a process."""
    return AsyncClient()


def item(completion: Completion, prompt: Completion | None = None) -> Item:
    """A completion, as a string or a list of chat messages, as an item to score.

    The messages of the prompt are context alone: an assistant's turn among
    them is none of the policy's.
    """
    context = None if prompt is None else plain(prompt)
    if isinstance(completion, str):
        return Item(response=completion, prompt=context)
    messages = [{"role": str(m["role"]), "content": _content(m)} for m in completion]
    return Item(messages=messages, prompt=context)


def plain(value: Completion) -> str:
    """The text of a prompt."""
    return value if isinstance(value, str) else "\n".join(_content(m) for m in value)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    # None beside tool calls; a list of parts with images and text.
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


_END = re.compile(r"(?:\s*(?:<\|[^<>|]{1,40}\|>|</s>|<s>|<eos>|<pad>|<end_of_turn>|\[PAD\]))+\s*\Z")


def without_end(text: str) -> str:
    """text without the special tokens that end it, for trainers that decode them."""
    return _END.sub("", text)


def witness(result: Result) -> str:
    """The witness as a JSON string, for places where only flat values may go; "null" without one."""
    w = result.witness
    if w is None:
        return "null"
    span = {"start": w.start, "end": w.end, "text": w.text, "violation": w.violation, "index": w.index}
    if w.message is not None:
        span["message"] = w.message
    return json.dumps(span, ensure_ascii=False)


def figures(result: Result) -> dict[str, float]:
    """What is known of a result, as numbers; -1 where there is no witness."""
    w = result.witness
    return {
        "violation": result.violation,
        "threshold": result.threshold,
        "compliant": float(result.compliant),
        "empty": float(result.empty),
        "truncated": float(result.truncated),
        "witness_start": float(w.start) if w else -1.0,
        "witness_end": float(w.end) if w else -1.0,
    }
