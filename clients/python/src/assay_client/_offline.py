"""Resumable scoring of files: JSONL input, progress, and output that survives a crash."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ._errors import AssayError, BadRequestError, InputError
from ._sync.client import Client
from ._types import Failure, Options
from ._wire import encode


class UsageError(ValueError):
    """Wrong usage or bad input: exit code 2."""


def read_jsonl(stream: BinaryIO, text: bool) -> Iterator[dict[str, Any]]:
    """Yields the items of a JSONL file, skipping blank lines; with text, each line is a response.

    An empty response has a reward, without which the rewards of a text file would shift.
    """
    for number, line in enumerate(stream, 1):
        if not text and not line.strip():
            continue
        try:
            if text:
                yield {"response": line.decode().rstrip("\r\n")}
                continue
            value = json.loads(line)
        except ValueError as e:
            raise UsageError(f"line {number}: {e}") from e
        if not isinstance(value, dict):
            raise UsageError(f'line {number}: not a JSON object; use {{"response": "..."}}')
        yield value


class Progress:
    """Reports progress: a line that is overwritten on a terminal, else a line every ten seconds."""

    def __init__(self, unit: str, total: int | None, out: TextIO) -> None:
        self._unit = unit
        self._total = total
        self._out = out
        self._is_terminal = out.isatty()
        self._started = self._reported = time.monotonic()
        self._resumed_at = self.done = 0

    def resume(self, done: int) -> None:
        self._resumed_at = self.done = done

    def add(self, n: int) -> None:
        self.done += n
        now = time.monotonic()
        if now - self._reported >= (0.2 if self._is_terminal else 10.0):
            self._reported = now
            self._report()

    def finish(self) -> None:
        self._report()
        if self._is_terminal:
            print(file=self._out)

    def _report(self) -> None:
        rate = (self.done - self._resumed_at) / max(time.monotonic() - self._started, 1e-9)
        line = f"{self.done} {self._unit}"
        if self._total is not None:
            line = f"{self.done}/{self._total} {self._unit} ({100 * self.done / max(self._total, 1):.0f} %)"
        line += f", {rate:.0f}/s"
        if self._total is not None and rate > 0 and self.done < self._total:
            line += f", {(self._total - self.done) / rate:.0f} s left"
        print(
            f"\r\033[K{line}" if self._is_terminal else line,
            end="" if self._is_terminal else "\n",
            file=self._out,
            flush=True,
        )


@dataclass(frozen=True)
class Settings:
    """The settings of a JSONL run, which must not change when it is resumed."""

    options: Options
    model: str | None
    text: bool
    null: bool  # write a null reward for a response that cannot be scored

    def to_json(self, version: str, size: int | None) -> dict[str, Any]:
        return {
            "options": self.options.to_json(),
            "model": self.model,
            "text": self.text,
            "null": self.null,
            "version": version,
            "input_bytes": size,
        }


class Output:
    """Standard output, or FILE, which is written as FILE.part and renamed when it is complete.

    FILE.part.json holds the settings of the run that started FILE.part.
    """

    def __init__(self, path: str | None, restart: bool) -> None:
        self.done = self.failed = 0  # lines of an earlier run, and those without a reward
        self.version: str | None = None
        self._path = None if path is None else Path(path)
        self._sink: BinaryIO = sys.stdout.buffer
        if self._path is None:
            return
        self._part = self._path.with_name(self._path.name + ".part")
        self._settings_file = self._path.with_name(self._path.name + ".part.json")
        if restart:
            self._settings_file.unlink(missing_ok=True)
        self._previous: dict[str, Any] | None = None
        if self._settings_file.exists() and self._part.exists():
            self._previous = json.loads(self._settings_file.read_bytes())
            self.version = self._previous["version"]

    def open(self, settings: dict[str, Any]) -> None:
        """Starts the output, or resumes it after its last complete line."""
        self.version = settings["version"]
        if self._path is None:
            return
        if self._previous is None:
            self._part.write_bytes(b"")
            _replace(self._settings_file, encode(settings))
        elif self._previous != settings:
            changed = ", ".join(k for k in settings if settings[k] != self._previous.get(k))
            raise UsageError(
                f"{self._part} was started with different settings ({changed});"
                " use the same flags and input, or --restart"
            )
        self._sink = self._part.open("r+b")
        complete = 0
        for line in self._sink:
            if line.endswith(b"\n"):
                self.done += 1
                self.failed += _is_failure(line)
                complete += len(line)
        self._sink.seek(complete)
        self._sink.truncate()  # drop a partial last line

    def write(self, line: bytes) -> None:
        self._sink.write(line + b"\n")

    def finish(self, build: Callable[[Path, Path], None] | None = None) -> None:
        """Renames FILE.part to FILE. With build, FILE is what build(part, temporary) writes to temporary."""
        self._sink.flush()
        if self._path is None:
            return
        os.fsync(self._sink.fileno())
        self._sink.close()
        if build is None:
            os.replace(self._part, self._path)
        else:
            temporary = self._path.with_name(self._path.name + ".new")
            build(self._part, temporary)
            with temporary.open("r+b") as written:
                os.fsync(written.fileno())
            os.replace(temporary, self._path)
        self._settings_file.unlink()
        self._part.unlink(missing_ok=True)

    def flush(self) -> None:
        """Flushes the output, so that a later run can resume it."""
        with suppress(OSError, ValueError):
            self._sink.flush()


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(data)
    os.replace(temporary, path)


def score_jsonl(
    client: Client, source: str | None, target: str | None, settings: Settings, restart: bool
) -> int:
    """Scores a JSONL file; returns the number of responses that could not be scored."""
    total, size = _measure(source, settings.text)
    out = Output(target, restart)
    with _open(source) as stream:

        def remaining(done: int) -> Iterator[Any]:
            items = read_jsonl(stream, settings.text)
            for _ in range(done):
                if next(items, None) is None:
                    raise UsageError("the output has more lines than the input; use --restart")
            return items

        failed = run(
            client,
            remaining,
            out,
            Progress("responses", total, sys.stderr),
            settings.options,
            settings.model,
            settings.null,
            lambda version: settings.to_json(version, size),
        )
    out.finish()
    return failed


def run(
    client: Client,
    remaining: Callable[[int], Iterator[Any]],
    out: Output,
    progress: Progress,
    options: Options,
    model: str | None,
    null: bool,
    settings: Callable[[str], dict[str, Any]],
) -> int:
    """Writes the results that out lacks, one per line, all from one model version.

    remaining(done) yields the items after the first done; settings(version)
    are those that must not change until out is complete. Returns the number of
    items that could not be scored.
    """
    version = out.version
    if version is None:
        version = client.model(model).version if model else serving_version(client)
    out.open(settings(version))
    progress.resume(out.done)
    failed = out.failed
    ids: list[Any] = []

    def recording_ids() -> Iterator[Any]:
        for item in remaining(out.done):
            ids.append(item.get("id") if isinstance(item, dict) else getattr(item, "id", None))
            yield item

    try:
        on_error: Any = "nan" if null else "raise"
        for r in client.score_iter(recording_ids(), options=options, model=version, on_error=on_error):
            id = ids.pop(0)
            if isinstance(r, Failure):
                failed += 1
                line = encode({"id": id, "reward": None, "error": _error_json(r.error)})
            else:
                line = encode(r.raw)
            out.write(line)
            progress.add(1)
    except (InputError, BadRequestError) as e:
        out.flush()
        if e.index is None:
            raise
        raise UsageError(f"response {out.done + e.index} (counted from 0): {e}") from e
    except BaseException:
        out.flush()
        raise
    progress.finish()
    return failed


def _is_failure(line: bytes) -> bool:
    """Whether an output line has no reward. Few lines are parsed: most do not have the key with a null."""
    return b'"reward":null' in line and json.loads(line)["reward"] is None


def _error_json(error: AssayError) -> dict[str, str]:
    return {"code": getattr(error, "code", "") or type(error).__name__, "message": str(error)}


def serving_version(client: Client) -> str:
    """The version of the model that serves requests that pin none."""
    for model in client.models():
        if model.serving:
            return model.version
    raise AssayError("no model is loaded on the service")


def _open(source: str | None) -> BinaryIO:
    return sys.stdin.buffer if source in (None, "-") else open(str(source), "rb")


def _measure(source: str | None, text: bool) -> tuple[int | None, int | None]:
    """The number of items and of bytes of a file; None for a stream."""
    if source in (None, "-") or not Path(str(source)).is_file():
        return None, None
    with open(str(source), "rb") as stream:
        return sum(1 for line in stream if text or line.strip()), os.fstat(stream.fileno()).st_size
