"""The HTTP clients, against a real service."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import Caller, Service, assert_same

import assay_client as ac

POLITE = "Drink some water and rest."
RUDE = "Drink some water \U0001f600. You are a stupid idiot and I hate you."


def test_results(service: Service, call: Caller) -> None:
    polite, rude = call(service.url, "score", [POLITE, RUDE])
    assert polite.reward > 0.5 > rude.reward
    assert polite.compliant
    assert not rude.compliant
    assert rude.violation > rude.threshold
    assert rude.offset_unit == "codepoint"
    w = rude.witness
    assert w.text == "You are a stupid idiot and I hate you."
    assert RUDE[w.start : w.end] == w.text
    assert len(rude.instances) == 2
    assert rude.instances[w.index].violation == w.violation
    assert rude.model.version
    assert rude.model.numerics
    assert rude.raw["reward"] == rude.reward


def test_options(service: Service, call: Caller) -> None:
    utf8 = call(service.url, "score_one", RUDE, options=ac.Options(offset_unit="utf8", instances=False))
    assert RUDE.encode()[utf8.witness.start : utf8.witness.end].decode() == utf8.witness.text
    assert utf8.instances is None
    logit = call(service.url, "score_one", RUDE, options=ac.Options(reward="logit", aggregate="mean"))
    assert -20 <= logit.reward <= 20
    with pytest.raises(ac.BadRequestError) as caught:
        call(service.url, "score_one", "a", options=ac.Options(reward="probit"))  # type: ignore[arg-type]
    assert caught.value.field == "options.reward"
    assert caught.value.request_id


def test_priority_changes_no_score(service: Service, call: Caller) -> None:
    found = [call(service.url, "rewards", [POLITE, RUDE], priority=p) for p in (None, "interactive", "bulk")]
    assert found[1] == pytest.approx(found[0], abs=5e-3)
    assert found[2] == pytest.approx(found[0], abs=5e-3)


def test_messages_instances_and_nothing(service: Service, call: Caller) -> None:
    chat = [{"role": "user", "content": "You idiot!"}, {"role": "assistant", "content": "Hello there."}]
    items = [ac.Item(messages=chat, id="chat"), ac.Item(instances=["Hello.", "You idiot!"]), " \n"]
    found = call(service.url, "score", items)
    assert found[0].id == "chat"
    assert found[0].witness.message == 1
    assert found[0].compliant
    assert found[1].witness.index == 1
    assert (found[2].empty, found[2].witness, found[2].reward) == (True, None, 0.0)


def test_a_bad_item_among_good_ones(service: Service, call: Caller) -> None:
    items = [POLITE, {"response": "x", "messages": []}, RUDE]
    with pytest.raises(ac.BadRequestError) as caught:
        call(service.url, "score", items)
    assert caught.value.index == 1
    found = call(service.url, "score", items, on_error="nan")
    assert isinstance(found[0], ac.Result)
    assert isinstance(found[1], ac.Failure)
    assert isinstance(found[2], ac.Result)


def test_many_in_order(service: Service, call: Caller) -> None:
    items = [ac.Item(response=POLITE if k % 3 else RUDE, id=f"s{k}") for k in range(300)]
    found = call(service.url, "score", items)
    assert [r.id for r in found] == [f"s{k}" for k in range(300)]
    assert [r.compliant for r in found] == [bool(k % 3) for k in range(300)]


def test_models(service: Service, call: Caller) -> None:
    models = call(service.url, "models")
    version = models[0].version
    assert models[0].serving
    assert call(service.url, "model", version).version == version
    assert call(service.url, "score_one", "a", model=version).model.version == version
    with pytest.raises(ac.NotFoundError):
        call(service.url, "score_one", "a", model="another")
    with pytest.raises(ac.NotFoundError):
        call(service.url, "model", "a/b")
    with pytest.raises(ac.ConflictError) as caught:
        call(service.url, "rollback")
    assert caught.value.code == "no_previous"
    assert call(service.url, "ready")
    call(service.url, "wait_ready", 5)


def test_feedback(service: Service, call: Caller, request: pytest.FixtureRequest) -> None:
    name = request.node.name
    items = [
        ac.FeedbackItem("violation", response=f"{name}: you idiot", rater="ann"),
        ac.FeedbackItem(
            "compliant", response="Hello.", id=f"{name}-1", time=datetime(2026, 9, 1, tzinfo=timezone.utc)
        ),
        ac.FeedbackItem("compliant", response_id=f"{name}-unknown"),
    ]
    receipt = call(service.url, "feedback", items)
    assert receipt.accepted == 2
    assert [(r.index, r.code) for r in receipt.rejected] == [(2, "unknown")]
    again = call(service.url, "feedback", items)
    assert (again.accepted, again.duplicates) == (0, 2)
    assert call(service.url, "feedback_stats")["records"] >= 2
    labels = call(service.url, "response_labels", f"{name}-1")
    assert (labels["label"], [label["rater"] for label in labels["labels"]]) == ("compliant", [""])
    assert call(service.url, "withdraw_label", f"{name}-1", "ann & ben") == 0
    assert call(service.url, "withdraw_label", f"{name}-1") == 1
    assert call(service.url, "response_labels", f"{name}-1")["labels"] == []
    assert call(service.url, "feedback", items[1:2]).duplicates == 1
    items[1] = ac.FeedbackItem(
        "compliant", response="Hello.", id=f"{name}-1", time=datetime.now(timezone.utc)
    )
    assert call(service.url, "feedback", items[1:2]).accepted == 1
    assert call(service.url, "erase_feedback", f"{name}-1") == 1
    assert call(service.url, "candidates") == []
    with pytest.raises(ac.InputError):
        call(service.url, "feedback", [ac.FeedbackItem("compliant", response="a", time=datetime(2026, 9, 1))])


def test_training(service: Service, call: Caller) -> None:
    training = call(service.url, "training")
    assert training.phase in ("idle", "collecting")
    assert training.raw["auto"] is False
    with pytest.raises(ac.NotFoundError):
        call(service.url, "stop_training")
    assert call(service.url, "start_training", "to see").phase
    stopped = call(service.url, "stop_training", "seen")
    assert "asked" not in stopped.raw
    assert isinstance(call(service.url, "events"), list)


def test_tokens(binary: str, tmp_path: Path, call: Caller) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("open-sesame-open-sesame score\n")
    tokens.chmod(0o600)
    running = Service(binary, tmp_path / "data", ["--token-file", str(tokens), "--train-auto=false"])
    running.start()
    try:
        settings: dict[str, Any] = {"token": "open-sesame-open-sesame"}
        assert call(running.url, "score_one", POLITE, settings=settings).compliant
        for method, args in (("score_one", [POLITE]), ("rewards", [[POLITE]])):
            with pytest.raises(ac.AuthenticationError):
                call(running.url, method, *args, settings={"token": "wrong"})
            with pytest.raises(ac.AuthenticationError):
                call(running.url, method, *args)
        with pytest.raises(ac.PermissionDeniedError) as caught:
            call(running.url, "feedback_stats", settings=settings)
        assert caught.value.code == "insufficient_scope"
    finally:
        running.kill()


def test_a_restart_of_the_service(binary: str, tmp_path: Path) -> None:
    running = Service(binary, tmp_path, ["--train-auto=false", "--cache-bytes", "0"])
    running.start()
    items = [ac.Item(response=f"{POLITE} {k}. {RUDE if k % 2 else POLITE}", id=f"s{k}") for k in range(120)]
    seen = threading.Event()

    def restart() -> None:
        seen.wait()
        running.kill()
        running.start()

    again = threading.Thread(target=restart)
    try:
        with ac.Client(running.url, chunk=8, retry=60) as client:
            before = client.score(items)
            again.start()
            found = []
            for r in client.score_iter(items):
                found.append(r)
                if len(found) == 16:
                    seen.set()
        assert_same(found, before)
    finally:
        seen.set()
        again.join()
        running.kill()


def test_async_samples_one_by_one(service: Service) -> None:
    async def run() -> list[ac.Result]:
        async with ac.AsyncClient(service.url) as client:
            return await asyncio.gather(*(client.score_one(POLITE) for _ in range(64)))

    assert all(r.compliant for r in asyncio.run(run()))


def command(*args: str, data: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "assay_client", *args], input=data, capture_output=True, text=True, timeout=120
    )


def test_command_score(service: Service, tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"s{k}", "response": RUDE if k % 2 else POLITE}) for k in range(200)]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines) + "\n\n")
    done = command("score", str(source), "-o", str(target), "--url", service.url)
    assert done.returncode == 0, done.stderr
    assert "200/200 responses" in done.stderr
    whole = target.read_bytes()
    found = [json.loads(line) for line in whole.splitlines()]
    assert [r["id"] for r in found] == [f"s{k}" for k in range(200)]
    assert list(tmp_path.iterdir()).__len__() == 2

    # A run that was killed in the middle of a line is resumed.
    with ac.Client(service.url) as client:
        version = client.models()[0].version
    part, notes = tmp_path / "out.jsonl.part", tmp_path / "out.jsonl.part.json"
    target.unlink()
    cut = whole.index(b'"id":"s120"') + 5
    part.write_bytes(
        b"".join(whole.splitlines(True)[:5]).replace(b'"s0"', b'"kept"')
        + whole[len(b"".join(whole.splitlines(True)[:5])) : cut]
    )
    settings: dict[str, Any] = {"options": {}, "model": None, "text": False, "null": False}
    notes.write_text(json.dumps({**settings, "version": version, "input_bytes": source.stat().st_size}))
    other = command("score", str(source), "-o", str(target), "--url", service.url, "--reward", "raw")
    assert other.returncode == 2
    assert "started with different settings (options)" in other.stderr
    done = command("score", str(source), "-o", str(target), "--url", service.url)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes() == whole.replace(b'"s0"', b'"kept"')
    assert len(list(tmp_path.iterdir())) == 2


def test_command_score_failures(service: Service) -> None:
    lines = json.dumps({"response": POLITE}) + "\n" + json.dumps({"id": "x", "nothing": 1}) + "\n"
    done = command("score", "--url", service.url, data=lines)
    assert done.returncode == 2
    assert "responses[1]" in done.stderr
    done = command("score", "--url", service.url, "--on-error", "null", "--no-instances", data=lines)
    assert done.returncode == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found[0]["compliant"]
    assert (found[1]["id"], found[1]["reward"]) == ("x", None)
    done = command("score", "--url", service.url, data="{}\n{\n")
    assert (done.returncode, "line 2" in done.stderr) == (2, True)
    done = command("score", "--url", "http://127.0.0.1:9", "--retry", "0", data=lines)
    assert done.returncode == 1
    done = command("score", "--url", service.url, "--text", data=f"{POLITE}\n{RUDE}\n")
    assert [json.loads(line)["compliant"] for line in done.stdout.splitlines()] == [True, False]


def test_command_score_text(service: Service, tmp_path: Path) -> None:
    """An empty line is an empty response, so that line n of the output belongs to line n of the input."""
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text(f"{POLITE}\n\n \r\n{RUDE}")
    done = command("score", str(source), "-o", str(target), "--url", service.url, "--text")
    assert done.returncode == 0, done.stderr
    assert "4/4 responses" in done.stderr
    found = [json.loads(line) for line in target.read_text().splitlines()]
    assert [r["empty"] for r in found] == [False, True, True, False]
    assert [r["reward"] for r in found if r["empty"]] == [0, 0]
    assert found[0]["compliant"]
    assert not found[3]["compliant"]


def test_a_resumed_run_counts_all_failures(service: Service, tmp_path: Path) -> None:
    """The exit code is that of an uninterrupted run."""
    quoting = 'It said: "reward":null. Drink some water.'
    items = [{"id": "bad", "nothing": 1}, {"id": "a", "response": quoting}, {"id": "b", "response": POLITE}]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps(item) + "\n" for item in items))
    run = ("score", str(source), "-o", str(target), "--url", service.url, "--on-error", "null")
    whole = command(*run)
    assert (whole.returncode, "1 responses could not be scored" in whole.stderr) == (1, True)
    lines = target.read_bytes().splitlines(True)
    assert json.loads(lines[0])["reward"] is None

    target.unlink()
    part, notes = tmp_path / "out.jsonl.part", tmp_path / "out.jsonl.part.json"
    part.write_bytes(lines[0] + lines[1] + lines[2][:9])
    with ac.Client(service.url) as client:
        version = client.models()[0].version
    settings: dict[str, Any] = {"options": {}, "model": None, "text": False, "null": True}
    notes.write_text(json.dumps({**settings, "version": version, "input_bytes": source.stat().st_size}))
    resumed = command(*run)
    assert (resumed.returncode, "1 responses could not be scored" in resumed.stderr) == (1, True)
    assert target.read_bytes() == b"".join(lines)


def test_command_feedback(service: Service, tmp_path: Path) -> None:
    source = tmp_path / "labels.jsonl"
    source.write_text(
        '{"id":"c1","label":"violation","response":"You idiot."}\n'
        '{"id":"c2","label":"nonsense","response":"a"}\n'
    )
    done = command("feedback", str(source), "--url", service.url)
    assert done.returncode == 2
    receipt = json.loads(done.stdout)
    assert (receipt["accepted"], receipt["rejected"][0]["id"]) == (1, "c2")
