"""The messages of a live session, without any I/O."""

from __future__ import annotations

import json
import math
from typing import Any

from . import _wire
from ._errors import InvalidResponseError
from ._types import LiveEvent, LiveUtterance, Options, Result

REQUEST = _wire.Request("GET", "/v1/live")
CLOSE = b'{"close":{}}'

# The status of an error that ends a session, by its code; 500 for all others.
_STATUSES = {
    "invalid": 400,
    "unauthorized": 401,
    "insufficient_scope": 403,
    "not_found": 404,
    "too_large": 413,
    "unprocessable": 422,
    "not_enabled": 501,
    "overloaded": 503,
    "shutting_down": 503,
    "not_ready": 503,
    "idle": 503,
    "deadline_exceeded": 504,
}


def open_message(
    id: str | None, prompt: str | None, model: str | None, options: Options, provisional: int, most: int
) -> bytes:
    given: dict[str, Any] = {
        "id": id,
        "prompt": prompt,
        "model": model,
        "options": options.to_json(),
        "provisional_tokens": provisional,
        "max_utterances": most,
    }
    return _wire.encode({"open": {k: v for k, v in given.items() if v}})


def text_message(text: str) -> bytes:
    return _wire.encode({"text": text})


def parse(message: bytes | str, url: str) -> LiveEvent | Result:
    """The event or result in a message from the service; raises the error that it holds."""
    try:
        body = json.loads(message)
    except ValueError as e:
        raise InvalidResponseError(f"the live session sent invalid JSON: {e}") from e
    if not isinstance(body, dict):
        raise InvalidResponseError("the live session sent JSON that is not an object")
    if "error" in body:
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        raw = message.encode() if isinstance(message, str) else message
        _wire.decode(_wire.RawResponse(_STATUSES.get(str(code), 500), {}, raw), REQUEST, url)
    if "result" in body:
        model = _wire.parse_model_info(_wire.field(body, "model", dict))
        return _wire.parse_result(body["result"], model, _wire.field(body, "offset_unit", str))
    if "reset" in body:
        reset = _wire.field(body, "reset", dict)
        return LiveEvent(True, None, 0.0, math.nan, True, False, int(reset.get("index", 0)), body)
    found = _wire.field(body, "utterance", dict)
    utterance = LiveUtterance(
        _wire.field(found, "index", int),
        _wire.field(found, "start", int),
        _wire.field(found, "end", int),
        _wire.field(found, "text", str),
        _wire.number(found, "violation"),
        bool(found.get("provisional")),
        bool(found.get("violating")),
    )
    return LiveEvent(
        False,
        utterance,
        _wire.number(body, "violation"),
        _wire.number(body, "reward"),
        _wire.field(body, "compliant", bool),
        _wire.field(body, "stop", bool),
        0,
        body,
    )
