"""Scoring of Parquet files: every column is kept, and columns with rewards are added.

    from assay_client.parquet import Columns, score_parquet

    score_parquet("data.parquet", "rewards.parquet", columns=Columns(response="answer"))

Requires pyarrow: pip install './clients/python[parquet]'. The command
`python -m assay_client score data.parquet -o rewards.parquet` does the same.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, Union

import pyarrow as pa
import pyarrow.parquet as pq

from ._columns import Columns, row
from ._offline import Output, Progress, UsageError, run
from ._sync.client import Client
from ._types import Options

__all__ = ["Columns", "score_parquet"]

# Approximate maximum size of a batch of rows, and of a row group of the output.
BATCH_BYTES = 32 << 20
BATCH_ROWS = 1 << 16

PathLike = Union[str, "os.PathLike[str]"]


def score_parquet(
    source: PathLike,
    target: PathLike,
    *,
    client: Client | None = None,
    columns: Columns | None = None,
    options: Options | None = None,
    model: str | None = None,
    null: bool = False,
    restart: bool = False,
    progress: TextIO | None = None,
) -> int:
    """Scores the responses of a Parquet file; returns the number that could not be scored.

    `target` has the rows and columns of `source`, in their order, and the
    columns `reward`, `violation`, `threshold`, `compliant`, `witness_text`,
    `witness_start`, `witness_end`, `witness_message` (the index of the
    message, where messages are scored), `truncated`, `empty` and
    `model_version`. It appears when it is complete. Until then, `.part` and
    `.part.json` next to it hold the results, from which the same call resumes
    an interrupted run, unless `restart` is set. One model version scores all
    rows: `model`, or the one that serves at the start.

    A response that cannot be scored raises; with `null`, its reward is null
    and a column `error` holds the reason. Progress is written to `progress`.
    Memory use does not depend on the size of the file. Raises an `AssayError`
    for errors of the service, ValueError for an invalid file or usage.
    """
    if client is None:
        with Client() as default:
            return _score(default, source, target, columns, options, model, null, restart, progress)
    return _score(client, source, target, columns, options, model, null, restart, progress)


def _score(
    client: Client,
    source: PathLike,
    target: PathLike,
    columns: Columns | None,
    options: Options | None,
    model: str | None,
    null: bool,
    restart: bool,
    progress: TextIO | None,
) -> int:
    if os.path.exists(target) and os.path.samefile(source, target):
        raise UsageError("the output is the same file as the input")
    options = Options(instances=False).with_defaults(options or Options())
    with _Table(source) as table:
        cols = (columns or Columns()).resolve(table.names, null)
        out = Output(os.fspath(target), restart)
        settings: dict[str, Any] = {
            "options": options.to_json(),
            "model": model,
            "null": null,
            "columns": vars(cols),
            "input": table.identity(),
        }
        with open(os.devnull, "w") as devnull:
            reporter = Progress("responses", table.rows, progress or devnull)
            run(
                client,
                lambda done: table.items(cols, done),
                out,
                reporter,
                options,
                model,
                null,
                lambda version: {**settings, "version": version},
            )
        builder = _Builder(table, cols, null, str(out.version))
        out.finish(builder)
        return builder.failed


class _Table:
    """A Parquet file, read in batches."""

    def __init__(self, path: PathLike) -> None:
        self._path = path
        # The buffer bounds how much is read ahead of decoding.
        self._file = pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False)
        self.names = list(self._file.schema_arrow.names)
        self.schema: pa.Schema = self._file.schema_arrow
        self.rows = int(self._file.metadata.num_rows)

    def __enter__(self) -> _Table:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def identity(self) -> dict[str, Any]:
        """Identifies the contents of the file: its size and the hash of its footer."""
        with open(self._path, "rb") as stream:
            size = stream.seek(-8, os.SEEK_END) + 8
            footer = int.from_bytes(stream.read(4), "little")
            stream.seek(size - 8 - footer)
            digest = hashlib.sha256(stream.read(footer)).hexdigest()
        return {"bytes": size, "rows": self.rows, "footer": digest}

    def codec(self) -> str:
        """The compression codec of the first column."""
        meta = self._file.metadata
        if meta.num_row_groups == 0 or meta.num_columns == 0:
            return "snappy"
        codec = str(meta.row_group(0).column(0).compression).lower()
        return "none" if codec == "uncompressed" else codec

    def batches(self, columns: list[str] | None, first: int = 0) -> Iterator[pa.RecordBatch]:
        """Yields batches of rows, each within a row group, starting at row group first."""
        meta = self._file.metadata
        for k in range(first, meta.num_row_groups):
            group = meta.row_group(k)
            if group.num_rows == 0:
                continue
            size = max(1, min(BATCH_ROWS, BATCH_BYTES * group.num_rows // max(group.total_byte_size, 1)))
            yield from self._file.iter_batches(size, row_groups=[k], columns=columns)

    def items(self, columns: Columns, done: int) -> Iterator[Any]:
        """Yields the items of the rows after the first done."""
        meta = self._file.metadata
        if done > self.rows:
            raise UsageError(f"the output has more rows than {os.fspath(self._path)}; use --restart")
        first = 0
        while first < meta.num_row_groups and meta.row_group(first).num_rows <= done:
            done -= meta.row_group(first).num_rows
            first += 1
        for batch in self.batches(columns.read(), first):
            skip = min(done, batch.num_rows)
            done -= skip
            remaining = batch.slice(skip)
            yield from columns.items({name: remaining.column(name).to_pylist() for name in columns.read()})


@dataclass
class _Builder:
    """Writes the rows of a table together with their results."""

    table: _Table
    columns: Columns
    null: bool
    version: str
    failed: int = 0

    def __call__(self, part: Path, target: Path) -> None:
        added = self.columns.added(self.null)
        schema = self.table.schema
        for name, kind in added.items():
            schema = schema.append(pa.field(name, pa.type_for_alias(kind)))
        with (
            part.open("rb") as lines,
            pq.ParquetWriter(target, schema, compression=self.table.codec()) as writer,
        ):
            for batch in self.table.batches(None):
                rows = [row(json.loads(line), self.version) for line in islice(lines, batch.num_rows)]
                self.failed += sum(r["error"] is not None for r in rows)
                arrays = list(batch.columns)
                for name, kind in added.items():
                    key = name[len(self.columns.prefix) :]
                    arrays.append(pa.array([r[key] for r in rows], pa.type_for_alias(kind)))
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
