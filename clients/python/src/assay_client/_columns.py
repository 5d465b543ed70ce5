"""Tables: which columns hold what is scored, and which are added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from ._errors import InputError
from .integrations._base import item

# The columns that are added, with the names of their Arrow types.
ADDED = {
    "reward": "float64",
    "violation": "float64",
    "threshold": "float64",
    "compliant": "bool",
    "witness_text": "string",
    "witness_start": "int64",
    "witness_end": "int64",
    "witness_message": "int64",
    "truncated": "bool",
    "empty": "bool",
    "model_version": "string",
}
ERROR = "error"  # where a response without a reward does not stop the rest


@dataclass(frozen=True)
class Columns:
    """Columns of a table.

    `response` holds strings or lists of chat messages, `messages` lists of
    chat messages; those of role assistant are scored. By default it is the
    first that there is of `response`, `completion` and `messages`. `prompt`
    (strings or chat messages) is `prompt` by default where there is one
    beside the response; "" is none. `id` gives the service the ids of the
    responses, for feedback. `prefix` begins the names of the columns that are
    added.
    """

    response: str | None = None
    messages: str | None = None
    prompt: str | None = None
    id: str | None = None
    prefix: str = ""

    def of(self, names: Sequence[str], error: bool) -> Columns:
        """These columns among those of a table, with the defaults put in."""
        if self.response and self.messages:
            raise InputError("a response column and a messages column are named; give one of them")
        found = self
        if not self.response and not self.messages:
            default = next((n for n in ("response", "completion", "messages") if n in names), None)
            if default is None:
                raise InputError(f"no column is named response; name it among {', '.join(names)}")
            found = replace(found, **{"messages" if default == "messages" else "response": default})
        if self.prompt is None and found.response and "prompt" in names:
            found = replace(found, prompt="prompt")
        for name in found.read():
            if list(names).count(name) != 1:
                raise InputError(f"there is not one column {name} among {', '.join(names)}")
        taken = [n for n in found.added(error) if n in names]
        if taken:
            raise InputError(f"there is a column {taken[0]} already; give a prefix for those that are added")
        return found

    def read(self) -> list[str]:
        """The columns that are sent."""
        return [n for n in (self.response, self.messages, self.prompt, self.id) if n]

    def added(self, error: bool) -> dict[str, str]:
        """The columns that are added, and their types."""
        given = {**ADDED, ERROR: "string"} if error else ADDED
        return {self.prefix + name: kind for name, kind in given.items()}

    def items(self, table: Mapping[str, Iterable[Any]]) -> Iterator[Any]:
        """The items of rows; what is no response is passed on for the client to refuse."""
        prompts = table[self.prompt] if self.prompt else repeat(None)
        ids = table[self.id] if self.id else repeat(None)
        for value, prompt, id in zip(table[str(self.response or self.messages)], prompts, ids):
            if self.messages and isinstance(value, str):
                raise InputError(f"column {self.messages} holds strings; name it as the one of the responses")
            try:
                found = item(value, prompt)
            except (KeyError, TypeError):
                yield None if isinstance(value, Mapping) else value
                continue
            yield found if id is None else replace(found, id=str(id))


def row(result: Mapping[str, Any], version: str, null: Any = None) -> dict[str, Any]:
    """The values of the columns that are added, of a result as the service sent it.

    A result that has an error has the reward null.
    """
    failed = result.get(ERROR)
    if failed is not None:
        return {**dict.fromkeys(ADDED), "reward": null, ERROR: failed["message"]}
    w = result["witness"] or {}
    return {
        "reward": float(result["reward"]),
        "violation": float(result["violation"]),
        "threshold": float(result["threshold"]),
        "compliant": result["compliant"],
        "witness_text": w.get("text"),
        "witness_start": w.get("start"),
        "witness_end": w.get("end"),
        "witness_message": w.get("message"),
        "truncated": result["truncated"],
        "empty": result["empty"],
        "model_version": version,
        ERROR: None,
    }
