"""Failures of the service, the network and the caller raise typed errors and never make up rewards."""

from __future__ import annotations

import json
import math
import pickle
import socket
import time
from dataclasses import replace
from typing import Any

import pytest
from conftest import Caller, Faulty, Handler, drop, error, good, half, hang, trickle

import assay_client as ac

FAST = ac.Retry(budget=5.0, initial_backoff=0.01, max_backoff=0.05)


def numbered(n: int) -> list[str]:
    return [f"response #{k:04d}" for k in range(1, n + 1)]


def expected(n: int) -> list[float]:
    return [float(f"0.{k:04d}") for k in range(1, n + 1)]


@pytest.mark.parametrize(
    "fault",
    [drop, half, error(502, "bad_gateway"), error(503, "unavailable"), error(504, "deadline_exceeded")],
)
def test_transient_faults_are_retried(faulty: Faulty, call: Caller, fault: Any) -> None:
    faulty.script = [fault, fault]
    assert call(faulty.url, "rewards", numbered(2), settings={"retry": FAST}) == expected(2)
    assert len(faulty.requests) == 3


def test_retry_after_is_honored(faulty: Faulty, call: Caller) -> None:
    faulty.script = [error(503, "overloaded", Retry_After="1")]
    began = time.monotonic()
    assert call(faulty.url, "rewards", numbered(1), settings={"retry": FAST}) == expected(1)
    assert time.monotonic() - began >= 1.0


def test_retry_after_beyond_the_budget_fails_immediately(faulty: Faulty, call: Caller) -> None:
    faulty.default = error(503, "overloaded", Retry_After="60")
    began = time.monotonic()
    with pytest.raises(ac.ServiceUnavailableError) as caught:
        call(faulty.url, "rewards", numbered(1), settings={"retry": FAST})
    assert time.monotonic() - began < 3
    assert (caught.value.status_code, caught.value.code, caught.value.retry_after) == (
        503,
        "overloaded",
        60.0,
    )


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ac.BadRequestError),
        (401, ac.AuthenticationError),
        (403, ac.PermissionDeniedError),
        (404, ac.NotFoundError),
        (409, ac.ConflictError),
        (415, ac.BadRequestError),
        (500, ac.InternalServerError),
        (501, ac.NotEnabledError),
        (307, ac.BadRequestError),
    ],
)
def test_permanent_failures_are_not_retried(faulty: Faulty, call: Caller, status: int, kind: Any) -> None:
    faulty.default = error(status, "scripted")
    with pytest.raises(kind) as caught:
        call(faulty.url, "rewards", numbered(3), settings={"retry": FAST})
    assert len(faulty.requests) == 1
    assert caught.value.request_id == "r-1"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.status_code, str(again)) == (kind, status, str(caught.value))


def proxy_error(h: Handler) -> None:
    h.send(503, b"upstream connect error or disconnect/reset before headers")


@pytest.mark.parametrize(
    "fault",
    [
        drop,
        error(502, "bad_gateway"),
        error(503, "unavailable"),  # the store may have applied it
        error(503, "idle"),
        proxy_error,
        error(429, ""),
        error(504, "deadline_exceeded"),
    ],
)
def test_a_rollback_that_may_be_applied_is_not_retried(faulty: Faulty, call: Caller, fault: Any) -> None:
    faulty.default = fault
    with pytest.raises(ac.AssayError):
        call(faulty.url, "rollback", settings={"retry": FAST})
    assert len(faulty.requests) == 1


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (429, "rate_limited"),
        (503, "overloaded"),
        (503, "not_ready"),
        (503, "shutting_down"),
        (503, "store_full"),
    ],
)
def test_a_rollback_that_was_refused_is_retried(faulty: Faulty, call: Caller, status: int, code: str) -> None:
    current = {"version": "v1", "since": "2026-01-01T00:00:00Z", "by": "me", "reason": "why"}
    faulty.script = [error(status, code)]
    faulty.default = lambda h: h.send(200, current)
    assert call(faulty.url, "rollback", "why", settings={"retry": FAST}).version == "v1"
    assert json.loads(faulty.requests[1][2]) == {"reason": "why"}


def test_no_connection(call: Caller) -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{s.getsockname()[1]}"
        with pytest.raises(ac.APIConnectionError) as caught:
            call(url, "rewards", ["a"], settings={"retry": 0})
    assert not caught.value.sent


@pytest.mark.parametrize("fault", [hang, trickle])
def test_an_attempt_times_out(faulty: Faulty, call: Caller, fault: Any) -> None:
    faulty.default = fault
    began = time.monotonic()
    with pytest.raises(ac.APITimeoutError):
        call(faulty.url, "rewards", ["a"], settings={"retry": 0, "timeout": 0.3})
    assert time.monotonic() - began < 30


def test_the_deadline_limits_all_attempts(faulty: Faulty, call: Caller) -> None:
    faulty.default = error(503, "not_ready")
    began = time.monotonic()
    with pytest.raises(ac.DeadlineExceededError) as caught:
        call(faulty.url, "rewards", ["a"], deadline=2, settings={"retry": replace(FAST, budget=60)})
    assert time.monotonic() - began < 30
    assert len(faulty.requests) >= 2  # more than one attempt within one deadline
    assert not isinstance(caught.value, TimeoutError), "trainers turn a TimeoutError into a reward of 0"


def test_the_timeout_is_sent_to_the_service(faulty: Faulty, call: Caller) -> None:
    call(faulty.url, "rewards", ["a"], deadline=7)
    assert 6 < float(faulty.requests[0][1]["X-Request-Timeout"]) <= 7


def no_results(h: Handler) -> None:
    h.send(200, {"model": {"name": "m", "version": "v"}, "offset_unit": "codepoint", "results": []})


def null_reward(h: Handler) -> None:
    h.send(200, h_body(h).replace(b'"reward": 0.5', b'"reward": null'))


def nan_reward(h: Handler) -> None:
    h.send(200, h_body(h).replace(b'"reward": 0.5', b'"reward": NaN'))


def h_body(h: Handler) -> bytes:
    from conftest import results

    return json.dumps(results(h.body)).encode()


def html_page(h: Handler) -> None:
    h.send(200, b"<html>welcome</html>")


@pytest.mark.parametrize("reply", [no_results, null_reward, nan_reward, html_page])
def test_invalid_responses(faulty: Faulty, call: Caller, reply: Any) -> None:
    faulty.default = reply
    with pytest.raises(ac.InvalidResponseError):
        call(faulty.url, "rewards", ["a"], settings={"retry": FAST})
    assert len(faulty.requests) == 3


def test_only_invalid_responses_count_as_such(faulty: Faulty, call: Caller) -> None:
    faulty.script = [drop, error(502, "bad_gateway"), drop, html_page, drop, html_page]
    assert call(faulty.url, "rewards", numbered(1), settings={"retry": FAST}) == expected(1)
    assert len(faulty.requests) == 7


def test_on_error(faulty: Faulty, call: Caller) -> None:
    faulty.default = error(503, "overloaded")
    settings = {"retry": 0, "chunk": 2}
    found = call(faulty.url, "rewards", numbered(3), on_error="nan", settings=settings)
    assert len(found) == 3
    assert all(math.isnan(r) for r in found)
    assert call(faulty.url, "rewards", numbered(3), on_error=-1.0, settings=settings) == [-1.0] * 3
    first = call(faulty.url, "score", numbered(1), on_error=-1.0, settings=settings)[0]
    assert isinstance(first.error, ac.ServiceUnavailableError)


def test_on_error_affects_only_the_failed_chunk(faulty: Faulty) -> None:
    def reply(h: Handler) -> None:
        if b"#0003" in h.body:
            error(503, "overloaded")(h)
        else:
            good(h)

    faulty.default = reply
    with ac.Client(faulty.url, retry=0, chunk=2) as client:
        assert client.rewards(numbered(5), on_error=9.0) == [*expected(2), 9.0, 9.0, expected(5)[4]]


@pytest.mark.parametrize("status", [400, 500])
def test_an_invalid_item_does_not_affect_the_others(faulty: Faulty, call: Caller, status: int) -> None:
    def reply(h: Handler) -> None:
        items = json.loads(h.body)["responses"]
        bad = [k for k, item in enumerate(items) if "#0006" in item["response"]]
        if bad:
            error(status, "scripted", f"responses[{bad[0]}].response" if status == 400 else "")(h)
        else:
            good(h)

    faulty.default = reply
    found = call(faulty.url, "rewards", numbered(10), on_error="nan", settings={"retry": 0})
    want = expected(10)
    assert math.isnan(found[5])
    assert found[:5] + found[6:] == want[:5] + want[6:]


def test_an_error_has_the_index_of_the_item(faulty: Faulty, call: Caller) -> None:
    def reply(h: Handler) -> None:
        if b"#0008" in h.body:
            error(400, "invalid", "responses[1].response")(h)
        else:
            good(h)

    faulty.default = reply
    with pytest.raises(ac.BadRequestError) as caught:
        call(faulty.url, "rewards", numbered(10), settings={"chunk": 3})
    assert caught.value.index == 7


def test_a_request_that_is_too_large_is_split(faulty: Faulty, call: Caller) -> None:
    def reply(h: Handler) -> None:
        if len(json.loads(h.body)["responses"]) > 3:
            error(413, "too_large")(h)
        else:
            good(h)

    faulty.default = reply
    assert call(faulty.url, "rewards", numbered(10)) == expected(10)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_on_error_does_not_hide_an_invalid_token_or_model(faulty: Faulty, call: Caller, status: int) -> None:
    faulty.default = error(status, "scripted")
    with pytest.raises(ac.APIStatusError):
        call(faulty.url, "rewards", numbered(3), on_error="nan")


def test_invalid_input(faulty: Faulty, call: Caller) -> None:
    for bad in ("a lone \ud800 surrogate", {"response": "x", "metadata": {1, 2}}, 7):
        with pytest.raises(ac.InputError) as caught:
            call(faulty.url, "rewards", ["a", bad])
        assert caught.value.index == 1
    found = call(faulty.url, "rewards", ["#1", "\ud800", "#3"], on_error="nan")
    assert found[0] == 0.1
    assert math.isnan(found[1])
    assert found[2] == 0.3
    with pytest.raises(TypeError, match="score_one"):
        call(faulty.url, "rewards", "one string")
    for prompts in (["p"], ["p", "q", "r"]):
        with pytest.raises(ValueError, match="prompts than items"):
            call(faulty.url, "rewards", ["a", "b"], prompts=prompts)
    with pytest.raises(ValueError, match="on_error"):
        call(faulty.url, "rewards", ["a"], on_error="zero")


def test_invalid_settings() -> None:
    for bad in ("localhost:8080", "ftp://host", "http://", "http://host/?a=b"):
        with pytest.raises(ValueError, match="invalid url"):
            ac.Client(bad)
    with pytest.raises(ValueError, match="timeout"):
        ac.Client(timeout=0)
    assert "secret" not in repr(vars(ac.Client(token="secret")))
