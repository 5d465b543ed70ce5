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
    """Sends the token, read for each request: a service has another one after a restart."""

    def __init__(self, url: str) -> None:
        self._url = url

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if token := private_token(self._url):
            request.headers["Authorization"] = f"Bearer {token}"
        yield request


def private_token(url: str) -> str | None:
    """The token in the data directory of a service at url, None without one.

    The directory is $ASSAY_DATA_DIR, else the default of `assay serve`. Only a
    service on this machine ever sees the token.
    """
    if not may_see_token(url):
        return None
    try:
        return (_data_dir() / "token").read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None  # there is none, or it is another user's: the service says so


def may_see_token(url: str) -> bool:
    """Whether url is a service on this machine, without credentials of its own."""
    parts = urlsplit(url)
    return "," not in url and not parts.username and on_this_machine(parts.hostname or "")


def on_this_machine(host: str) -> bool:
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
    """Where `assay serve` keeps its data without --data-dir."""
    if given := os.environ.get("ASSAY_DATA_DIR"):
        return Path(given)
    for variable, below in _HOMES.get(sys.platform, _UNIX_HOMES).items():
        base = os.environ.get(variable, "")
        if os.path.isabs(base) and base != "/":
            return Path(base, *below, "assay")
    return Path("assay-data")
