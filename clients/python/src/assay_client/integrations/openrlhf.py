"""OpenRLHF: a reward function file, for `--reward.remote_url reward.py`.

where reward.py is `from assay_client.integrations.openrlhf import reward_func`.

Follows OpenRLHF 0.11.2 (`openrlhf/utils/agent.py`): `reward_func(queries,
prompts, labels)` in a thread of its own. A query is prompt and response with
template and special tokens; the service's `/get_reward` finds the response in
it. Against `--reward.remote_url http://host:8080/get_reward` this waits for a
service that restarts, where OpenRLHF tries five times, a second apart, and
goes on with a reward of None.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from .. import AssayError, BadAnswerError
from .._wire import Call, encode, field
from ._base import shared_client

log = logging.getLogger("assay_client")


def reward_func(
    queries: Sequence[str],
    prompts: Sequence[str],
    labels: Sequence[Any] = (),  # noqa: ARG001
    **_: Any,
) -> dict[str, Any]:
    """`rewards` and `scores` in [0,1], and `extra_logs`, each a tensor [len(queries)]."""
    body = encode({"query": list(queries), "prompts": list(prompts)})
    try:
        answer = shared_client()._call(Call("POST", "/get_reward", body), lambda v: _checked(v, len(queries)))
    except AssayError as e:
        # OpenRLHF keeps the error to itself and fails later, on the None.
        log.error("no reward: %s", e)
        raise
    logs = {name: torch.tensor(values) for name, values in answer["extra_logs"].items()}
    return {
        "rewards": torch.tensor(answer["rewards"]),
        "scores": torch.tensor(answer["scores"]),
        "extra_logs": logs,
    }


def _checked(answer: Any, n: int) -> dict[str, Any]:
    for name in ("rewards", "scores"):
        values = field(answer, name, list)
        if len(values) != n or not all(type(v) in (int, float) for v in values):
            raise BadAnswerError(f"the service did not answer {n} {name}")
    field(answer, "extra_logs", dict)
    return dict(answer)
