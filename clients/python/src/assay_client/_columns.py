"""The columns of a table: those that are scored and those that are added."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from ._errors import InputError
from .integrations._base import to_item

# The added columns, with the names of their Arrow types.
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
ERROR = "error"  # added where a response that cannot be scored does not stop the run


@dataclass(frozen=True)
class Columns:
    """Columns of a table.

    `response` holds strings or lists of chat messages; `messages` holds lists
    of chat messages, of which those with the role assistant are scored. The
    default is the first of `response`, `completion` and `messages` that
    exists. `prompt` (strings or chat messages) defaults to `prompt` where that
    exists next to a response column; "" disables it. `id` holds the ids of the
    responses, for later feedback. `prefix` is prepended to the names of the
    added columns.
    """

    response: str | None = None
    messages: str | None = None
    prompt: str | None = None
    id: str | None = None
    prefix: str = ""

    def resolve(self, names: Sequence[str], error: bool) -> Columns:
        """These columns with the defaults for a table of these names; error adds an error column."""
        if self.response and self.messages:
            raise InputError("both a response column and a messages column are set; set one of them")
        columns = self
        if not self.response and not self.messages:
            default = next((n for n in ("response", "completion", "messages") if n in names), None)
            if default is None:
                raise InputError(f"no response column; set one of {', '.join(names)}")
            columns = replace(columns, **{"messages" if default == "messages" else "response": default})
        if self.prompt is None and columns.response and "prompt" in names:
            columns = replace(columns, prompt="prompt")
        for name in columns.read():
            if list(names).count(name) != 1:
                raise InputError(f"column {name} is missing or not unique in {', '.join(names)}")
        taken = [n for n in columns.added(error) if n in names]
        if taken:
            raise InputError(f"column {taken[0]} already exists; set a prefix for the added columns")
        return columns

    def read(self) -> list[str]:
        """The columns that are sent to the service."""
        return [n for n in (self.response, self.messages, self.prompt, self.id) if n]

    def added(self, error: bool) -> dict[str, str]:
        """The columns that are added, with their types."""
        columns = {**ADDED, ERROR: "string"} if error else ADDED
        return {self.prefix + name: kind for name, kind in columns.items()}

    def items(self, table: Mapping[str, Iterable[Any]]) -> Iterator[Any]:
        """The items of the rows; an invalid response is yielded as it is, for the client to reject."""
        prompts = table[self.prompt] if self.prompt else repeat(None)
        ids = table[self.id] if self.id else repeat(None)
        for value, prompt, id in zip(table[str(self.response or self.messages)], prompts, ids):
            if self.messages and isinstance(value, str):
                raise InputError(f"column {self.messages} holds strings; use it as the response column")
            try:
                row_item = to_item(value, prompt)
            except (KeyError, TypeError):
                yield None if isinstance(value, Mapping) else value
                continue
            yield row_item if id is None else replace(row_item, id=str(id))


def row(result: Mapping[str, Any], version: str, null: Any = None) -> dict[str, Any]:
    """The values of the added columns, from a result as the service sent it.

    A result with an error has null as its reward.
    """
    error = result.get(ERROR)
    if error is not None:
        return {**dict.fromkeys(ADDED), "reward": null, ERROR: error["message"]}
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
