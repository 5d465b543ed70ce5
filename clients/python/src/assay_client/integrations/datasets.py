"""Hugging Face datasets: a function for `Dataset.map`.

    from assay_client.integrations.datasets import AssayColumns

    scored = dataset.map(AssayColumns(), batched=True, batch_size=1000)

Adds the columns `reward`, `violation`, `threshold`, `compliant`,
`witness_text`, `witness_start`, `witness_end`, `witness_message`, `truncated`,
`empty` and `model_version`. One model version scores all rows: `model`, or the
one that serves when `AssayColumns` is created. The cache of datasets
distinguishes versions and options. With `num_proc`, each process opens its own
connections.

For a file, `python -m assay_client score data.parquet` needs less memory and
can resume.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import Client, Options
from .._columns import Columns, row
from .._offline import serving_version
from .._types import Failure, OnError

__all__ = ["AssayColumns", "Columns"]


class AssayColumns:
    """Maps a batch of columns (lists or arrays) to the added columns (lists).

    `columns` selects what is scored, as for Parquet files. With `on_error`
    "nan" or a number, that is the reward of a response that cannot be scored,
    and a column `error` holds the reason.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        columns: Columns | None = None,
        options: Options | None = None,
        model: str | None = None,
        on_error: OnError = "raise",
    ) -> None:
        self._client = client or Client()
        self._columns = columns or Columns()
        self._options = Options(instances=False).with_defaults(options or Options())
        self._on_error: OnError = on_error
        self.version = self._client.model(model).version if model else serving_version(self._client)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        columns = self.resolve(list(batch.keys()))
        results = self._client.score_iter(
            columns.items({name: batch[name] for name in columns.read()}),
            options=self._options,
            model=self.version,
            on_error=self._on_error,
        )
        rows = []
        for r in results:
            if isinstance(r, Failure):
                rows.append(row({"error": {"message": str(r.error)}}, self.version, r.reward))
            else:
                rows.append(row(r.raw, self.version))
        start = len(columns.prefix)
        return {name: [r[name[start:]] for r in rows] for name in columns.added(self.has_error_column)}

    @property
    def has_error_column(self) -> bool:
        """Whether a column `error` is added."""
        return self._on_error != "raise"

    def resolve(self, names: Sequence[str]) -> Columns:
        """The columns to read and to add, for a table with these columns."""
        return self._columns.resolve(names, self.has_error_column)
