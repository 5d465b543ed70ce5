"""Token-level rewards for responses in which only some tokens are the policy's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from .. import InvalidResponseError, Item, Result, dense


def to_token_item(
    tokenizer: Any, ids: Sequence[int], columns: Sequence[int], prompt: str | None = None
) -> Item:
    """The item for the token ids in these columns.

    Each run of consecutive columns is a turn; a blank line separates turns.
    """
    text = ""
    offsets: list[tuple[int, int]] = []
    for _, run in groupby(enumerate(columns), lambda pair: pair[1] - pair[0]):
        turn = [ids[c] for _, c in run]
        decoded = dense.decode(tokenizer, turn)
        if text:
            text += "\n\n"
        offsets += [(len(text) + a, len(text) + b) for a, b in dense.token_offsets(tokenizer, turn, decoded)]
        text += decoded
    return Item(response=text, prompt=prompt, token_offsets=offsets)


def column_rewards(result: Result, columns: Sequence[int]) -> list[float]:
    """The token rewards by column, up to the last of columns; 0 in all others."""
    rewards = result.token_rewards
    if rewards is None or len(rewards) != len(columns):
        got = "no" if rewards is None else len(rewards)
        raise InvalidResponseError(f"the service returned {got} token rewards for {len(columns)} tokens")
    by_column = [0.0] * (columns[-1] + 1 if columns else 0)
    for column, reward in zip(columns, rewards):
        by_column[column] = reward
    return by_column
