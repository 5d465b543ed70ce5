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


def private_token(url: str) -> str | None:
    """The token in the data directory of the service at url, or None.

    The directory is $ASSAY_DATA_DIR, else the default of `assay serve`. The
    token is only for services on this machine.
    """
    if not may_receive_private_token(url):
        return None
    try:
        return (_data_dir() / "token").read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None  # missing, or owned by another user: the service responds with 401


def may_receive_private_token(url: str) -> bool:
    """Whether url is a service on this machine, without credentials of its own."""
    parts = urlsplit(url)
    return "," not in url and not parts.username and is_this_machine(parts.hostname or "")


def is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# Variables that name a directory for data, and what is below it, by system.
_HOMES: dict[str, dict[str, tuple[str, ...]]] = {
    "win32": {"LOCALAPPDATA": ()},
    "darwin": {"HOME": ("Library", "Application Support")},
}
_UNIX_HOMES = {"XDG_DATA_HOME": (), "HOME": (".local", "share")}


def _data_dir() -> Path:
    """The default data directory of `assay serve`."""
    if from_env := os.environ.get("ASSAY_DATA_DIR"):
        return Path(from_env)
    for variable, below in _HOMES.get(sys.platform, _UNIX_HOMES).items():
        base = os.environ.get(variable, "")
        if os.path.isabs(base) and base != "/":
            return Path(base, *below, "assay")
    return Path("assay-data")
