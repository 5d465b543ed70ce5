"""The command `score`: results a line each, and on from where it was."""

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

from ._errors import AssayError, InputError, InvalidRequestError
from ._sync import Client
from ._types import Failure, Options
from ._wire import encode


class UsageError(ValueError):
    """Wrong usage or bad input: exit code 2."""


def items(stream: BinaryIO, text: bool) -> Iterator[dict[str, Any]]:
    """The items of a JSONL file; blank lines are left out."""
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            if text:
                yield {"response": line.decode().rstrip("\r\n")}
                continue
            value = json.loads(line)
        except ValueError as e:
            raise UsageError(f"line {number}: {e}") from e
        if not isinstance(value, dict):
            raise UsageError(f'line {number} is no object; give {{"response": "..."}}')
        yield value


class Progress:
    """Tells how far it is: a line that is overwritten on a terminal, else one every ten seconds."""

    def __init__(self, what: str, total: int | None, out: TextIO) -> None:
        self._what = what
        self._total = total
        self._out = out
        self._live = out.isatty()
        self._began = self._told = time.monotonic()
        self._start = self.done = 0

    def begin(self, done: int) -> None:
        self._start = self.done = done

    def add(self, n: int) -> None:
        self.done += n
        now = time.monotonic()
        if now - self._told >= (0.2 if self._live else 10.0):
            self._told = now
            self._tell()

    def finish(self) -> None:
        self._tell()
        if self._live:
            print(file=self._out)

    def _tell(self) -> None:
        rate = (self.done - self._start) / max(time.monotonic() - self._began, 1e-9)
        line = f"{self.done} {self._what}"
        if self._total is not None:
            line = f"{self.done}/{self._total} {self._what} ({100 * self.done / max(self._total, 1):.0f} %)"
        line += f", {rate:.0f}/s"
        if self._total is not None and rate > 0 and self.done < self._total:
            line += f", {(self._total - self.done) / rate:.0f} s left"
        print(
            f"\r\033[K{line}" if self._live else line,
            end="" if self._live else "\n",
            file=self._out,
            flush=True,
        )


@dataclass(frozen=True)
class Settings:
    """What all lines of one output have in common."""

    options: Options
    model: str | None
    text: bool
    null: bool  # a failure becomes a line, too

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
    """Standard output, or FILE.part that becomes FILE when it is complete.

    FILE.part.json holds the settings that FILE.part was begun with.
    """

    def __init__(self, path: str | None, restart: bool) -> None:
        self.done = 0
        self.version: str | None = None
        self._path = None if path is None else Path(path)
        self._sink: BinaryIO = sys.stdout.buffer
        if self._path is None:
            return
        self._part = self._path.with_name(self._path.name + ".part")
        self._notes = self._path.with_name(self._path.name + ".part.json")
        if restart:
            self._notes.unlink(missing_ok=True)
        self._begun: dict[str, Any] | None = None
        if self._notes.exists() and self._part.exists():
            self._begun = json.loads(self._notes.read_bytes())
            self.version = self._begun["version"]

    def open(self, settings: dict[str, Any]) -> None:
        self.version = settings["version"]
        if self._path is None:
            return
        if self._begun is None:
            self._part.write_bytes(b"")
            _replace(self._notes, encode(settings))
        elif self._begun != settings:
            changed = ", ".join(k for k in settings if settings[k] != self._begun.get(k))
            raise UsageError(
                f"{self._part} was begun otherwise ({changed}); give the same flags and input, or --restart"
            )
        self._sink = self._part.open("r+b")
        whole = 0
        for line in self._sink:
            if line.endswith(b"\n"):
                self.done += 1
                whole += len(line)
        self._sink.seek(whole)
        self._sink.truncate()  # of a line that was being written

    def write(self, line: bytes) -> None:
        self._sink.write(line + b"\n")

    def finish(self, build: Callable[[Path, Path], None] | None = None) -> None:
        """Gives FILE its name; build(part, fresh) makes it of the lines where it is not the lines."""
        self._sink.flush()
        if self._path is None:
            return
        os.fsync(self._sink.fileno())
        self._sink.close()
        if build is None:
            os.replace(self._part, self._path)
        else:
            fresh = self._path.with_name(self._path.name + ".new")
            build(self._part, fresh)
            with fresh.open("r+b") as written:
                os.fsync(written.fileno())
            os.replace(fresh, self._path)
        self._notes.unlink()
        self._part.unlink(missing_ok=True)

    def keep(self) -> None:
        """Leaves what is written so far to the next run."""
        with suppress(OSError, ValueError):
            self._sink.flush()


def _replace(path: Path, data: bytes) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    os.replace(fresh, path)


def score(client: Client, source: str | None, target: str | None, settings: Settings, restart: bool) -> int:
    """Scores a JSONL file; returns how many of its responses could not be scored."""
    total, size = _measure(source)
    out = Output(target, restart)
    with _open(source) as stream:

        def rest(done: int) -> Iterator[Any]:
            found = items(stream, settings.text)
            for _ in range(done):
                if next(found, None) is None:
                    raise UsageError("the output has more lines than the input; give --restart")
            return found

        failed = run(
            client,
            rest,
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
    rest: Callable[[int], Iterator[Any]],
    out: Output,
    progress: Progress,
    options: Options,
    model: str | None,
    null: bool,
    notes: Callable[[str], dict[str, Any]],
) -> int:
    """Writes the results that out does not have, each a line, with one model version.

    rest(done) gives the items after the first done of all; notes(version) is
    what must not change until out is complete. Returns how many of the items
    could not be scored.
    """
    version = out.version
    if version is None:
        version = client.model(model).version if model else serving(client)
    out.open(notes(version))
    progress.begin(out.done)
    failed = 0
    ids: list[Any] = []

    def noted() -> Iterator[Any]:
        for item in rest(out.done):
            ids.append(item.get("id") if isinstance(item, dict) else getattr(item, "id", None))
            yield item

    try:
        on_error: Any = "nan" if null else "raise"
        for r in client.score_iter(noted(), options=options, model=version, on_error=on_error):
            id = ids.pop(0)
            if isinstance(r, Failure):
                failed += 1
                line = encode({"id": id, "reward": None, "error": _explain(r.error)})
            else:
                line = encode(r.raw)
            out.write(line)
            progress.add(1)
    except (InputError, InvalidRequestError) as e:
        out.keep()
        if e.index is None:
            raise
        raise UsageError(f"response {out.done + e.index} (the first is 0): {e}") from e
    except BaseException:
        out.keep()
        raise
    progress.finish()
    return failed


def _explain(error: AssayError) -> dict[str, str]:
    return {"code": getattr(error, "code", "") or type(error).__name__, "message": str(error)}


def serving(client: Client) -> str:
    """The version that the service scores with now."""
    for model in client.models():
        if model.serving:
            return model.version
    raise AssayError("the service has no model loaded")


def _open(source: str | None) -> BinaryIO:
    return sys.stdin.buffer if source in (None, "-") else open(str(source), "rb")


def _measure(source: str | None) -> tuple[int | None, int | None]:
    """Items and bytes of a file; None where it can be read only once."""
    if source in (None, "-") or not Path(str(source)).is_file():
        return None, None
    with open(str(source), "rb") as stream:
        return sum(1 for line in stream if line.strip()), os.fstat(stream.fileno()).st_size
