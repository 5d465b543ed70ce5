"""The exceptions of this package. Each is an `AssayError`."""

from __future__ import annotations


class AssayError(Exception):
    """Base class: the call failed and there is no reward.

    `index` is the position of the offending item in the caller's input, or
    None where the error does not concern a single item.
    """

    index: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)


class InputError(AssayError, ValueError):
    """An argument cannot be sent to the service. Nothing was sent."""


class APIConnectionError(AssayError):
    """The service is unreachable, or the connection failed before the response was complete.

    `sent` is False where the service cannot have received the request.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class APITimeoutError(APIConnectionError):
    """An attempt took longer than the `timeout` of the client."""


class DeadlineExceededError(AssayError):
    """The `deadline` of the call passed.

    It does not derive from TimeoutError because some trainers turn a
    TimeoutError into a reward of 0.
    """


class InvalidResponseError(AssayError):
    """The response is not a valid assay response: malformed JSON, or missing or invalid values."""


class DamagedResultError(InvalidResponseError):
    """A stored result is not as assay wrote it: its checksum differs, so its reward cannot be trusted.

    `sequence` is its sequence number in the stream `ASSAY_REWARDS`.
    """

    def __init__(self, message: str, *, sequence: int) -> None:
        super().__init__(message)
        self.sequence = sequence


class APIStatusError(AssayError):
    """The service responded with an error status.

    `code` is machine-readable (`overloaded`, `invalid`, ...), `field` is the
    path of the offending value in the request, and `request_id` identifies
    the request in the log of the service. `retry_after` is in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        status_code: int = 0,
        code: str = "",
        field: str = "",
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.code = code
        self.field = field
        self.request_id = request_id
        self.retry_after = retry_after


class BadRequestError(APIStatusError):
    """400, 405, 413, 415, 422: the request is invalid."""


class AuthenticationError(APIStatusError):
    """401: the token is missing or unknown."""


class PermissionDeniedError(APIStatusError):
    """403: the token lacks the required scope."""


class NotFoundError(APIStatusError):
    """404: the model or resource does not exist, or the URL is not that of an assay service."""


class ConflictError(APIStatusError):
    """409: the current state of the models does not allow the operation."""


class NotEnabledError(APIStatusError):
    """501: feedback and training are disabled on this service."""


class ServiceUnavailableError(APIStatusError):
    """408, 425, 429, 502, 503, 504: a transient failure that outlasted the retries."""


class InternalServerError(APIStatusError):
    """500: the model or the service failed on this request."""


class RejectedError(AssayError):
    """The service rejected some feedback items. It stored the others."""
