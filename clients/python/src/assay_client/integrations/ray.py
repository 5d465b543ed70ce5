"""Ray Data: a class for `map_batches`.

    from assay_client import Client
    from assay_client.integrations.ray import AssayBatches, serving_version

    client = Client("http://rm:8080")
    scored = dataset.map_batches(
        AssayBatches,
        fn_constructor_kwargs={"client": client, "model": serving_version(client)},
        batch_format="pyarrow", batch_size=1024, concurrency=2,
    )

It adds the columns that `assay_client.integrations.datasets` adds. With a
`model` all actors score with the same version from beginning to end; without
one each takes the version that serves when it starts. Follows Ray 2.60: what
an actor was doing when it died is done again, and scoring twice is the same as
once. A failure raises, which ends the data set's execution.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from .. import Client, InputError
from .._lines import serving
from .datasets import AssayColumns, Columns

__all__ = ["AssayBatches", "Columns", "serving_version"]


class AssayBatches(AssayColumns):
    """Takes and returns Arrow tables; made with the arguments of `AssayColumns`."""

    def __call__(self, batch: Any) -> Any:
        if not isinstance(batch, pa.Table):
            raise InputError(
                f'the batch is a {type(batch).__name__}; give map_batches batch_format="pyarrow"'
            )
        names = self.columns_of(batch.column_names)
        found = super().__call__({name: batch.column(name).to_pylist() for name in names.read()})
        for name, kind in names.added(self.lenient).items():
            batch = batch.append_column(name, pa.array(found[name], pa.type_for_alias(kind)))
        return batch


def serving_version(client: Client | None = None) -> str:
    """The model version that the service scores with now."""
    return serving(client or Client())
