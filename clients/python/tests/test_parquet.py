"""Scoring of Parquet files: all rows and columns are kept, and a run killed with SIGKILL resumes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Faulty, Handler, Service, error, good

import assay_client as ac

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from assay_client.parquet import Columns, score_parquet  # noqa: E402

POLITE = "Drink some water and rest."
RUDE = "You are a stupid idiot and I hate you."
MODELS = {"data": [{"name": "m", "version": "v1", "threshold": 0.5, "serving": True, "current": True}]}


def reply(h: Handler) -> None:
    if h.path == "/v1/models":
        h.send(200, MODELS)
    elif len(h.body) == int(h.headers["Content-Length"]):  # else the client was killed while it sent
        good(h)


def write(path: Path, n: int, **more: list[Any]) -> Path:
    columns: dict[str, Any] = {
        "response": [f"answer #{k + 1}" for k in range(n)],
        "n": list(range(n)),
        "tags": [[str(k), "é"] if k % 3 else None for k in range(n)],
        **more,
    }
    table = pa.table(columns).replace_schema_metadata({"source": "test"})
    pq.write_table(table, path, row_group_size=97, compression="zstd")
    return path


def command(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "assay_client", "score", *args], stderr=subprocess.PIPE, text=True
    )


def done(*args: str) -> tuple[int, str]:
    running = command(*args)
    stderr = running.communicate(timeout=120)[1]
    return running.returncode, stderr


def test_rows_and_columns_are_kept(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    source, target = write(tmp_path / "in.parquet", 500), tmp_path / "out.parquet"
    with ac.Client(faulty.url) as client:
        assert score_parquet(source, target, client=client) == 0
    before, after = pq.read_table(source), pq.read_table(target)
    assert after.select(before.column_names).equals(before)
    assert after.schema.metadata == before.schema.metadata
    rewards = after.column("reward").to_pylist()
    assert rewards == [float(f"0.{k + 1}") for k in range(500)]
    assert after.column("witness_text").to_pylist() == before.column("response").to_pylist()
    assert set(after.column("model_version").to_pylist()) == {"v1"}
    assert pq.ParquetFile(target).metadata.row_group(0).column(0).compression == "ZSTD"
    assert pq.ParquetFile(target).num_row_groups == pq.ParquetFile(source).num_row_groups
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_no_rows(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    source, target = write(tmp_path / "in.parquet", 3), tmp_path / "out.parquet"
    pq.write_table(pq.read_table(source).slice(0, 0), source)
    with ac.Client(faulty.url) as client:
        assert score_parquet(source, target, client=client) == 0
    assert pq.read_table(target).num_rows == 0
    assert "reward" in pq.read_table(target).column_names


def test_columns(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    chat = [[{"role": "user", "content": "q"}, {"role": "assistant", "content": f"a #{k}"}] for k in (1, 2)]
    parts = [[{"role": "user", "content": [{"type": "text", "text": "p"}]}]] * 2
    table = pa.table(
        {"chat": chat, "text": ["x #1", "y #2"], "asked": parts, "key": [7, 8], "reward": [1, 2]}
    )
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source)

    def sent(columns: Columns) -> list[dict[str, Any]]:
        faulty.requests.clear()
        score_parquet(source, target, client=client, columns=columns)
        return [i for _, _, body in faulty.requests if body for i in json.loads(body)["responses"]]

    with ac.Client(faulty.url) as client:
        assert sent(Columns(messages="chat", id="key", prefix="assay_")) == [
            {"messages": chat[0], "id": "7"},
            {"messages": chat[1], "id": "8"},
        ]
        found = pq.read_table(target)
        assert found.column("reward").to_pylist() == [1, 2]
        assert found.column_names[5:7] == ["assay_reward", "assay_violation"]
        assert sent(Columns(response="text", prompt="asked", prefix="a.")) == [
            {"response": "x #1", "prompt": "p"},
            {"response": "y #2", "prompt": "p"},
        ]
        for columns, why in (
            (Columns(), "no response column"),
            (Columns(response="text"), "column reward already exists"),
            (Columns(response="none", prefix="a"), "column none is missing"),
            (Columns(messages="text", prefix="a"), "holds strings"),
            (Columns(response="text", messages="chat"), "set one"),
        ):
            with pytest.raises(ac.InputError, match=why):
                sent(columns)


def test_default_columns() -> None:
    names = ["prompt", "completion", "messages"]
    assert Columns().resolve(names, False) == Columns(response="completion", prompt="prompt")
    assert Columns(prompt="").resolve(names, False).read() == ["completion"]
    assert Columns().resolve(["prompt", "messages"], False) == Columns(messages="messages")


def test_a_row_without_a_response(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"response": ["a #1", None, "b #2"]}), source)
    code, stderr = done(str(source), "-o", str(target), "--url", faulty.url)
    assert (code, "response 1 (counted from 0)" in stderr) == (2, True)
    assert not target.exists()
    code, stderr = done(
        str(source), "-o", str(target), "--url", faulty.url, "--on-error", "null", "--restart"
    )
    assert (code, "1 responses could not be scored" in stderr) == (1, True)
    found = pq.read_table(target)
    assert found.column("reward").to_pylist() == [0.1, None, 0.2]
    assert found.column("compliant").to_pylist() == [True, None, True]
    assert "NoneType" in found.column("error").to_pylist()[1]


def test_wrong_usage(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    source = write(tmp_path / "in.parquet", 3)
    flags = ["--url", faulty.url]
    for args, why in (
        ([str(source)], "-o NAME.parquet"),
        ([str(source), "-o", "out.jsonl"], "-o NAME.parquet"),
        ([str(source), "-o", str(source)], "the output is the same file as the input"),
        ([str(source), "-o", "out.parquet", "--text"], "--text"),
        ([__file__, "--prefix", "a"], "--prefix requires Parquet"),
        ([str(tmp_path / "none.parquet"), "-o", "out.parquet"], "none.parquet"),
    ):
        code, stderr = done(*args, *flags)
        assert code == 2, stderr
        assert why in stderr
    text = tmp_path / "text.parquet"
    text.write_text("no Parquet")
    code, stderr = done(str(text), "-o", "out.parquet", *flags)
    assert code == 2
    assert "Traceback" not in stderr


def test_different_settings_are_not_resumed(faulty: Faulty, tmp_path: Path) -> None:
    faulty.script = [reply, reply, error(400, "invalid")]
    faulty.default = reply
    source, target = write(tmp_path / "in.parquet", 300), tmp_path / "out.parquet"
    with ac.Client(faulty.url, concurrency=1) as client:
        with pytest.raises(ac.BadRequestError):
            score_parquet(source, target, client=client)
        assert (tmp_path / "out.parquet.part").exists()
        with pytest.raises(Exception, match=r"started with different settings \(options\)"):
            score_parquet(source, target, client=client, options=ac.Options(reward="raw"))
        write(source, 299)
        with pytest.raises(Exception, match=r"started with different settings \(input\)"):
            score_parquet(source, target, client=client)
        assert score_parquet(source, target, client=client, restart=True) == 0
    assert pq.read_table(target).num_rows == 299


def test_a_resumed_run_keeps_the_model_version(faulty: Faulty, tmp_path: Path) -> None:
    faulty.script = [reply, reply, error(400, "invalid")]
    faulty.default = reply
    source, target = write(tmp_path / "in.parquet", 300), tmp_path / "out.parquet"
    with ac.Client(faulty.url, concurrency=1) as client:
        with pytest.raises(ac.BadRequestError):
            score_parquet(source, target, client=client)
        faulty.requests.clear()
        score_parquet(source, target, client=client)
    assert {path for path, _, _ in faulty.requests} == {"/v1/score"}, "it must not ask which model serves"
    assert {json.loads(body)["model"] for _, _, body in faulty.requests} == {"v1"}
    assert set(pq.read_table(target).column("model_version").to_pylist()) == {"v1"}


def run_to_the_end(args: list[str], interrupt: Callable[[subprocess.Popen[str]], bool]) -> int:
    """Repeats the command, killed with SIGKILL when interrupt returns True; returns the number of kills."""
    kills = 0
    while True:
        running = command(*args)
        killed = interrupt(running)
        if killed:
            running.send_signal(signal.SIGKILL)
            kills += 1
        stderr = running.communicate(timeout=120)[1]
        if not killed or running.returncode == 0:
            assert running.returncode == 0, stderr
            return kills


def test_killed_at_random_moments(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    source = write(tmp_path / "in.parquet", 6000)
    expected, target = tmp_path / "expected.parquet", tmp_path / "out.parquet"
    with ac.Client(faulty.url) as client:
        score_parquet(source, expected, client=client)
    rng = random.Random(6)

    def after_some_requests(running: subprocess.Popen[str]) -> bool:
        """Waits until the service has received a random number of requests, or the command ends."""
        ended = threading.Event()

        def watch() -> None:
            running.wait()
            ended.set()
            with faulty.lock:
                faulty.lock.notify_all()

        limit = len(faulty.requests) + rng.randint(2, 60)
        watcher = threading.Thread(target=watch)
        watcher.start()
        with faulty.lock:
            faulty.lock.wait_for(lambda: ended.is_set() or len(faulty.requests) >= limit, timeout=120)
        if not ended.is_set():
            running.kill()
        watcher.join()
        return running.returncode != 0

    assert run_to_the_end([str(source), "-o", str(target), "--url", faulty.url], after_some_requests) > 1
    assert target.read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("where", ["fsync", "replace", "unlink"])
def test_killed_while_the_output_is_assembled(
    faulty: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    faulty.default = reply
    source, target = write(tmp_path / "in.parquet", 300), tmp_path / "out.parquet"

    class Killed(BaseException):
        pass

    def kill(path: Any, *_: Any) -> None:
        if not str(path).endswith(".part.json.new"):
            raise Killed

    def replace(old: Any, new: Any) -> None:
        kill(old)
        Path(old).rename(new)

    with ac.Client(faulty.url) as client:
        with monkeypatch.context() as m:
            if where == "unlink":
                m.setattr(Path, "unlink", kill)
            else:
                m.setattr(f"os.{where}", replace if where == "replace" else kill)
            with pytest.raises(Killed):
                score_parquet(source, target, client=client)
        assert target.exists() == (where == "unlink")
        faulty.requests.clear()
        score_parquet(source, target, client=client)
    assert faulty.requests == [], "nothing must be scored again"
    assert pq.read_table(target).column("reward").to_pylist() == [float(f"0.{k + 1}") for k in range(300)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_memory_does_not_grow_with_the_file(faulty: Faulty, tmp_path: Path) -> None:
    """One row group of 100 MB, of which only a small part may be in memory at a time."""
    resource = pytest.importorskip("resource")
    faulty.default = reply
    source = tmp_path / "in.parquet"
    rng = random.Random(1)
    letters = "".join(chr(rng.randrange(97, 123)) for _ in range(1 << 20))
    rows = 20_000
    texts = [letters[k * 7 : k * 7 + 5000] + f" #{k + 1}" for k in range(rows)]
    pq.write_table(
        pa.table({"other": texts, "response": [f"#{k + 1}" for k in range(rows)]}),
        source,
        row_group_size=rows,
        compression="none",
        use_dictionary=False,
    )
    del texts
    code = (
        "import resource, sys; import assay_client.parquet; from assay_client.__main__ import main; "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "code = main(sys.argv[1:]); "
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024); sys.exit(code)"
    )
    args = ["score", str(source), "-o", str(tmp_path / "out.parquet"), "--url", faulty.url]
    ran = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert resource
    assert float(ran.stdout) < 150, f"{ran.stdout} MiB"


def test_a_real_service(binary: str, tmp_path: Path) -> None:
    """The command is killed at random moments, and the service is killed once while the command runs."""
    args = ["--train-auto=false", "--cache-bytes", "0", "--precision", "fp32"]
    running = Service(binary, tmp_path / "data", args)
    running.start()
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    rng = random.Random(3)
    restarts: list[threading.Thread] = []
    texts = [" ".join(rng.choices([POLITE, RUDE, f"Number {k}."], k=rng.randint(1, 8))) for k in range(1500)]
    pq.write_table(pa.table({"response": texts, "k": list(range(1500))}), source, row_group_size=400)
    try:
        whole = tmp_path / "whole.parquet"
        with ac.Client(running.url) as client:
            started = time.monotonic()
            score_parquet(source, whole, client=client)
            duration = max(1.0, time.monotonic() - started)
        part = tmp_path / "out.parquet.part"

        def restart() -> None:
            running.kill()
            running.start()

        def at_a_random_time(process: subprocess.Popen[str]) -> bool:
            if not restarts and part.exists() and part.stat().st_size:
                restarts.append(threading.Thread(target=restart))
                restarts[0].start()
            try:
                process.wait(timeout=rng.uniform(0.3, duration))
            except subprocess.TimeoutExpired:
                return True
            return False

        args = [str(source), "-o", str(target), "--url", running.url]
        kills = run_to_the_end(args, at_a_random_time)
        for thread in restarts:
            thread.join()
        result, expected = pq.read_table(target), pq.read_table(whole)
        assert result.schema.equals(expected.schema)
        for name in result.column_names:
            got, want = result.column(name).to_pylist(), expected.column(name).to_pylist()
            # The last bits of a score depend on the batch it is in.
            same = got == pytest.approx(want, abs=1e-5) if name in ("reward", "violation") else got == want
            assert same, f"{name} after {kills} kills"
        assert [not c for c in result.column("compliant").to_pylist()] == [RUDE in t for t in texts]
        spans = zip(*(result.column(f"witness_{n}").to_pylist() for n in ("start", "end", "text")))
        assert all(t[a:b] == w for t, (a, b, w) in zip(texts, spans))
    finally:
        for thread in restarts:
            thread.join()
        running.kill()
