"""ms-swift: `--external_plugins plugin.py --reward_funcs assay`.

plugin.py contains `import assay_client.integrations.ms_swift`.

For one reward function per aspect (rule) of a model, all of which share one
request per batch, plugin.py contains

    from assay_client.integrations.ms_swift import register_aspects

    register_aspects(["rudeness", "evasion"])

and the command is `--reward_funcs assay_rudeness assay_evasion`, with
`--scale_rewards gdpo` for GDPO.

Follows ms-swift 4.6 (`swift/rewards/orm.py`, `swift/rl_core/grpo_algorithm.py`):
a class that is constructed with `args` and called with `completions` (the
content of the last message of each sample) and the columns of the dataset, of
which `messages` has the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from swift.rewards import ORM, orms

from .. import Failure, Item, Options, Result
from ._base import Completion, SharedBatch, component, shared_client, to_item


class AssayORM(ORM):
    """The compliance reward of each completion."""

    def __call__(
        self, completions: Sequence[str], messages: Sequence[Completion] | None = None, **_: Any
    ) -> list[float]:
        return shared_client().rewards(_items(completions, messages), options=Options(instances=False))


class AspectORM(ORM):
    """The reward of one aspect of each completion."""

    def __init__(self, aspect: str, batch: SharedBatch) -> None:
        super().__init__()
        self._aspect = aspect
        self._batch = batch

    def __call__(
        self, completions: Sequence[str], messages: Sequence[Completion] | None = None, **_: Any
    ) -> list[float]:
        outcomes = self._batch.outcomes(self._aspect, _items(completions, messages))
        return [component(o, self._aspect) for o in outcomes]


def register_aspects(aspects: Sequence[str]) -> None:
    """Registers a reward function `assay_NAME` for each aspect."""
    batch = SharedBatch(_score)
    for aspect in aspects:
        # ms-swift logs a reward function by the name of its class, and constructs it with args.
        kind = type(f"Assay{aspect.title()}", (AspectORM,), {})
        orms[f"assay_{aspect}"] = partial(_construct, kind, aspect, batch)


def _construct(kind: type[AspectORM], aspect: str, batch: SharedBatch, args: Any = None) -> AspectORM:  # noqa: ARG001
    return kind(aspect, batch)


def _score(items: Sequence[Item]) -> Sequence[Result | Failure]:
    return shared_client().score(items, options=Options(instances=False, aspects=True))


def _items(completions: Sequence[str], messages: Sequence[Completion] | None) -> list[Item]:
    """The items; the messages of a sample end with its completion."""
    prompts = [None] * len(completions) if messages is None else [m[:-1] for m in messages]
    return [to_item(c, p) for c, p in zip(completions, prompts)]


orms["assay"] = AssayORM
