"""AReaL: `reward_fn="assay_client.integrations.areal.reward_fn"` of a workflow.

Follows AReaL 1.0.4 (`areal/api/reward_api.py`, `areal/workflow/rlvr.py`):
called in a process of its own with `prompt`, `completions` (one string, with
its special tokens), the ids of both, and the columns of the data set.

AReaL waits 15 s four times and then goes on with a reward of 0. So this gives
up before, by an error that AReaL does not take for a time-out: after four of
them it stops. Raise `timeout_seconds` of its AsyncRewardWrapper, and `DEADLINE`
here, for a service that may be away for longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._base import shared_client, without_end

DEADLINE = 12.0  # seconds


def reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: Sequence[int] = (),  # noqa: ARG001
    completion_ids: Sequence[int] = (),  # noqa: ARG001
    **_: Any,
) -> float:
    """The compliance reward of a completion."""
    return shared_client().rewards([without_end(completions)], prompts=[prompt], deadline=DEADLINE)[0]
