"""The settings of a client."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx

from ._private_token import PrivateToken, is_this_machine, may_receive_private_token
from ._retry import Retry
from ._types import Options, Priority, ScoreSettings
from ._version import __version__

MAX_IDLE_CONNECTIONS = 64
IDLE_TIMEOUT = 30.0  # seconds


@dataclass(frozen=True)
class Config:
    """Validated settings of a client; see `Client` for their meaning."""

    url: str
    token: str | None = field(repr=False)
    model: str | None
    options: Options
    timeout: float
    retry: Retry
    chunk: int
    chunk_bytes: int
    concurrency: int
    priority: Priority | None = None

    def http_settings(self) -> dict[str, object]:
        """Arguments of httpx.Client and httpx.AsyncClient."""
        headers = {"User-Agent": f"assay-client/{__version__}", "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        private = not self.token and may_receive_private_token(self.url)
        return {
            "base_url": self.url,
            "headers": headers,
            "limits": httpx.Limits(
                max_connections=None,
                max_keepalive_connections=MAX_IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_TIMEOUT,
            ),
            # Requests to this machine bypass the proxy of the environment.
            "trust_env": not _is_local(self.url),
            "auth": PrivateToken(self.url) if private else None,
            "verify": tls_context(),
        }

    def score_settings(
        self, options: Options | None, model: str | None, priority: Priority | None
    ) -> ScoreSettings:
        """The settings of a call; the client's own apply where the call does not set them."""
        return ScoreSettings(
            (options or Options()).with_defaults(self.options),
            model or self.model,
            _validated(priority) or self.priority,
        )

    def may_use_proxy(self) -> bool:
        """Whether a proxy from the environment may apply to the service."""
        return not _is_local(self.url) and bool(getproxies())


def tls_context() -> ssl.SSLContext:
    """The TLS of https services: ASSAY_CA is a file of CA certificates that replaces those
    of the system, ASSAY_CERT and ASSAY_KEY are the files of a client certificate."""
    context = httpx.create_ssl_context()
    if ca := os.environ.get("ASSAY_CA"):
        context = ssl.create_default_context(cafile=ca)
    if cert := os.environ.get("ASSAY_CERT"):
        context.load_cert_chain(cert, os.environ.get("ASSAY_KEY") or None)
    return context


def configure(
    url: str | None,
    token: str | None,
    model: str | None,
    options: Options | None,
    timeout: float,
    retry: Retry | float | None,
    chunk: int,
    chunk_bytes: int,
    concurrency: int,
    priority: Priority | None = None,
) -> Config:
    """Applies defaults and the environment; raises ValueError for an invalid setting."""
    url = (url or os.environ.get("ASSAY_URL") or "http://127.0.0.1:8080").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"invalid url {url!r}: use http://HOST:PORT")
    for name, value in (
        ("timeout", timeout),
        ("chunk", chunk),
        ("chunk_bytes", chunk_bytes),
        ("concurrency", concurrency),
    ):
        if not value > 0:
            raise ValueError(f"invalid {name} {value!r}: must be greater than 0")
    if not isinstance(retry, Retry):
        retry = Retry() if retry is None else Retry(budget=retry)
    return Config(
        url,
        token or os.environ.get("ASSAY_TOKEN"),
        model,
        options or Options(),
        timeout,
        retry,
        chunk,
        chunk_bytes,
        concurrency,
        _validated(priority),
    )


def _validated(priority: Priority | None) -> Priority | None:
    if priority not in (None, "interactive", "bulk"):
        raise ValueError(f"invalid priority {priority!r}: use 'interactive' or 'bulk'")
    return priority


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return is_this_machine(host) or host.endswith(".localhost")
