"""Requests as bytes and answers as values; no connection is made here."""

from __future__ import annotations

import datetime
import email.utils
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast
from urllib.parse import quote

from ._errors import (
    APIError,
    AuthError,
    BadAnswerError,
    ConflictError,
    InputError,
    InvalidRequestError,
    NotEnabledError,
    NotFoundError,
    ServerError,
    UnavailableError,
)
from ._types import (
    Asked,
    Candidate,
    Current,
    Event,
    FeedbackItem,
    Instance,
    Item,
    ItemLike,
    Model,
    ModelInfo,
    Priority,
    Receipt,
    Rejection,
    Result,
    Training,
    Witness,
)

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

JSON = "application/json"
LINES = "application/x-ndjson"


@dataclass(frozen=True)
class Call:
    """A request. `repeatable`: sending it twice is the same as sending it once."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    repeatable: bool = True
    index: int | None = None  # of the first item in it, among those of the caller
    priority: Priority | None = None

    def headers(self, limit: float) -> dict[str, str]:
        """Those of HTTP for an attempt of limit seconds."""
        given = {"X-Request-Timeout": f"{limit:.3f}"}
        if self.body is not None:
            given["Content-Type"] = self.content_type
        if self.priority:
            given["X-Priority"] = self.priority
        return given


def segment(value: str) -> str:
    """value as one part of a path."""
    if value in ("", ".", ".."):
        raise InputError(f"{value!r} is no id or version")
    return quote(value, safe="")


def encode(value: Any) -> bytes:
    """value as JSON; raises ValueError for what JSON or UTF-8 cannot hold."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def encode_item(item: ItemLike, index: int, prompt: str | None = None) -> bytes:
    if isinstance(item, str):
        value: Any = {"response": item}
    elif isinstance(item, Item):
        value = item.to_json()
    elif isinstance(item, Mapping):
        value = dict(item)
    else:
        raise at(index, InputError(f"item {index} is a {type(item).__name__}; give a str, an Item or a dict"))
    if prompt is not None:
        value["prompt"] = prompt
    try:
        return encode(value)
    except (TypeError, ValueError) as e:
        raise at(index, InputError(f"item {index} cannot be sent as JSON: {e}")) from e


def at(index: int, error: Any) -> Any:
    """error, which is that of the item at index."""
    error.index = index
    return error


def score_call(items: Sequence[bytes], asked: Asked, index: int) -> Call:
    tail = b""
    given = asked.options.to_json()
    if given:
        tail += b',"options":' + encode(given)
    if asked.model:
        tail += b',"model":' + encode(asked.model)
    body = b'{"responses":[' + b",".join(items) + b"]" + tail + b"}"
    return Call("POST", "/v1/score", body, index=index, priority=asked.priority)


def parse_score(body: Any, n: int) -> list[Result]:
    """The results of an answer to n items."""
    results = field(body, "results", list)
    if len(results) != n:
        raise BadAnswerError(f"the service answered {len(results)} results to {n} responses")
    info = field(body, "model", dict)
    model = ModelInfo(field(info, "name", str), field(info, "version", str))
    unit = field(body, "offset_unit", str)
    return [_result(r, model, unit) for r in results]


def _result(r: Any, model: ModelInfo, unit: Any) -> Result:
    w = r.get("witness") if isinstance(r, dict) else None
    instances = r.get("instances") if isinstance(r, dict) else None
    witness = None
    if w is not None:
        witness = Witness(
            field(w, "index", int),
            field(w, "start", int),
            field(w, "end", int),
            field(w, "text", str),
            number(w, "violation"),
            w.get("message"),
        )
    return Result(
        id=field(r, "id", str),
        reward=number(r, "reward"),
        compliant=field(r, "compliant", bool),
        violation=number(r, "violation"),
        threshold=number(r, "threshold"),
        witness=witness,
        instances=None if instances is None else tuple(_instance(i) for i in instances),
        truncated=field(r, "truncated", bool),
        empty=field(r, "empty", bool),
        model=model,
        offset_unit=unit,
        raw=r,
        token_rewards=_token_rewards(r),
        token_offsets=_token_offsets(r),
    )


def _token_rewards(r: Any) -> tuple[float, ...] | None:
    rewards = r.get("token_rewards")
    if rewards is None:
        return None
    if not isinstance(rewards, list) or not all(_is_number(v) for v in rewards):
        raise BadAnswerError("token_rewards of the answer are no numbers")
    return tuple(float(v) for v in rewards)


def _token_offsets(r: Any) -> tuple[tuple[int, int], ...] | None:
    offsets = r.get("token_offsets")
    if offsets is None:
        return None
    try:
        return tuple((int(start), int(end)) for start, end in offsets)
    except (TypeError, ValueError) as e:
        raise BadAnswerError("token_offsets of the answer are no pairs") from e


def _instance(i: Any) -> Instance:
    return Instance(field(i, "start", int), field(i, "end", int), number(i, "violation"), i.get("message"))


def field(value: Any, name: str, kind: type) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise BadAnswerError(f"the answer has no {name} of type {kind.__name__}; is this an assay service?")
    return found


def number(value: Any, name: str) -> float:
    found = value.get(name) if isinstance(value, dict) else None
    if not _is_number(found):
        raise BadAnswerError(f"the answer has no number {name}; is this an assay service?")
    return float(found)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def feedback_lines(items: Iterable[FeedbackItem | Mapping[str, Any]]) -> Iterable[bytes]:
    """Each item as a line of JSON, with an id."""
    for index, item in enumerate(items):
        try:
            value = item.to_json() if isinstance(item, FeedbackItem) else dict(item)
            if not value.get("id") and not value.get("response_id"):
                value["id"] = content_id(value)
            yield encode(value)
        except (TypeError, ValueError) as e:
            raise at(index, InputError(f"item {index} cannot be sent as JSON: {e}")) from e


def content_id(item: Mapping[str, Any]) -> str:
    """An id for a response that has none: the same for the same content."""
    content = {k: item[k] for k in ("prompt", "response", "messages", "instances") if item.get(k) is not None}
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return "sha256-" + hashlib.sha256(text.encode()).hexdigest()[:40]


def feedback_call(lines: Sequence[bytes], index: int) -> Call:
    return Call("POST", "/v1/feedback", b"\n".join(lines) + b"\n", LINES, index=index)


def parse_receipt(body: Any, first: int, n: int) -> Receipt:
    rejected = []
    for r in field(body, "rejected", list):
        index = field(r, "index", int)
        if not 0 <= index < n:
            raise BadAnswerError(f"the service rejected item {index} of {n}")
        rejected.append(
            Rejection(first + index, field(r, "id", str), field(r, "code", str), field(r, "message", str))
        )
    return Receipt(field(body, "accepted", int), field(body, "duplicates", int), tuple(rejected))


def add_receipts(a: Receipt, b: Receipt) -> Receipt:
    return Receipt(a.accepted + b.accepted, a.duplicates + b.duplicates, a.rejected + b.rejected)


def parse_model(body: Any) -> Model:
    return Model(
        field(body, "name", str),
        field(body, "version", str),
        number(body, "threshold"),
        field(body, "serving", bool),
        field(body, "current", bool),
        str(body.get("state", "")),
        body,
    )


def parse_current(body: Any) -> Current:
    return Current(
        field(body, "version", str),
        field(body, "since", str),
        field(body, "by", str),
        field(body, "reason", str),
        tuple(body.get("previous") or ()),
    )


def parse_training(body: Any) -> Training:
    return Training(field(body, "phase", str), str(body.get("id", "")), str(body.get("wait", "")), body)


def parse_models(body: Any) -> list[Model]:
    return [parse_model(m) for m in field(body, "data", list)]


def parse_stats(body: Any) -> Mapping[str, Any]:
    field(body, "bags", int)
    return cast("Mapping[str, Any]", body)


def parse_erased(body: Any) -> int:
    return int(field(body, "records", int))


def parse_candidates(body: Any) -> list[Candidate]:
    return [_candidate(c) for c in field(body, "candidates", list)]


def _candidate(body: Any) -> Candidate:
    return Candidate(
        field(body, "id", str),
        field(body, "model", str),
        number(body, "violation"),
        number(body, "threshold"),
        number(body, "score"),
        body,
    )


def parse_events(body: Any) -> list[Event]:
    if not isinstance(body, list):
        raise BadAnswerError("the answer is no list of events; is this an assay service?")
    return [_event(e) for e in body]


def _event(body: Any) -> Event:
    return Event(
        field(body, "sequence", int),
        field(body, "kind", str),
        field(body, "time", str),
        field(body, "reason", str),
        body,
    )


_BY_STATUS: Mapping[int, type[APIError]] = {
    401: AuthError,
    403: AuthError,
    404: NotFoundError,
    408: UnavailableError,
    409: ConflictError,
    425: UnavailableError,
    429: UnavailableError,
    501: NotEnabledError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def decode(status: int, headers: Mapping[str, str], body: bytes, call: Call, url: str) -> Any:
    """The JSON of an answer; raises what its status means."""
    if not 200 <= status < 300:
        _refuse(status, headers, body, call, url)
    try:
        return json.loads(body)
    except ValueError as e:
        raise BadAnswerError(
            f"{call.method} {url}{call.path} answered {status} without valid JSON: {e}"
        ) from e


def _refuse(status: int, headers: Mapping[str, str], body: bytes, call: Call, url: str) -> NoReturn:
    try:
        said = json.loads(body)["error"]
        code, message = str(said["code"]), str(said["message"])
        name, request_id = str(said.get("field", "")), str(said.get("request_id", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        code, name, request_id = "", "", ""
        message = body[:200].decode(errors="replace").strip() or "no explanation"
    if 300 <= status < 400:
        message = f"it redirects to {headers.get('location', 'nowhere')}; give that address"
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else InvalidRequestError)
    where = f"{name}: " if name else ""
    error = kind(
        f"{call.method} {url}{call.path} answered {status} {code}: {where}{message}",
        status=status,
        code=code,
        field=name,
        request_id=request_id,
        retry_after=_seconds(headers.get("retry-after")),
    )
    found = re.match(r"(?:responses|items)\[(\d+)\]", name)
    if found and call.index is not None:
        error.index = call.index + int(found.group(1))
    raise error


def _seconds(retry_after: str | None) -> float | None:
    """Retry-After: seconds, or a date."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(int(retry_after)))
    except ValueError:
        pass
    try:
        when = email.utils.parsedate_to_datetime(retry_after)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return max(0.0, (when - datetime.datetime.now(datetime.timezone.utc)).total_seconds())


def reason(text: str | None, **more: Any) -> bytes | None:
    """The body of a change: why."""
    given = {"reason": text, **more}
    given = {k: v for k, v in given.items() if v is not None}
    return encode(given) if given else None


def change(path: str, body: bytes | None) -> Call:
    """A call that must not be made twice."""
    return Call("POST", path, body, repeatable=False)
