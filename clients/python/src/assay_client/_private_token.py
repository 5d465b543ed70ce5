"""The token of a private service on this machine (`assay serve --private`)."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import httpx


class PrivateToken(httpx.Auth):
    """Authenticates with the private token, read for each request: a restart of the service replaces it."""

    def __init__(self, url: str) -> None:
        self._url = url

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if token := private_token(self._url):
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


def private_token(url: str, data_dir: str | os.PathLike[str] | None = None) -> str | None:
    """The token in the data directory of the service at url, or None.

    The directory is data_dir, $ASSAY_DATA_DIR, or the default of `assay
    serve`. The token is only for services on this machine.
    """
    if not may_receive_private_token(url):
        return None
    try:
        return (Path(data_dir or _data_dir()) / "token").read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None  # missing, or owned by another user: the service responds with 401


def may_receive_private_token(url: str) -> bool:
    """Whether url is a service on this machine, without credentials of its own."""
    parts = urlsplit(url)
    return "," not in url and not parts.username and _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _data_dir() -> Path:
    """The default data directory of `assay serve`."""
    if from_env := os.environ.get("ASSAY_DATA_DIR"):
        return Path(from_env)
    base = os.environ.get("XDG_DATA_HOME", "")
    if sys.platform != "darwin" and os.path.isabs(base) and base != "/":
        return Path(base) / "assay"
    home = os.environ.get("HOME", "")
    if os.path.isabs(home) and home != "/":
        below = ("Library", "Application Support") if sys.platform == "darwin" else (".local", "share")
        return Path(home, *below, "assay")
    return Path("assay-data")
