"""Ray Data: a class for `map_batches`.

    from assay_client import Client
    from assay_client.integrations.ray import AssayBatches, serving_version

    client = Client("http://rm:8080")
    scored = dataset.map_batches(
        AssayBatches,
        fn_constructor_kwargs={"client": client, "model": serving_version(client)},
        batch_format="pyarrow", batch_size=1024, concurrency=2,
    )

Adds the columns that `assay_client.integrations.datasets` adds. With `model`,
all actors score with the same version; without it, each actor uses the version
that serves when it starts. Follows Ray 2.60, which repeats the work of an
actor that died; scoring is idempotent. A failure raises, which ends the
execution of the dataset.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .. import Client, InputError
from .._offline import serving_version as _serving_version
from .datasets import AssayColumns, Columns

__all__ = ["AssayBatches", "Columns", "serving_version"]


class AssayBatches(AssayColumns):
    """Like `AssayColumns`, but maps Arrow tables to Arrow tables."""

    def __call__(self, batch: Any) -> Any:
        if not isinstance(batch, pa.Table):
            raise InputError(
                f'the batch is a {type(batch).__name__}; call map_batches with batch_format="pyarrow"'
            )
        columns = self.resolve(batch.column_names)
        added = super().__call__({name: batch.column(name).to_pylist() for name in columns.read()})
        for name, kind in columns.added(self.has_error_column).items():
            batch = batch.append_column(name, pa.array(added[name], pa.type_for_alias(kind)))
        return batch


def serving_version(client: Client | None = None) -> str:
    """The version of the model that serves requests that pin none."""
    return _serving_version(client or Client())
