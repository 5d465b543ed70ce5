#!/usr/bin/env python3
"""Checks the documentation: links, syntax, and that the commands work as written.

    docs/check.py                  links, anchors, and the syntax of all code; takes a second
    docs/check.py --run [FILE...]  also runs the blocks of the documents (default: all)
    docs/check.py --run --slow     with the blocks that take minutes

Every block of `sh` or `python` is run, in the order of its document, in one bash session in the root of
a copy of the checkout with its own home directory. Every command must succeed, and every HTTP response
must be below 400. The session starts `make run` and `assay serve` in the background and waits until the
service is ready, as a reader does in another shell. A comment before a block changes that:

    <!-- not run: REASON -->       the block is checked for syntax only, and listed
    <!-- slow -->                  the block is run with --slow only
    <!-- run first: COMMANDS -->   what the reader has and a checkout has not, such as a file of labels;
                                   stop_service stops the service
"""

import argparse
import ast
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

FENCE = re.compile(r"^( *)(```+)(\S*)[^\n]*\n(.*?)^\1\2 *$", re.M | re.S)
COMMENT = re.compile(r"<!--(.*?)-->", re.S)
SERVICE = re.compile(r"^(?=(?:make run|(?:bin/)?assay serve)\b)", re.M)
INDENTED = re.compile(r"^(?![-*\d|]).*\n\n {4}\S", re.M)

LIMIT = 3600  # seconds that a document may take: a command in it may serve until it is stopped

SESSION = r"""
set -eEo pipefail
trap 'echo "exit code $? of: $BASH_COMMAND"' ERR
curl() { command curl --fail-with-body --silent --show-error "$@"; }
service=
stop_service() { [ -z "$service" ] || { kill -- -$service; wait $service; service=; } 2>/dev/null || true; }
start_service() {
	stop_service
	setsid "$@" & service=$!
	until curl http://127.0.0.1:8080/readyz >/dev/null 2>&1 || curl --insecure https://127.0.0.1:8080/readyz >/dev/null 2>&1; do
		kill -0 $service || { echo "the service did not start"; return 1; }
		sleep 0.2
	done
}
trap stop_service EXIT
trap 'exit 1' TERM
"""


@dataclass
class Block:
    line: int
    language: str
    text: str
    not_run: str = ""
    slow: bool = False
    first: str = ""


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document, with the comments that are directly before them."""
    found, end = [], 0
    for fence in FENCE.finditer(text):
        block = Block(text.count("\n", 0, fence.start()) + 1, fence[3], textwrap.dedent(fence[4]))
        before = text[end : fence.start()]
        for comment in COMMENT.finditer(before):
            if COMMENT.sub("", before[comment.end() :]).strip():
                continue  # text is between the comment and the block
            mark, _, value = comment[1].strip().partition(":")
            if mark == "not run":
                block.not_run = value.strip()
            elif mark == "slow":
                block.slow = True
            elif mark == "run first":
                block.first = value.strip()
        found.append(block)
        end = fence.end()
    return found


def slugs(text: str) -> set[str]:
    """The anchors of a document, as GitHub derives them from its headings."""
    found: set[str] = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ +(.*?) *#*$", text, re.M):
        heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = base = re.sub(r"[^\w\- ]", "", heading.replace("*", "")).replace(" ", "-")
        number = 0
        while slug in found:
            number += 1
            slug = f"{base}-{number}"
        found.add(slug)
    return found


def check_prose(document: Path, text: str, errors: list[str]) -> None:
    prose = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)
    plain = re.sub(r"`[^`\n]*`", "", prose)
    if match := INDENTED.search(prose):
        errors.append(f"{document.relative_to(ROOT)}:{prose.count(chr(10), 0, match.end()) + 1}: fence this code")
    for link in re.finditer(r'\]\(([^)\s]+)[^)]*\)|(?:src|srcset|href)="([^"]+)"', plain):
        target = link[1] or link[2]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists():
            errors.append(f"{document.relative_to(ROOT)}: no file {target}")
        elif anchor and file.suffix == ".md":
            if anchor not in slugs(FENCE.sub("", file.read_text())):
                errors.append(f"{document.relative_to(ROOT)}: no heading {target}")


def check_syntax(document: Path, block: Block, errors: list[str]) -> None:
    def error(what: object) -> None:
        errors.append(f"{document.relative_to(ROOT)}:{block.line}: {what}")

    if block.language in ("bash", "shell", "console"):
        error(f"write sh, not {block.language}: only such blocks are run")
    elif block.language == "sh":
        bash = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
        if bash.returncode or bash.stderr:
            error(bash.stderr.strip())
    elif block.language == "python":
        try:
            compile(block.text, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as err:
            error(err)
    elif block.language == "json" and "..." not in block.text:
        try:
            json.loads(block.text)
        except ValueError:
            try:
                [json.loads(line) for line in block.text.splitlines()]
            except ValueError as err:
                error(err)


def session(document_blocks: list[Block], slow: bool) -> tuple[str, list[tuple[Block, str]]]:
    """The bash script that runs the blocks of a document, and the blocks that it leaves out."""
    script, left_out = [SESSION], []
    for block in document_blocks:
        if block.language not in ("sh", "python"):
            continue
        reason = block.not_run or ("slow" if block.slow and not slow else "")
        if reason:
            left_out.append((block, reason))
            continue
        code = block.text
        if block.language == "python":
            code = f"python3 - <<'END OF PYTHON'\n{code}END OF PYTHON\n"
        script.append(SERVICE.sub("start_service ", f"echo {block.line} >&3\n{block.first}\n{code}"))
    return "\n".join(script), left_out


def copy_checkout(to: Path) -> None:
    """Clones the checkout, with its changes that are not committed and its binaries."""
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(to)], check=True)
    changed = ["git", "ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.run(changed, cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")):
        source, target = ROOT / os.fsdecode(name), to / os.fsdecode(name)
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        else:
            target.unlink(missing_ok=True)
    shutil.copytree(ROOT / "bin", to / "bin", ignore=shutil.ignore_patterns("venv"))  # gigabytes, of the client tests
    shutil.copy2(ROOT / "go.work", to)


def environment(copy: Path, home: Path) -> dict[str, str]:
    """A new user's home directory, with the caches of this user."""
    go = json.loads(subprocess.run(["go", "env", "-json"], capture_output=True, check=True).stdout)
    keep = {name: go[name] for name in ("GOCACHE", "GOMODCACHE")}
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    keep["GOFLAGS"] = f"{go['GOFLAGS']} -trimpath".strip()  # so that the copies share what they compile
    path = f"{copy}/.venv/bin:{copy}/bin:{home}/go/bin:{os.environ['PATH']}"
    return os.environ | keep | {"HOME": str(home), "XDG_CACHE_HOME": cache, "PATH": path, "GOBIN": f"{home}/go/bin"}


def run(document: Path, script: str) -> str:
    """Runs a document. Returns the line of the block that failed, and the end of the output."""
    with tempfile.TemporaryDirectory(prefix="assay-docs-", ignore_cleanup_errors=True) as directory:
        work = Path(directory)
        copy, home, log, line = work / "assay", work / "home", work / "log", work / "line"
        copy_checkout(copy)
        home.mkdir()
        with log.open("w") as output, line.open("w") as marks:
            process = subprocess.Popen(
                ["bash", "-c", f"exec 3>&{marks.fileno()}\n{script}"],
                cwd=copy,
                env=environment(copy, home),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[marks.fileno()],
                start_new_session=True,
            )
            try:
                failed = process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                failed = True
                print(f"still runs after {LIMIT} s", file=output)
            finally:  # what it started in the background, and after an interrupt the session too
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
                process.wait()
        if not failed:
            return ""
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-40:])
        block = (line.read_text().split() or ["0"])[-1]
        return f"{document.relative_to(ROOT)}:{block}:\n{textwrap.indent(tail, '    ')}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks the documentation.")
    parser.add_argument("--run", action="store_true", help="run the blocks")
    parser.add_argument("--slow", action="store_true", help="also those that take minutes")
    parser.add_argument("files", nargs="*", type=Path, help="documents; default: all")
    arguments = parser.parse_args()

    names = subprocess.run(["git", "ls-files", "*.md", ":!lab/paper/testdata"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    documents = [file.resolve() for file in arguments.files] or [ROOT / name for name in names.splitlines()]
    errors: list[str] = []
    for document in documents:
        text = document.read_text()
        if not text.strip():
            errors.append(f"{document.relative_to(ROOT)} is empty")
        check_prose(document, text, errors)
        for block in blocks(text):
            check_syntax(document, block, errors)
    print(f"checked {len(documents)} documents")

    for port in (8080, 4222) if arguments.run else ():
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                parser.error(f"port {port}, which the documents use, is in use")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing keeps running
    for document in documents if arguments.run else ():
        name = document.relative_to(ROOT)
        script, left_out = session(blocks(document.read_text()), arguments.slow)
        if script != SESSION:
            start = time.monotonic()
            failure = run(document, script)
            print(f"{'FAILED ' if failure else 'ran    '} {name} ({time.monotonic() - start:.0f} s)", flush=True)
            if failure:
                errors.append(f"{name} failed")
                print(failure, file=sys.stderr, flush=True)
        for block, reason in left_out:
            print(f"not run {name}:{block.line}: {reason}", flush=True)

    for error in errors:
        print(error, file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
