"""Hugging Face datasets: a function for `Dataset.map`.

    from assay_client.integrations.datasets import AssayColumns

    scored = dataset.map(AssayColumns(), batched=True, batch_size=1000)

It adds the columns `reward`, `violation`, `threshold`, `compliant`,
`witness_text`, `witness_start`, `witness_end`, `witness_message`, `truncated`,
`empty` and `model_version`. All rows are scored by one model version: `model`,
or the one that serves when `AssayColumns` is made. datasets keeps results for
the same function and data, so another version or other options score anew.
With `num_proc` each process has its own connections.

For a file, `python -m assay_client score data.parquet` needs less memory and
goes on where it broke off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import Client, Options
from .._columns import Columns, row
from .._lines import serving
from .._types import Failure, OnError

__all__ = ["AssayColumns", "Columns"]


class AssayColumns:
    """Takes a batch as columns (lists or arrays), returns the columns with the rewards as lists.

    `columns` names what is scored, as for Parquet files. With `on_error` "nan"
    or a number, that is the reward of a response that cannot be scored, and a
    column `error` says why.
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
        self._options = Options(instances=False).over(options or Options())
        self._on_error: OnError = on_error
        self.version = self._client.model(model).version if model else serving(self._client)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        columns = self.columns_of(list(batch.keys()))
        found = self._client.score_iter(
            columns.items({name: batch[name] for name in columns.read()}),
            options=self._options,
            model=self.version,
            on_error=self._on_error,
        )
        rows = []
        for r in found:
            if isinstance(r, Failure):
                rows.append(row({"error": {"message": str(r.error)}}, self.version, r.reward))
            else:
                rows.append(row(r.raw, self.version))
        start = len(columns.prefix)
        return {name: [r[name[start:]] for r in rows] for name in columns.added(self.lenient)}

    @property
    def lenient(self) -> bool:
        """Whether there is a column `error`."""
        return self._on_error != "raise"

    def columns_of(self, names: Sequence[str]) -> Columns:
        """The columns among those of a table."""
        return self._columns.of(names, self.lenient)
