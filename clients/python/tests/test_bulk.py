"""Bulk scoring: chunks, order, bounded concurrency and connection reuse."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import Caller, Faulty, Handler, drop, error, good, hang, once
from test_faults import FAST, expected, numbered

import assay_client as ac


def test_order_and_chunks(faulty: Faulty, call: Caller) -> None:
    # The first response is sent last, the third before it.
    faulty.script = [
        once(lambda server: len(server.requests) >= 5),
        good,
        once(lambda server: len(server.requests) >= 4),
        drop,
    ]
    assert call(faulty.url, "rewards", numbered(500), settings={"chunk": 64, "retry": FAST}) == expected(500)
    sizes = sorted(len(json.loads(body)["responses"]) for _, _, body in faulty.requests)
    assert sizes == [52, 64, 64, 64, 64, 64, 64, 64, 64]  # one request was retried


def test_concurrency_is_bounded_and_used(faulty: Faulty, call: Caller) -> None:
    faulty.default = once(lambda server: server.max_in_flight >= 3)
    call(faulty.url, "rewards", numbered(40), settings={"chunk": 2, "concurrency": 3})
    assert faulty.max_in_flight == 3
    assert faulty.connections <= 4


def test_chunks_are_bounded_by_bytes(faulty: Faulty, call: Caller) -> None:
    items = ["x" * 1000 + f" #{k}" for k in range(1, 9)]
    assert len(call(faulty.url, "rewards", items, settings={"chunk_bytes": 3000})) == 8
    assert len(faulty.requests) == 4


def test_items_are_read_lazily(faulty: Faulty) -> None:
    read = 0

    def endless() -> object:
        nonlocal read
        while True:
            read += 1
            yield f"#{read}"

    with ac.Client(faulty.url, chunk=10, concurrency=2) as client:
        found = client.score_iter(endless())  # type: ignore[arg-type]
        first = [next(found).reward for _ in range(5)]
        found.close()  # type: ignore[attr-defined]
    assert first == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert read < 60


def test_nothing_to_score(faulty: Faulty, call: Caller) -> None:
    assert call(faulty.url, "score", []) == []
    assert faulty.requests == []


def test_a_connection_is_reused(faulty: Faulty) -> None:
    with ac.Client(faulty.url) as client:
        for _ in range(20):
            client.score_one("a")
    assert faulty.connections == 1


def test_a_client_is_thread_safe(faulty: Faulty) -> None:
    with ac.Client(faulty.url) as client, ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda text: client.score_one(text).reward, numbered(200)))
    assert found == expected(200)
    assert faulty.connections <= 16


def test_an_async_client_in_several_event_loops(faulty: Faulty) -> None:
    client = ac.AsyncClient(faulty.url)
    for _ in range(3):
        assert asyncio.run(client.rewards(numbered(3))) == expected(3)


def test_cancellation(faulty: Faulty) -> None:
    async def run() -> None:
        loop, received = asyncio.get_running_loop(), asyncio.Event()

        def reply(h: Handler) -> None:
            loop.call_soon_threadsafe(received.set)
            hang(h)

        faulty.default = reply
        async with ac.AsyncClient(faulty.url, chunk=1) as client:
            task = asyncio.ensure_future(client.rewards(numbered(10)))
            await received.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())
    assert len(faulty.requests) <= 5


def test_clients_can_be_pickled(faulty: Faulty) -> None:
    with ac.Client(faulty.url, token="t", options=ac.Options(reward="logit")) as client:
        assert client.rewards(numbered(2)) == expected(2)
        with pickle.loads(pickle.dumps(client)) as copy:
            assert copy.rewards(numbered(2)) == expected(2)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.map(client.rewards, [numbered(3)]) == [expected(3)]
    assert json.loads(faulty.requests[-1][2])["options"] == {"reward": "logit", "instances": False}
    assert pickle.loads(pickle.dumps(ac.AsyncClient(faulty.url)))._config.url == faulty.url


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks of multi-threaded processes
def test_a_client_survives_a_fork(faulty: Faulty) -> None:
    context = multiprocessing.get_context("fork")
    with ac.Client(faulty.url) as client:
        assert client.rewards(numbered(2)) == expected(2)
        found = context.SimpleQueue()
        child = context.Process(target=lambda: found.put(client.rewards(numbered(3))))
        child.start()
        assert found.get() == expected(3)
        child.join()
        assert client.rewards(numbered(2)) == expected(2)
    assert faulty.connections == 2


def test_priority(faulty: Faulty, call: Caller) -> None:
    call(faulty.url, "score", ["a", "b"])
    call(faulty.url, "score_one", "a", priority="bulk")
    call(
        faulty.url,
        "rewards",
        ["a", "b", "c"],
        priority="interactive",
        settings={"priority": "bulk", "chunk": 2},
    )
    call(faulty.url, "score", ["a"], settings={"priority": "bulk"})
    sent = [headers.get("X-Priority") for _, headers, _ in faulty.requests]
    assert sent == [None, "bulk", "interactive", "interactive", "bulk"]
    assert all(b"priority" not in body for _, _, body in faulty.requests)
    with pytest.raises(ValueError, match="'urgent'"):
        call(faulty.url, "score", ["a"], priority="urgent")
    with pytest.raises(ValueError, match="'urgent'"):
        call(faulty.url, "score", ["a"], settings={"priority": "urgent"})


def test_request_body(faulty: Faulty, call: Caller) -> None:
    items = [
        "plain",
        ac.Item(messages=[{"role": "assistant", "content": "hi"}], id="m"),
        {"instances": ["a", "b"], "metadata": {"step": 1}},
    ]
    settings = {"token": "secret", "model": "v1", "options": ac.Options(aggregate="topk", top_k=2)}
    found = call(
        faulty.url,
        "score",
        items,
        prompts=["p", "q", "r"],
        options=ac.Options(reward="raw"),
        settings=settings,
    )
    assert [r.id for r in found] == ["generated-0", "m", "generated-2"]
    path, headers, body = faulty.requests[0]
    assert path == "/v1/score"
    assert headers["Authorization"] == "Bearer secret"
    assert json.loads(body) == {
        "responses": [
            {"response": "plain", "prompt": "p"},
            {"messages": [{"role": "assistant", "content": "hi"}], "id": "m", "prompt": "q"},
            {"instances": ["a", "b"], "metadata": {"step": 1}, "prompt": "r"},
        ],
        "options": {"reward": "raw", "aggregate": "topk", "top_k": 2},
        "model": "v1",
    }


def test_feedback_is_batched(faulty: Faulty, call: Caller) -> None:
    def reply(h):  # type: ignore[no-untyped-def]
        lines = [json.loads(line) for line in h.body.splitlines()]
        rejected = [
            {"index": k, "id": v["id"], "code": "invalid", "message": "no"}
            for k, v in enumerate(lines)
            if v["label"] == "bad"
        ]
        h.send(202, {"accepted": len(lines) - len(rejected), "duplicates": 0, "rejected": rejected})

    faulty.script = [drop]
    faulty.default = reply
    items = [{"label": "bad" if k == 700 else "compliant", "response": f"r{k}"} for k in range(1200)]
    receipt = call(faulty.url, "feedback", items, settings={"retry": FAST})
    assert (receipt.accepted, [r.index for r in receipt.rejected]) == (1199, [700])
    with pytest.raises(ac.RejectedError, match="item 700"):
        receipt.raise_for_rejected()
    assert len(faulty.requests) == 4
    first, again = faulty.requests[0][2], faulty.requests[1][2]
    assert first == again, "a retry must send the same ids"
    ids = {json.loads(line)["id"] for _, _, body in faulty.requests for line in body.splitlines()}
    assert len(ids) == 1200


def test_feedback_that_is_too_large_is_split(faulty: Faulty, call: Caller) -> None:
    def reply(h: Handler) -> None:
        lines = [json.loads(line) for line in h.body.splitlines()]
        if len(lines) > 100 or any(v["response"] == "large" for v in lines):
            error(413, "too_large")(h)
            return
        rejected = [
            {"index": k, "id": v["id"], "code": "invalid", "message": "no"}
            for k, v in enumerate(lines)
            if v["label"] == "bad"
        ]
        h.send(202, {"accepted": len(lines) - len(rejected), "duplicates": 0, "rejected": rejected})

    faulty.default = reply
    items = [{"label": "bad" if k in (499, 506) else "compliant", "response": f"r{k}"} for k in range(507)]
    receipt = call(faulty.url, "feedback", items)
    assert (receipt.accepted, [r.index for r in receipt.rejected]) == (505, [499, 506])
    items[503]["response"] = "large"
    with pytest.raises(ac.BadRequestError) as caught:
        call(faulty.url, "feedback", items)
    assert caught.value.index == 503
