"""Helpers shared by the integrations."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Union

from .. import AsyncClient, Client, Failure, InputError, Item, Result

Completion = Union[str, Sequence[Mapping[str, Any]]]


@cache
def shared_client() -> Client:
    """The client that the integrations of this process share."""
    return Client()


@cache
def shared_async_client() -> AsyncClient:
    """The asynchronous client that the integrations of this process share."""
    return AsyncClient()


def to_item(completion: Completion, prompt: Completion | None = None) -> Item:
    """The item for a completion, which is a string or a list of chat messages.

    The messages of the prompt are only context: the policy did not write the
    assistant messages among them.
    """
    context = None if prompt is None else prompt_text(prompt)
    if isinstance(completion, str):
        return Item(response=completion, prompt=context)
    messages = [{"role": str(m["role"]), "content": _content(m)} for m in completion]
    return Item(messages=messages, prompt=context)


def prompt_text(prompt: Completion) -> str:
    """A prompt as plain text, without the chat template that some trainers have applied to it."""
    text = prompt if isinstance(prompt, str) else "\n".join(_content(m) for m in prompt)
    turns = [_ROLE.sub("", part).strip() for part in _TEMPLATE_TOKENS.split(text)]
    if len(turns) == 1:
        return text
    turns[-1] = _REASONING.sub("", turns[-1]).strip()  # which templates may begin at the end of the prompt
    return "\n".join(turn for turn in turns if turn)


_TEMPLATE_TOKENS = re.compile(
    r"<\|[^<>|\s]{1,40}\|>|<\uff5c[^<>\uff5c\s]{1,40}\uff5c>|</?s>|<(?:bos|eos|pad|unk|sop|BOS_TOKEN)>"
    r"|<(?:start|end)_of_turn>|\[(?:/?INST|PAD|gMASK)\]"
)
_ROLE = re.compile(r"\A(?:system|developer|user|human|assistant|model|tool|ipython)[ \t]*(?:\n|\Z)")
_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    # None next to tool calls, or a list of image and text parts.
    return "".join(str(part.get("text", "")) for part in content or () if isinstance(part, Mapping))


# A special token at the end of a text; the service uses the same list (api/chat/templates.go).
_SPECIAL_TOKEN = re.compile(
    r"(?:<([|\uff5c])[^\x00-\x20<>|\uff5c\"']{1,62}\1>"
    r"|</?s>|<(?:pad|unk|bos|eos|mask|sop|end_of_turn|BOS_TOKEN|extra_id_1)>"
    r"|\[(?:gMASK|BOS|EOS|PAD|CLS|SEP|UNK|/SYSTEM_PROMPT)\])\Z"
)
_MAX_SPECIAL_TOKEN = 66  # characters


def strip_special_tokens(text: str) -> str:
    """text without special tokens and white space at its end, for trainers that decode them."""
    end = len(text)
    while True:
        while end and text[end - 1].isspace():
            end -= 1
        # Only the last characters are matched, so that the time is linear in the length of the text.
        token = _SPECIAL_TOKEN.search(text, max(0, end - _MAX_SPECIAL_TOKEN), end)
        if token is None:
            return text[:end]
        end = token.start()


def witness_json(result: Result) -> str:
    """The witness as a JSON string, for trainers that accept only flat values; "null" if there is none."""
    w = result.witness
    if w is None:
        return "null"
    span = {"start": w.start, "end": w.end, "text": w.text, "violation": w.violation, "index": w.index}
    if w.message is not None:
        span["message"] = w.message
    return json.dumps(span, ensure_ascii=False)


def metrics(result: Result) -> dict[str, float]:
    """The values of a result as numbers; the witness offsets are -1 if there is no witness.

    With `Options.aspects`, each aspect adds `reward_NAME` and `violation_NAME`.
    """
    w = result.witness
    values = {
        "violation": result.violation,
        "threshold": result.threshold,
        "compliant": float(result.compliant),
        "empty": float(result.empty),
        "truncated": float(result.truncated),
        "witness_start": float(w.start) if w else -1.0,
        "witness_end": float(w.end) if w else -1.0,
    }
    for name, aspect in (result.aspects or {}).items():
        values[f"reward_{name}"] = aspect.reward
        values[f"violation_{name}"] = aspect.violation
    return values


class SharedBatch:
    """Scores a batch once for several reward functions, which the trainer calls one after the other.

    A function that asks a second time for the same batch has it scored again.
    Functions that are pickled together share a batch in the other process.
    """

    def __init__(self, score: Callable[[Sequence[Item]], Sequence[Result | Failure]]) -> None:
        self._score = score
        self._lock = threading.Lock()
        self._items: Sequence[Item] = ()
        self._outcomes: Sequence[Result | Failure] = ()
        self._served: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedBatch, (self._score,)

    def outcomes(self, reader: str, items: Sequence[Item]) -> Sequence[Result | Failure]:
        """The outcomes of items for the reward function of this name."""
        with self._lock:
            if reader in self._served or items != self._items or not self._served:
                self._outcomes = self._score(items)
                self._items, self._served = items, set()
            self._served.add(reader)
            return self._outcomes


def component(outcome: Result | Failure, aspect: str) -> float:
    """The reward of an aspect of an outcome, for which `Options.aspects` was set."""
    if isinstance(outcome, Failure):
        return outcome.reward
    if aspect not in outcome.components:
        known = ", ".join(sorted(outcome.components)) or "none"
        raise InputError(f"model {outcome.model.version} has no aspect {aspect!r}; it has: {known}")
    return outcome.components[aspect]
