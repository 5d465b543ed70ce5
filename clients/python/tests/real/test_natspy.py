"""The `nats-py` package: request-reply, and the streams of responses and rewards."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from conftest import Service, Texts


@pytest.fixture
def nats() -> Any:
    return pytest.importorskip("nats", reason="pip install nats-py")


def test_request(nats: Any, service: Service, texts: Texts) -> None:
    async def ask() -> Any:
        async with await nats.connect(service.nats) as client:
            body = {"responses": [{"response": texts.polite}, {"response": texts.rude}]}
            return json.loads((await client.request("assay.v1.score", json.dumps(body).encode(), 30)).data)

    found = asyncio.run(ask())
    assert [r["reward"] for r in found["results"]] == pytest.approx(texts.rewards(service), abs=5e-3)


def test_streams(nats: Any, service: Service, texts: Texts) -> None:
    async def run() -> list[Any]:
        async with await nats.connect(service.nats) as client:
            stream = client.jetstream()
            rewards = await stream.subscribe("assay.v1.rewards.real", stream="ASSAY_REWARDS")
            for n, text in enumerate((texts.polite, texts.rude)):
                item = json.dumps({"id": f"real-{n}", "response": text}).encode()
                for _ in range(2):  # the second is a duplicate
                    await stream.publish(
                        "assay.v1.responses.real", item, headers={"Nats-Msg-Id": f"real-{n}"}
                    )
            messages = [await rewards.next_msg(30) for _ in range(2)]
            for m in messages:
                await m.ack()
            with pytest.raises(asyncio.TimeoutError):
                await rewards.next_msg(0.5)
            return messages

    messages = asyncio.run(run())
    found = sorted((json.loads(m.data) for m in messages), key=lambda r: str(r["id"]))
    assert [r["id"] for r in found] == ["real-0", "real-1"]
    assert [r["reward"] for r in found] == pytest.approx(texts.rewards(service), abs=5e-3)
    assert all(m.headers["Assay-Model-Version"] for m in messages)


def test_service(nats: Any, service: Service) -> None:
    """The NATS micro service describes itself, as `nats micro ls` requests."""

    async def ask() -> Any:
        async with await nats.connect(service.nats) as client:
            return json.loads((await client.request("$SRV.INFO.assay", b"", 10)).data)

    found = asyncio.run(ask())
    assert found["name"] == "assay"
    assert "assay.v1.score" in [e["subject"] for e in found["endpoints"]]
