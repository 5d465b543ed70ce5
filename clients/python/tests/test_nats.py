"""The NATS client, against a real service with its embedded server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Service, Texts, assert_same

import assay_client as ac

pytest.importorskip("nats")
import nats
import nats.js.errors
from nats.js.api import AckPolicy, ConsumerConfig

from assay_client.nats import NatsClient, _intact, _jetstream_error

POLITE = "Drink some water and rest."
RUDE = "You are a stupid idiot and I hate you."


def test_equals_http(service: Service) -> None:
    items: list[Any] = [
        ac.Item(response=f"{POLITE} {k}. {RUDE if k % 2 else ''}", id=f"n{k}") for k in range(100)
    ]

    async def run() -> None:
        async with NatsClient(service.nats, chunk=16) as client, ac.AsyncClient(service.url) as http:
            assert await client.score(items) == await http.score(items)
            with pytest.raises(ac.BadRequestError) as caught:
                await client.score([POLITE, {"nothing": 1}])
            assert caught.value.index == 1
            found = await client.score([POLITE, {"nothing": 1}, RUDE], on_error="nan")
            assert [isinstance(r, ac.Failure) for r in found] == [False, True, False]
            assert len(await client.rewards(["x" * 200_000] * 12)) == 12
            with pytest.raises(ac.BadRequestError) as caught:
                await client.score_one("x" * (9 << 20))
            assert caught.value.status_code == 413
            with pytest.raises(ac.InputError):
                await client.models()
            labels = [ac.FeedbackItem("violation", response=f"{RUDE} over NATS {k}") for k in range(3)]
            assert (await client.feedback(labels)).accepted == 3
            assert (await client.feedback(labels)).duplicates == 3

    asyncio.run(run())


def test_priority(service: Service) -> None:
    async def run() -> None:
        watching = await nats.connect(service.nats)
        asked = await watching.subscribe("assay.v1.score")
        await watching.flush()
        async with NatsClient(service.nats, priority="bulk") as client:
            await client.score_one(POLITE)
            await client.score_one(POLITE, priority="interactive")
        sent = [await asked.next_msg(timeout=10) for _ in range(2)]
        assert [(m.headers or {}).get("Assay-Priority") for m in sent] == ["bulk", "interactive"]
        await watching.close()

    asyncio.run(run())


def test_streams(service: Service) -> None:
    async def run() -> None:
        async with NatsClient(service.nats) as client:
            ids = await client.publish("run7", [ac.Item(response=POLITE, id="s1"), RUDE])
            assert ids[0] == "s1"
            await client.publish("run7", [ac.Item(response=POLITE, id="s1")])
            found = client.results("run7", durable="d")
            first = [await found.__anext__(), await found.__anext__()]
            await found.aclose()  # type: ignore[attr-defined]
            assert {r.id for r in first} == set(ids)
            again = client.results("run7", durable="d")
            assert (await again.__anext__()).id == first[1].id, (
                "it must be redelivered: it was not acknowledged"
            )
            await again.aclose()  # type: ignore[attr-defined]
            ordered = client.results("run7")
            assert [await ordered.__anext__(), await ordered.__anext__()] == first
            await ordered.aclose()  # type: ignore[attr-defined]
            assert first[0].model.version

    asyncio.run(run())


def test_ids(service: Service) -> None:
    items: list[Any] = [{"response": POLITE, "id": ""}, {"response": RUDE, "id": None}, POLITE]

    async def run() -> None:
        async with NatsClient(service.nats) as client:
            ids = await client.publish("ids", items)
            assert len({id for id in ids if id and id != "None"}) == 3
            results = client.results("ids")
            assert {(await results.__anext__()).id for _ in ids} == set(ids)
            await results.aclose()  # type: ignore[attr-defined]
            with pytest.raises(ac.InputError, match="NoneType"):
                await client.publish("ids", [None])  # type: ignore[list-item]

    asyncio.run(run())


@pytest.mark.parametrize("durable", [None, "deleted"])
@pytest.mark.parametrize("waiting", [False, True])
def test_a_deleted_consumer_is_replaced(service: Service, durable: str | None, waiting: bool) -> None:
    name = f"{durable}-{waiting}"

    async def run() -> None:
        nc = await nats.connect(service.nats)
        js = nc.jetstream()
        async with NatsClient(service.nats, retry=5) as client:
            await client.publish(name, [ac.Item(response=POLITE, id="first")])
            results = client.results(name, durable=durable and name)
            assert (await results.__anext__()).id == "first"
            found = await js.consumers_info("ASSAY_REWARDS")
            [consumer] = [c for c in found if c.config.filter_subject == f"assay.v1.rewards.{name}"]
            assert durable or consumer.config.inactive_threshold == 300
            following = asyncio.ensure_future(results.__anext__())
            while waiting and not (await js.consumer_info("ASSAY_REWARDS", consumer.name)).num_waiting:
                await asyncio.sleep(0.01)
            await js.delete_consumer("ASSAY_REWARDS", consumer.name)
            await client.publish(name, [ac.Item(response=POLITE, id="second")])
            ids = [(await following).id]
            while ids[-1] != "second":
                ids.append((await results.__anext__()).id)
            assert ids == (["first", "second"] if durable else ["second"])
            await results.aclose()  # type: ignore[attr-defined]
        await nc.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("code", "err_code", "kind"),
    [
        (400, 10054, ac.BadRequestError),  # message size exceeds maximum allowed
        (404, 10014, ac.NotFoundError),  # consumer not found
        (404, 10059, ac.ServiceUnavailableError),  # stream not found: the service has not started
        (500, 10049, ac.ServiceUnavailableError),
        (503, 10008, ac.ServiceUnavailableError),
        (None, None, ac.ServiceUnavailableError),  # no responders
    ],
)
def test_jetstream_errors(code: int | None, err_code: int | None, kind: type[ac.APIStatusError]) -> None:
    error = _jetstream_error(nats.js.errors.APIError(code, "a description", err_code))
    assert type(error) is kind
    assert error.status_code == (code or 503)
    assert "a description" in str(error)


def test_a_permanent_jetstream_error_is_not_retried(service: Service) -> None:
    async def run() -> None:
        async with NatsClient(service.nats, retry=1) as client:
            with pytest.raises(ac.BadRequestError, match="start sequence"):
                await client.results("run7", first=0).__anext__()

    asyncio.run(run())


def test_a_durable_of_another_run(service: Service) -> None:
    async def run() -> None:
        async with NatsClient(service.nats) as client:
            for name in ("first", "second"):
                await client.publish(name, [ac.Item(response=POLITE, id=name)])
            found = client.results("first", durable="of-first")
            assert (await found.__anext__()).id == "first"
            await found.aclose()  # type: ignore[attr-defined]
            with pytest.raises(ac.InputError, match=r"'of-first' .* assay.v1.rewards.first, not .*second"):
                await client.results("second", durable="of-first").__anext__()
            for run in ("first", ">"):  # it was not acknowledged; the default accepts any filter
                again = client.results(run, durable="of-first")
                assert (await again.__anext__()).id == "first"
                await again.aclose()  # type: ignore[attr-defined]
            nc = await nats.connect(service.nats)
            unfiltered = ConsumerConfig(durable_name="all", ack_policy=AckPolicy.EXPLICIT)
            await nc.jetstream().add_consumer("ASSAY_REWARDS", unfiltered)
            await nc.close()
            with pytest.raises(ac.InputError, match=r"'all' .* >, not"):
                await client.results("second", durable="all").__anext__()

    asyncio.run(run())


def test_damaged_results(service: Service) -> None:
    async def run() -> None:
        async with NatsClient(service.nats) as client:
            await client.publish("dämäged", [ac.Item(response=POLITE, id="s" * 150)])
            results = client.results("dämäged")
            expected = await results.__anext__()
            await results.aclose()  # type: ignore[attr-defined]
            nc = await nats.connect(service.nats)
            js = nc.jetstream()
            reader = await js.pull_subscribe("assay.v1.rewards.dämäged", stream="ASSAY_REWARDS")
            [stored] = await reader.fetch(1)
            headers, data = dict(stored.headers or {}), stored.data

            def intact(
                subject: str = stored.subject, data: bytes = data, headers: dict[str, str] = headers
            ) -> bool:
                return _intact(SimpleNamespace(subject=subject, data=data, headers=headers))

            assert "Assay-Checksum" in headers
            assert intact()
            assert not intact(subject="assay.v1.rewards.dämägec")
            assert not intact(data=data.replace(b'"reward":0', b'"reward":1'))
            assert not intact(headers={**headers, "Assay-Model-Version": "another"})
            assert not intact(headers={**headers, "Assay-Checksum": headers["Assay-Checksum"][::-1]})
            checksum = headers.pop("Assay-Checksum")
            assert intact()  # of an earlier release
            assert not intact(headers={**headers, "Assay-Checksun": checksum})

            headers.update({"Assay-Checksum": checksum, "Nats-Msg-Id": "another"})
            damaged = await js.publish("assay.v1.rewards.dämäged", data, headers=headers)
            await nc.close()
            await client.publish("dämäged", [ac.Item(response=POLITE, id="last")])
            for durable in (None, "damaged"):
                results = client.results("dämäged", durable=durable)
                assert await results.__anext__() == expected
                with pytest.raises(ac.DamagedResultError, match="checksum") as caught:
                    await results.__anext__()
                assert caught.value.sequence == damaged.seq
                results = client.results("dämäged", durable=durable, first=damaged.seq + 1)
                assert (await results.__anext__()).id == "last"
                await results.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_live(service: Service, texts: Texts) -> None:
    async def pieces() -> AsyncIterator[str]:
        for k in range(0, len(texts.rude), 3):
            yield texts.rude[k : k + 3]

    async def run() -> None:
        async with NatsClient(service.nats) as client:
            async with client.live(id="live") as live:
                events = [event async for event in live.events(pieces())]
            scored = await client.score_one(ac.Item(response=texts.rude, id="live"))
            assert live.result is not None
            assert live.result.reward == pytest.approx(scored.reward, abs=5e-3)
            assert live.result.model == scored.model
            assert [e.utterance.text for e in events if e.utterance] == [
                "Drink some water \U0001f600.",
                texts.violation,
            ]
            assert not events[-1].compliant
            with pytest.raises(ac.NotFoundError):
                async with client.live(model="another"):
                    pass
            async with client.live() as live:  # ends without a result
                await live.send(POLITE)
            async with client.live() as live:
                await live.send("x" * (9 << 20))
                with pytest.raises(ac.BadRequestError) as caught:
                    await live.receive(10)
                assert caught.value.status_code == 413

    asyncio.run(run())


def test_live_session_of_a_dead_replica(binary: str, tmp_path: Path) -> None:
    """The NATS server is another process, so that it outlives the replica."""
    hub = Service(binary, tmp_path / "hub", ["--train-auto=false"])
    hub.start()
    replica = Service(binary, tmp_path / "replica", ["--train-auto=false", "--nats-url", hub.nats])
    replica.start()

    async def run() -> None:
        async with NatsClient(hub.nats) as client, AsyncExitStack() as stack:
            # NATS distributes sessions among the replicas at random.
            sessions = [await stack.enter_async_context(client.live()) for _ in range(16)]
            for live in sessions:
                await live.send(POLITE)
                await live.receive(0.1)
            replica.kill()
            outcomes = await asyncio.gather(*(s.finish() for s in sessions), return_exceptions=True)
        failed = [o for o in outcomes if isinstance(o, BaseException)]
        assert 0 < len(failed) < 16
        assert all(isinstance(e, ac.ServiceUnavailableError) and "replica" in str(e) for e in failed)

    try:
        asyncio.run(run())
    finally:
        replica.kill()
        hub.kill()


def test_no_server() -> None:
    async def run() -> None:
        async with NatsClient("nats://127.0.0.1:9", retry=0) as client:
            with pytest.raises(ac.APIConnectionError) as caught:
                await client.score_one("a")
            assert not caught.value.sent
            assert [r.reward for r in await client.score(["a"], on_error=-1.0)] == [-1.0]
        async with NatsClient("nats://127.0.0.1:9") as client:
            with pytest.raises(ac.DeadlineExceededError):
                await client.score_one("a", deadline=0.5)

    asyncio.run(run())


def test_a_restart_of_the_server(binary: str, tmp_path: Path) -> None:
    running = Service(binary, tmp_path, ["--train-auto=false", "--cache-bytes", "0"])
    running.start()
    port = running.nats.rsplit(":", 1)[1]
    running.args += ["--nats-listen", f"127.0.0.1:{port}"]
    items = [ac.Item(response=f"{POLITE} {k}. {RUDE if k % 2 else POLITE}", id=f"s{k}") for k in range(120)]

    def restart() -> None:
        running.kill()
        running.start()

    async def run() -> None:
        async with NatsClient(running.nats, chunk=8, retry=60) as client:
            before = await client.score(items)
            again = threading.Thread(target=restart)
            found = []
            async for r in client.score_iter(items):
                found.append(r)
                if len(found) == 16:
                    again.start()
            assert_same(found, before)
            await asyncio.to_thread(again.join)
            ids = await client.publish("run", items[:20])
            results = client.results("run")
            seen = {(await results.__anext__()).id for _ in range(5)}
            again = threading.Thread(target=restart)
            again.start()
            while len(seen) < 20:
                seen.add((await results.__anext__()).id)
            assert seen == set(ids)
            await asyncio.to_thread(again.join)
            await results.aclose()  # type: ignore[attr-defined]

    try:
        asyncio.run(run())
    finally:
        running.kill()
