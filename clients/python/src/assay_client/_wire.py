"""Encoding of requests and decoding of responses, without any I/O."""

from __future__ import annotations

import datetime
import email.utils
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast
from urllib.parse import quote

from ._errors import (
    APIStatusError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    InputError,
    InternalServerError,
    InvalidResponseError,
    NotEnabledError,
    NotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
)
from ._types import (
    AspectResult,
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
    ScoreSettings,
    Training,
    Witness,
)

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

JSON = "application/json"
NDJSON = "application/x-ndjson"


@dataclass(frozen=True)
class Request:
    """An HTTP request. An idempotent one has the same effect whether it is sent once or twice."""

    method: str
    path: str
    body: bytes | None = None
    content_type: str = JSON
    idempotent: bool = True
    first: int | None = None  # position in the caller's input of the first item in the body
    priority: Priority | None = None

    def headers(self, timeout: float) -> dict[str, str]:
        """The HTTP headers of an attempt with this timeout in seconds."""
        headers = {"X-Request-Timeout": f"{timeout:.3f}"}
        if self.body is not None:
            headers["Content-Type"] = self.content_type
        if self.priority:
            headers["X-Priority"] = self.priority
        return headers


class RawResponse(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def path_segment(value: str) -> str:
    """value, escaped for use as one segment of a URL path."""
    if value in ("", ".", ".."):
        raise InputError(f"invalid id or version: {value!r}")
    return quote(value, safe="")


def encode(value: Any) -> bytes:
    """value as JSON; raises ValueError for what JSON or UTF-8 cannot represent."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def item_fields(item: ItemLike, index: int) -> dict[str, Any]:
    """The fields of an item, as a new dict."""
    if isinstance(item, str):
        return {"response": item}
    if isinstance(item, Item):
        return item.to_json()
    if isinstance(item, Mapping):
        return dict(item)
    kind = type(item).__name__
    raise _with_index(InputError(f"item {index} has type {kind}; pass a str, an Item or a dict"), index)


def encode_item(item: ItemLike, index: int, prompt: str | None = None) -> bytes:
    value = item_fields(item, index)
    if prompt is not None:
        value["prompt"] = prompt
    try:
        return encode(value)
    except (TypeError, ValueError) as e:
        raise _with_index(InputError(f"item {index} cannot be encoded as JSON: {e}"), index) from e


def _with_index(error: InputError, index: int) -> InputError:
    error.index = index
    return error


def score_request(items: Sequence[bytes], settings: ScoreSettings, first: int) -> Request:
    tail = b""
    options = settings.options.to_json()
    if options:
        tail += b',"options":' + encode(options)
    if settings.model:
        tail += b',"model":' + encode(settings.model)
    body = b'{"responses":[' + b",".join(items) + b"]" + tail + b"}"
    return Request("POST", "/v1/score", body, first=first, priority=settings.priority)


def parse_score(body: Any, n: int) -> list[Result]:
    """The results in the response to a request of n items."""
    results = field(body, "results", list)
    if len(results) != n:
        raise InvalidResponseError(f"the service returned {len(results)} results for {n} responses")
    model = parse_model_info(field(body, "model", dict))
    unit = field(body, "offset_unit", str)
    return [parse_result(r, model, unit) for r in results]


def parse_model_info(info: Any) -> ModelInfo:
    numerics = info.get("numerics", "")
    return ModelInfo(field(info, "name", str), field(info, "version", str), str(numerics))


def parse_result(r: Any, model: ModelInfo, unit: Any) -> Result:
    instances = r.get("instances") if isinstance(r, dict) else None
    return Result(
        id=field(r, "id", str),
        reward=number(r, "reward"),
        compliant=field(r, "compliant", bool),
        violation=number(r, "violation"),
        threshold=number(r, "threshold"),
        witness=_witness(r),
        instances=None if instances is None else tuple(_instance(i) for i in instances),
        truncated=field(r, "truncated", bool),
        empty=field(r, "empty", bool),
        model=model,
        offset_unit=unit,
        raw=r,
        token_rewards=_token_rewards(r),
        token_offsets=_token_offsets(r),
        aspect=r.get("aspect"),
        aspects=None if r.get("aspects") is None else _aspects(r),
    )


def _witness(r: Any) -> Witness | None:
    w = r.get("witness") if isinstance(r, dict) else None
    if w is None:
        return None
    return Witness(
        field(w, "index", int),
        field(w, "start", int),
        field(w, "end", int),
        field(w, "text", str),
        number(w, "violation"),
        w.get("message"),
    )


def _aspects(r: Any) -> dict[str, AspectResult]:
    return {
        name: AspectResult(
            reward=number(a, "reward"),
            compliant=field(a, "compliant", bool),
            violation=number(a, "violation"),
            threshold=number(a, "threshold"),
            witness=_witness(a),
        )
        for name, a in field(r, "aspects", dict).items()
    }


def _token_rewards(r: Any) -> tuple[float, ...] | None:
    rewards = r.get("token_rewards")
    if rewards is None:
        return None
    if not isinstance(rewards, list) or not all(_is_number(v) for v in rewards):
        raise InvalidResponseError("invalid response: token_rewards is not a list of finite numbers")
    return tuple(float(v) for v in rewards)


def _token_offsets(r: Any) -> tuple[tuple[int, int], ...] | None:
    offsets = r.get("token_offsets")
    if offsets is None:
        return None
    try:
        return tuple((int(start), int(end)) for start, end in offsets)
    except (TypeError, ValueError) as e:
        raise InvalidResponseError("invalid response: token_offsets is not a list of pairs") from e


def _instance(i: Any) -> Instance:
    return Instance(
        field(i, "start", int),
        field(i, "end", int),
        number(i, "violation"),
        i.get("message"),
        _violations(i) if "aspects" in i else None,
    )


def _violations(i: Any) -> dict[str, float]:
    aspects = field(i, "aspects", dict)
    return {name: number(aspects, name) for name in aspects}


def field(value: Any, name: str, kind: type) -> Any:
    """The value of a required field; raises where it is missing or not of this type."""
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise _missing(name, kind.__name__)
    return found


def number(value: Any, name: str) -> float:
    """The value of a required numeric field."""
    found = value.get(name) if isinstance(value, dict) else None
    if not _is_number(found):
        raise _missing(name, "finite number")
    return float(found)


def _missing(name: str, kind: str) -> InvalidResponseError:
    return InvalidResponseError(
        f"invalid response: no field {name} of type {kind}; check that the URL is that of an assay service"
    )


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def feedback_lines(items: Iterable[FeedbackItem | Mapping[str, Any]]) -> Iterable[bytes]:
    """Each item as a line of NDJSON, with an id."""
    for index, item in enumerate(items):
        try:
            value = item.to_json() if isinstance(item, FeedbackItem) else dict(item)
            if not value.get("id") and not value.get("response_id"):
                value["id"] = content_id(value)
            yield encode(value)
        except (TypeError, ValueError) as e:
            raise _with_index(InputError(f"item {index} cannot be encoded as JSON: {e}"), index) from e


def content_id(item: Mapping[str, Any]) -> str:
    """A deterministic id for a response without one, derived from its content."""
    content = {k: item[k] for k in ("prompt", "response", "messages", "instances") if item.get(k) is not None}
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return "sha256-" + hashlib.sha256(text.encode()).hexdigest()[:40]


def feedback_request(lines: Sequence[bytes], first: int) -> Request:
    return Request("POST", "/v1/feedback", b"\n".join(lines) + b"\n", NDJSON, first=first)


def parse_receipt(body: Any, first: int, n: int) -> Receipt:
    rejected = []
    for r in field(body, "rejected", list):
        index = field(r, "index", int)
        if not 0 <= index < n:
            raise InvalidResponseError(f"invalid response: rejected item {index} of {n}")
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


def parse_response_labels(body: Any) -> Mapping[str, Any]:
    field(body, "labels", list)
    return cast("Mapping[str, Any]", body)


def parse_erasure(body: Any) -> int:
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
        raise InvalidResponseError("invalid response: not a list of events")
    return [_event(e) for e in body]


def _event(body: Any) -> Event:
    return Event(
        field(body, "sequence", int),
        field(body, "kind", str),
        field(body, "time", str),
        field(body, "reason", str),
        body,
    )


_ERROR_TYPES: Mapping[int, type[APIStatusError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: ServiceUnavailableError,
    409: ConflictError,
    425: ServiceUnavailableError,
    429: ServiceUnavailableError,
    501: NotEnabledError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: ServiceUnavailableError,
}


def error_type(status: int) -> type[APIStatusError]:
    """The error that a status stands for."""
    return _ERROR_TYPES.get(status, InternalServerError if status >= 500 else BadRequestError)


def decode(response: RawResponse, request: Request, url: str) -> Any:
    """The JSON value of a response; raises the error that its status stands for."""
    if not 200 <= response.status < 300:
        _raise_for_status(response, request, url)
    try:
        return json.loads(response.body)
    except ValueError as e:
        raise InvalidResponseError(
            f"{request.method} {url}{request.path}: {response.status} with invalid JSON: {e}"
        ) from e


def _raise_for_status(response: RawResponse, request: Request, url: str) -> NoReturn:
    status, headers, body = response
    try:
        payload = json.loads(body)["error"]
        code, message = str(payload["code"]), str(payload["message"])
        path, request_id = str(payload.get("field", "")), str(payload.get("request_id", ""))
    except (ValueError, TypeError, KeyError, AttributeError):
        code, path, request_id = "", "", ""
        message = body[:200].decode(errors="replace").strip() or "empty response body"
    if 300 <= status < 400:
        message = f"redirect to {headers.get('location', 'an unspecified location')}; use that URL"
    kind = error_type(status)
    details = ": ".join(part for part in (f"{status} {code}".strip(), path, message) if part)
    error = kind(
        f"{request.method} {url}{request.path}: {details}",
        status_code=status,
        code=code,
        field=path,
        request_id=request_id,
        retry_after=_retry_after(headers.get("retry-after")),
    )
    item = re.match(r"(?:responses|items)\[(\d+)\]", path)
    if item and request.first is not None:
        error.index = request.first + int(item.group(1))
    raise error


def _retry_after(value: str | None) -> float | None:
    """Seconds until a Retry-After header, which holds seconds or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        when = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.timezone.utc)
    return max(0.0, (when - datetime.datetime.now(datetime.timezone.utc)).total_seconds())


def admin_request(path: str, **fields: Any) -> Request:
    """A POST that changes models or training. It is not idempotent."""
    given = {k: v for k, v in fields.items() if v is not None}
    return Request("POST", path, encode(given) if given else None, idempotent=False)
