"""The `openai` package: moderations, embeddings, models."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Service, Texts

# A forwarded request from another machine requires a token.
FORWARDED = {"X-Forwarded-For": "10.1.2.3"}


@pytest.fixture
def openai() -> Any:
    return pytest.importorskip("openai", reason="pip install openai")


@pytest.fixture
def client(openai: Any, service: Service) -> Any:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_moderations(client: Any, service: Service, texts: Texts) -> None:
    kind, rude = client.moderations.create(
        input=[texts.polite, texts.rude], model="omni-moderation-latest"
    ).results
    want = texts.rewards(service)
    assert (kind.flagged, rude.flagged) == (False, True)
    assert rude.categories.to_dict()["violation"] is True
    assert rude.category_scores.to_dict()["violation"] == pytest.approx(1 - want[1], abs=5e-3)
    witness = rude.to_dict()["witness"]
    assert texts.rude[witness["start"] : witness["end"]] == witness["text"] == texts.violation
    part = [{"type": "text", "text": texts.rude}]
    assert client.moderations.create(input=part).results[0].flagged


def test_embeddings(client: Any, service: Service, texts: Texts) -> None:
    # Without encoding_format, the package requests base64 and decodes it.
    for form in ({}, {"encoding_format": "float"}):
        found = client.embeddings.create(model="assay", input=[texts.polite, texts.rude], **form).data
        assert [d.index for d in found] == [0, 1]
        assert [d.embedding[-1] for d in found] == pytest.approx(texts.rewards(service), abs=5e-3)
        assert all(sum(d.embedding) == pytest.approx(1, abs=1e-5) for d in found)


def test_models(client: Any) -> None:
    (model,) = client.models.list().data
    assert model.object == "model"
    assert client.models.retrieve(model.id).id == model.id


def test_failures(openai: Any, client: Any) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.moderations.create(input=[])
    assert caught.value.param == "input"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-version")


def test_tokens(openai: Any, guarded: Service, secret: str, texts: Texts) -> None:
    def ask(key: str) -> Any:
        with openai.OpenAI(
            base_url=f"{guarded.url}/v1", api_key=key, max_retries=0, default_headers=FORWARDED
        ) as client:
            return client.moderations.create(input=texts.rude).results[0].flagged

    assert ask(secret)
    with pytest.raises(openai.AuthenticationError):
        ask("a-token-that-nobody-has")
