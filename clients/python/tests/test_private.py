"""The token of a private service on this machine is found, and goes nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from assay_client import Client
from assay_client._config import configure
from assay_client._private import private_token

LOCAL = ["http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:8080/", "nats://127.0.0.9:4222"]
ELSEWHERE = [
    "http://10.0.0.1:8080",
    "http://assay:8080",
    "http://localhost.example",
    "http://a.localhost",
    "nats://user:password@127.0.0.1",
    "nats://127.0.0.1:4222,nats://10.0.0.1:4222",
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("ASSAY_TOKEN", raising=False)
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


def token_of(url: str, token: str | None = None) -> str | None:
    """What the service at url is sent."""
    sent: list[str | None] = []

    def service(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("Authorization"))
        return httpx.Response(200)

    given: Any = configure(url, token, None, None, 1.0, None, 1, 1, 1).http()
    with httpx.Client(**given, transport=httpx.MockTransport(service)) as client:
        client.get("/")
    return sent[0].removeprefix("Bearer ") if sent[0] else None


@pytest.mark.usefixtures("data")
def test_the_environment_names_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in LOCAL:
        assert private_token(url) == "secret"
    assert token_of("http://127.0.0.1:8080") == "secret"
    assert token_of("http://127.0.0.1:8080", "given") == "given"
    monkeypatch.setenv("ASSAY_TOKEN", "from-the-environment")
    assert token_of("http://127.0.0.1:8080") == "from-the-environment"
    assert "secret" not in repr(vars(Client()))


@pytest.mark.usefixtures("data")
def test_other_machines_never_see_it() -> None:
    for url in ELSEWHERE:
        assert private_token(url) is None, url
    assert token_of("http://10.0.0.1:8080") is None


def test_a_restart_of_the_service_replaces_it(data: Path) -> None:
    sent: list[str | None] = []

    def service(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("Authorization"))
        (data / "token").write_text("another\n")
        return httpx.Response(200)

    given: Any = configure("http://127.0.0.1:8080", None, None, None, 1.0, None, 1, 1, 1).http()
    with httpx.Client(**given, transport=httpx.MockTransport(service)) as client:
        client.get("/")
        client.get("/")
    assert sent == ["Bearer secret", "Bearer another"]


def test_without_a_token_none_is_sent(data: Path) -> None:
    (data / "token").unlink()
    assert token_of("http://127.0.0.1:8080") is None


@pytest.mark.parametrize(
    ("system", "variable", "below"),
    [
        ("linux", "XDG_DATA_HOME", ""),
        ("linux", "HOME", ".local/share"),
        ("darwin", "HOME", "Library/Application Support"),
        ("win32", "LOCALAPPDATA", ""),
    ],
)
def test_default_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, variable: str, below: str
) -> None:
    for name in ("ASSAY_DATA_DIR", "XDG_DATA_HOME", "HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setenv(variable, str(tmp_path))
    directory = tmp_path / below / "assay"
    directory.mkdir(parents=True)
    (directory / "token").write_text("by default")
    assert private_token("http://127.0.0.1:8080") == "by default"
