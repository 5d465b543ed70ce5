"""ms-swift: `--external_plugins plugin.py --reward_funcs assay`.

plugin.py contains `import assay_client.integrations.ms_swift`.

Follows ms-swift 4.6 (`swift/rewards/orm.py`, `swift/rl_core/grpo_algorithm.py`):
a class that is constructed with `args` and called with `completions` (the
content of the last message of each sample) and the columns of the dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swift.rewards import ORM, orms

from .. import Options
from ._base import shared_client


class AssayORM(ORM):
    """The compliance reward of each completion."""

    def __call__(self, completions: Sequence[str], **_: Any) -> list[float]:
        return shared_client().rewards(list(completions), options=Options(instances=False))


orms["assay"] = AssayORM
