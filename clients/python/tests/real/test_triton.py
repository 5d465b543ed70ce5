"""The `tritonclient` package over HTTP, with JSON and binary tensors, and over gRPC."""

from __future__ import annotations

import queue
import socket
from pathlib import Path
from typing import Any

import pytest
from conftest import Service, Texts


@pytest.fixture
def http() -> Any:
    return pytest.importorskip("tritonclient.http", reason="pip install 'tritonclient[http]'")


@pytest.fixture
def client(http: Any, service: Service) -> Any:
    made = http.InferenceServerClient(service.url.split("//")[1], concurrency=4)
    yield made
    made.close()


def texts_input(library: Any, name: str, values: list[str], as_bytes: bool | None = None) -> Any:
    import numpy as np

    tensor = library.InferInput(name, [len(values)], "BYTES")
    form = {} if as_bytes is None else {"binary_data": as_bytes}  # gRPC has only one form
    tensor.set_data_from_numpy(np.array([v.encode() for v in values], dtype=object), **form)
    return tensor


@pytest.mark.parametrize("as_bytes", [False, True])
def test_infer(http: Any, client: Any, service: Service, texts: Texts, as_bytes: bool) -> None:
    inputs = [texts_input(http, "text", [texts.polite, texts.rude], as_bytes)]
    names = ("reward", "compliant", "witness_start", "witness_end", "witness_text")
    outputs = [http.InferRequestedOutput(name, binary_data=as_bytes) for name in names]
    found = client.infer("assay", inputs, outputs=outputs, request_id="r-7")
    assert found.get_response()["id"] == "r-7"
    reward = found.as_numpy("reward")
    assert reward.dtype.name == "float32"
    assert reward.ravel().tolist() == pytest.approx(texts.rewards(service), abs=5e-3)
    start, end = (int(found.as_numpy(n).ravel()[1]) for n in ("witness_start", "witness_end"))
    said = found.as_numpy("witness_text").ravel()[1]
    assert (said.decode() if isinstance(said, bytes) else said) == texts.violation == texts.rude[start:end]


def test_asynchronous(http: Any, client: Any, texts: Texts) -> None:
    asked = [client.async_infer("assay", [texts_input(http, "text", [texts.rude], True)]) for _ in range(8)]
    assert all(a.get_result().as_numpy("reward")[0] < 0.5 for a in asked)


def test_control(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("assay")
    metadata = client.get_model_metadata("assay")
    assert ("text", "BYTES") in [(i["name"], i["datatype"]) for i in metadata["inputs"]]
    assert client.get_model_config("assay")["name"] == "assay"
    assert client.get_model_repository_index()
    client.load_model("assay")


def test_failures(http: Any, client: Any) -> None:
    import numpy as np
    from tritonclient.utils import InferenceServerException

    ids = http.InferInput("text", [2], "INT64")
    ids.set_data_from_numpy(np.array([1, 2]))
    with pytest.raises(InferenceServerException, match="inputs"):
        client.infer("assay", [ids])
    with pytest.raises(InferenceServerException):
        client.unload_model("assay")
    assert not client.is_model_ready("assay", "no-such-version")


def test_tokens(http: Any, guarded: Service, secret: str, texts: Texts) -> None:
    from tritonclient.utils import InferenceServerException

    client = http.InferenceServerClient(guarded.url.split("//")[1])
    try:
        headers = {"X-Forwarded-For": "10.1.2.3", "Authorization": f"Bearer {secret}"}
        inputs = [texts_input(http, "text", [texts.rude], True)]
        assert client.infer("assay", inputs, headers=headers).as_numpy("reward")[0] < 0.5
        with pytest.raises(InferenceServerException):
            client.infer("assay", inputs, headers={"X-Forwarded-For": "10.1.2.3"})
    finally:
        client.close()


def test_grpc(binary: str, texts: Texts, tmp_path: Path) -> None:
    grpc = pytest.importorskip("tritonclient.grpc", reason="pip install 'tritonclient[grpc]'")
    from tritonclient.utils import InferenceServerException

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    running = Service(binary, tmp_path, ["--train-auto=false", "--grpc-listen", address])
    running.start()
    client = grpc.InferenceServerClient(address)
    try:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("assay")
        assert next(i.name for i in client.get_model_metadata("assay").inputs) == "text"
        inputs = [texts_input(grpc, "text", [texts.polite, texts.rude])]
        found = client.infer("assay", inputs, request_id="r-9")
        assert found.get_response().id == "r-9"
        want = texts.rewards(running)
        assert found.as_numpy("reward").ravel().tolist() == pytest.approx(want, abs=5e-3)
        results: queue.Queue[Any] = queue.Queue()
        client.async_infer("assay", inputs, callback=lambda result, error: results.put((result, error)))
        result, error = results.get(timeout=30)
        assert error is None
        assert result.as_numpy("reward").ravel().tolist() == pytest.approx(want, abs=5e-3)
        with pytest.raises(InferenceServerException):
            client.infer("assay", inputs, model_version="no-such-version")
    finally:
        client.close()
        running.kill()
