"""Parquet in, Parquet out: every row and column, and on after kill -9 with the same result."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Faulty, Handler, Service, error, slow

import assay_client as ac

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from assay_client.parquet import Columns, score_parquet  # noqa: E402

KIND = "Drink some water and rest."
RUDE = "You are a stupid idiot and I hate you."
MODELS = {"data": [{"name": "m", "version": "v1", "threshold": 0.5, "serving": True, "current": True}]}


def reply(h: Handler) -> None:
    if h.path == "/v1/models":
        h.send(200, MODELS)
        return
    slow(0.005)(h)


def unhurried(h: Handler) -> None:
    if h.path == "/v1/models":
        reply(h)
    elif len(h.body) == int(h.headers["Content-Length"]):  # else the client was killed while it sent
        slow(0.1)(h)


def write(path: Path, n: int, **more: list[Any]) -> Path:
    columns: dict[str, Any] = {
        "response": [f"answer #{k + 1}" for k in range(n)],
        "n": list(range(n)),
        "tags": [[str(k), "é"] if k % 3 else None for k in range(n)],
        **more,
    }
    table = pa.table(columns).replace_schema_metadata({"made": "by a test"})
    pq.write_table(table, path, row_group_size=97, compression="zstd")
    return path


def command(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "assay_client", "score", *args], stderr=subprocess.PIPE, text=True
    )


def done(*args: str) -> tuple[int, str]:
    running = command(*args)
    said = running.communicate(timeout=120)[1]
    return running.returncode, said


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
            (Columns(), "no column is named response"),
            (Columns(response="text"), "column reward already"),
            (Columns(response="none", prefix="a"), "not one column none"),
            (Columns(messages="text", prefix="a"), "holds strings"),
            (Columns(response="text", messages="chat"), "give one"),
        ):
            with pytest.raises(ac.InputError, match=why):
                sent(columns)


def test_defaults_are_the_names_that_data_sets_have() -> None:
    names = ["prompt", "completion", "messages"]
    assert Columns().of(names, False) == Columns(response="completion", prompt="prompt")
    assert Columns(prompt="").of(names, False).read() == ["completion"]
    assert Columns().of(["prompt", "messages"], False) == Columns(messages="messages")


def test_a_row_without_a_response(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(pa.table({"response": ["a #1", None, "b #2"]}), source)
    code, said = done(str(source), "-o", str(target), "--url", faulty.url)
    assert (code, "response 1 (the first is 0)" in said) == (2, True)
    assert not target.exists()
    code, said = done(str(source), "-o", str(target), "--url", faulty.url, "--on-error", "null", "--restart")
    assert (code, "1 responses could not be scored" in said) == (1, True)
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
        ([str(source), "-o", str(source)], "the output is the input"),
        ([str(source), "-o", "out.parquet", "--text"], "--text"),
        ([__file__, "--prefix", "a"], "--prefix is for Parquet"),
        ([str(tmp_path / "none.parquet"), "-o", "out.parquet"], "none.parquet"),
    ):
        code, said = done(*args, *flags)
        assert code == 2, said
        assert why in said
    text = tmp_path / "text.parquet"
    text.write_text("no Parquet")
    code, said = done(str(text), "-o", "out.parquet", *flags)
    assert code == 2
    assert "Traceback" not in said


def test_what_was_begun_otherwise_is_not_gone_on_with(faulty: Faulty, tmp_path: Path) -> None:
    faulty.script = [reply, reply, error(400, "invalid")]
    faulty.default = reply
    source, target = write(tmp_path / "in.parquet", 300), tmp_path / "out.parquet"
    with ac.Client(faulty.url, concurrency=1) as client:
        with pytest.raises(ac.InvalidRequestError):
            score_parquet(source, target, client=client)
        assert (tmp_path / "out.parquet.part").exists()
        with pytest.raises(Exception, match=r"begun otherwise \(options\)"):
            score_parquet(source, target, client=client, options=ac.Options(reward="raw"))
        write(source, 299)
        with pytest.raises(Exception, match=r"begun otherwise \(input\)"):
            score_parquet(source, target, client=client)
        assert score_parquet(source, target, client=client, restart=True) == 0
    assert pq.read_table(target).num_rows == 299


def test_one_model_version_from_beginning_to_end(faulty: Faulty, tmp_path: Path) -> None:
    faulty.script = [reply, reply, error(400, "invalid")]
    faulty.default = reply
    source, target = write(tmp_path / "in.parquet", 300), tmp_path / "out.parquet"
    with ac.Client(faulty.url, concurrency=1) as client:
        with pytest.raises(ac.InvalidRequestError):
            score_parquet(source, target, client=client)
        faulty.requests.clear()
        score_parquet(source, target, client=client)
    assert {path for path, _, _ in faulty.requests} == {"/v1/score"}, "it does not ask what serves now"
    assert {json.loads(body)["model"] for _, _, body in faulty.requests} == {"v1"}
    assert set(pq.read_table(target).column("model_version").to_pylist()) == {"v1"}


def killed(args: list[str], target: Path, most: float, seed: int) -> int:
    """Runs the command with kill -9 at random moments until the output is there; returns how many.

    The output is there when it is complete, so the callers compare it.
    """
    rng = random.Random(seed)
    kills = 0
    while True:
        running = command(*args)
        try:
            said = running.communicate(timeout=rng.uniform(0.3, most))[1]
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.communicate()
            kills += 1
            if target.exists():
                return kills
            continue
        assert running.returncode == 0, said
        return kills


def test_killed_at_random_moments(faulty: Faulty, tmp_path: Path) -> None:
    faulty.default = reply
    source = write(tmp_path / "in.parquet", 6000)
    whole, target = tmp_path / "whole.parquet", tmp_path / "out.parquet"
    with ac.Client(faulty.url) as client:
        score_parquet(source, whole, client=client)
    faulty.default = unhurried
    args = [str(source), "-o", str(target), "--url", faulty.url]
    assert killed(args, target, 2.0, seed=6) > 1
    assert target.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("where", ["fsync", "replace", "unlink"])
def test_killed_while_the_output_is_put_together(
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
    assert faulty.requests == [], "nothing is scored again"
    assert pq.read_table(target).column("reward").to_pylist() == [float(f"0.{k + 1}") for k in range(300)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_memory_does_not_grow_with_the_file(faulty: Faulty, tmp_path: Path) -> None:
    """100 MB of text in one row group, of which much less is held at once."""
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
    """Killed at random moments, the command; and once, the service."""
    args = ["--train-auto=false", "--cache-bytes", "0", "--precision", "fp32"]
    running = Service(binary, tmp_path / "data", args)
    running.start()
    source, target = tmp_path / "in.parquet", tmp_path / "out.parquet"
    rng = random.Random(3)
    texts = [" ".join(rng.choices([KIND, RUDE, f"Number {k}."], k=rng.randint(1, 8))) for k in range(1500)]
    pq.write_table(pa.table({"response": texts, "k": list(range(1500))}), source, row_group_size=400)
    try:
        whole = tmp_path / "whole.parquet"
        with ac.Client(running.url) as client:
            began = time.monotonic()
            score_parquet(source, whole, client=client)
            took = time.monotonic() - began
        part = tmp_path / "out.parquet.part"

        def restart() -> None:
            until = time.monotonic() + 60
            while time.monotonic() < until and not (part.exists() and part.stat().st_size):
                time.sleep(0.01)
            running.kill()
            running.start()

        again = threading.Thread(target=restart)
        again.start()
        args = [str(source), "-o", str(target), "--url", running.url]
        kills = killed(args, target, max(1.0, took), seed=5)
        again.join()
        found, expected = pq.read_table(target), pq.read_table(whole)
        assert found.schema.equals(expected.schema)
        for name in found.column_names:
            have, want = found.column(name).to_pylist(), expected.column(name).to_pylist()
            # The last bits of a score depend on what else is in its batch.
            same = have == pytest.approx(want, abs=1e-5) if name in ("reward", "violation") else have == want
            assert same, f"{name} after {kills} kills"
        assert [not c for c in found.column("compliant").to_pylist()] == [RUDE in t for t in texts]
        spans = zip(*(found.column(f"witness_{n}").to_pylist() for n in ("start", "end", "text")))
        assert all(t[a:b] == w for t, (a, b, w) in zip(texts, spans))
    finally:
        running.kill()
