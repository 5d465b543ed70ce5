"""The `huggingface_hub` package: InferenceClient with the endpoint of Text Embeddings Inference."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Service, Texts


@pytest.fixture
def hub() -> Any:
    return pytest.importorskip("huggingface_hub", reason="pip install huggingface_hub")


def test_text_classification(hub: Any, service: Service, texts: Texts) -> None:
    client = hub.InferenceClient(f"{service.url}/predict")
    for text, want in zip((texts.polite, texts.rude), texts.rewards(service)):
        found = client.text_classification(text)
        scores = {one.label: one.score for one in found}
        assert scores["compliant"] == pytest.approx(want, abs=5e-3)
        assert found[0].label == ("compliant" if want > 0.5 else "violation")
        assert found[0].score >= found[1].score


def test_asynchronous(hub: Any, service: Service, texts: Texts) -> None:
    import asyncio

    async def ask() -> Any:
        async with hub.AsyncInferenceClient(f"{service.url}/predict") as client:
            return await asyncio.gather(*(client.text_classification(texts.rude) for _ in range(8)))

    assert {found[0].label for found in asyncio.run(ask())} == {"violation"}


def test_failures(hub: Any, service: Service) -> None:
    with pytest.raises(hub.errors.HfHubHTTPError) as caught:
        hub.InferenceClient(f"{service.url}/no-such-path").text_classification("a")
    assert caught.value.response.status_code == 404


def test_tokens(hub: Any, guarded: Service, secret: str, texts: Texts) -> None:
    def ask(token: str) -> Any:
        headers = {"X-Forwarded-For": "10.1.2.3"}
        return hub.InferenceClient(
            f"{guarded.url}/predict", token=token, headers=headers
        ).text_classification(texts.rude)

    assert ask(secret)[0].label == "violation"
    with pytest.raises(hub.errors.HfHubHTTPError) as caught:
        ask("a-token-that-nobody-has")
    assert caught.value.response.status_code == 401
