"""The Python client of KServe, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
from conftest import Service, Texts


@pytest.fixture
def kserve() -> Any:
    return pytest.importorskip("kserve", reason="pip install kserve")


def test_rest(kserve: Any, service: Service, texts: Texts) -> None:
    from kserve.inference_client import RESTConfig

    async def ask() -> tuple[Any, ...]:
        client = kserve.InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
        try:
            text = kserve.InferInput("text", [2], "BYTES", data=[texts.polite, texts.rude])
            request = kserve.InferRequest("assay", [text], request_id="r-8")
            return (
                await client.is_server_live(service.url),
                await client.is_server_ready(service.url),
                await client.is_model_ready(service.url, "assay"),
                await client.infer(service.url, request, model_name="assay"),
            )
        finally:
            await client.close()

    live, ready, model, found = asyncio.run(ask())
    assert live
    assert ready
    assert model
    assert found.id == "r-8"
    reward = found.outputs[0]
    assert (reward.name, reward.datatype) == ("reward", "FP32")
    assert reward.as_numpy().ravel().tolist() == pytest.approx(texts.rewards(service), abs=5e-3)


def test_grpc(kserve: Any, binary: str, texts: Texts, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    running = Service(binary, tmp_path, ["--train-auto=false", "--grpc-listen", address])
    running.start()

    async def ask() -> tuple[Any, ...]:
        client = kserve.InferenceGRPCClient(address)
        try:
            text = kserve.InferInput("text", [2], "BYTES", data=[texts.polite.encode(), texts.rude.encode()])
            return (
                await client.is_server_ready(),
                await client.is_model_ready("assay"),
                await client.infer(kserve.InferRequest("assay", [text], request_id="r-10")),
            )
        finally:
            await client.close()

    try:
        ready, model, found = asyncio.run(ask())
        assert ready
        assert model
        assert found.id == "r-10"
        assert found.outputs[0].as_numpy().ravel().tolist() == pytest.approx(texts.rewards(running), abs=5e-3)
    finally:
        running.kill()
