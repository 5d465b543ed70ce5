"""AReaL: `reward_fn="assay_client.integrations.areal.reward_fn"` of a workflow.

Follows AReaL 1.0.4 (`areal/api/reward_api.py`, `areal/workflow/rlvr.py`),
which calls the function in a separate process with `prompt`, `completions`
(one string, including special tokens), the token ids of both, and the columns
of the dataset. `prompt` is rendered with the chat template, so that a model
that reads the prompt gets the column `messages`, from which AReaL rendered it.

AReaL waits 15 s up to four times and then continues with a reward of 0. This
function therefore gives up earlier, with an error that AReaL does not treat as
a timeout; after four such errors AReaL stops. To tolerate longer outages of
the service, raise `timeout_seconds` of AReaL's AsyncRewardWrapper and
`DEADLINE` here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._base import Completion, prompt_text, shared_client, strip_special_tokens

DEADLINE = 12.0  # seconds


def reward_fn(
    prompt: str,
    completions: str,
    prompt_ids: Sequence[int] = (),  # noqa: ARG001
    completion_ids: Sequence[int] = (),  # noqa: ARG001
    messages: Completion | None = None,
    **_: Any,
) -> float:
    """Returns the compliance reward of a completion."""
    context = prompt_text(prompt if messages is None else messages)
    response = strip_special_tokens(completions)
    return shared_client().rewards([response], prompts=[context], deadline=DEADLINE)[0]
