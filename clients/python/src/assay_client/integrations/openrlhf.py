"""OpenRLHF: a reward function file for `--reward.remote_url reward.py`.

reward.py contains `from assay_client.integrations.openrlhf import reward_func`.

Follows OpenRLHF 0.11.2 (`openrlhf/utils/agent.py`), which calls
`reward_func(queries, prompts, labels)` in a separate thread. A query is the
prompt and the response with chat template and special tokens; `/get_reward` of
the service extracts the response. Of a model with several aspects (rules),
`extra_logs` has `reward_NAME` and `violation_NAME` for each. Unlike `--reward.remote_url
http://host:8080/get_reward`, this function retries while the service restarts;
OpenRLHF itself tries five times, one second apart, and then continues with a
reward of None.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from .. import AssayError, InvalidResponseError
from .._wire import Request, encode, field
from ._base import shared_client

log = logging.getLogger("assay_client")


def reward_func(
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[Any] = (),  # noqa: ARG001
    **_: Any,
) -> dict[str, Any]:
    """Returns `rewards` and `scores` in [0,1], and `extra_logs`; each is a tensor [len(queries)]."""
    body = encode({"query": list(queries), "prompts": list(prompts)})
    try:
        response = shared_client()._call(
            Request("POST", "/get_reward", body), lambda value: _validated(value, len(queries))
        )
    except AssayError as e:
        # OpenRLHF swallows the exception and fails later, on the missing reward.
        log.error("scoring failed: %s", e)
        raise
    logs = {name: torch.tensor(values) for name, values in response["extra_logs"].items()}
    return {
        "rewards": torch.tensor(response["rewards"]),
        "scores": torch.tensor(response["scores"]),
        "extra_logs": logs,
    }


def _validated(response: Any, n: int) -> dict[str, Any]:
    for name in ("rewards", "scores"):
        values = field(response, name, list)
        if len(values) != n or not all(type(v) in (int, float) for v in values):
            raise InvalidResponseError(f"invalid response: {name} is not a list of {n} numbers")
    field(response, "extra_logs", dict)
    return dict(response)
