"""Rewards for the tokens that a policy wrote, among others that it did not."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from .. import BadAnswerError, Item, Result, dense


def turns(tokenizer: Any, ids: Sequence[int], columns: Sequence[int], prompt: str | None = None) -> Item:
    """The tokens of ids in columns as an item: turns, with a blank line where others stood between them."""
    text = ""
    offsets: list[tuple[int, int]] = []
    for _, run in groupby(enumerate(columns), lambda pair: pair[1] - pair[0]):
        turn = [ids[c] for _, c in run]
        said = dense.decode(tokenizer, turn)
        if text:
            text += "\n\n"
        offsets += [(len(text) + a, len(text) + b) for a, b in dense.token_offsets(tokenizer, turn, said)]
        text += said
    return Item(response=text, prompt=prompt, token_offsets=offsets)


def shares(result: Result, columns: Sequence[int]) -> list[float]:
    """What falls on each column, up to the last of columns; nothing on others."""
    found = result.token_rewards
    if found is None or len(found) != len(columns):
        got = "no" if found is None else len(found)
        raise BadAnswerError(f"the service answered {got} token rewards to {len(columns)} tokens")
    tokens = [0.0] * (columns[-1] + 1 if columns else 0)
    for column, share in zip(columns, found):
        tokens[column] = share
    return tokens
