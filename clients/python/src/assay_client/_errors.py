"""What can go wrong. Every error of this package is an `AssayError`."""

from __future__ import annotations


class AssayError(Exception):
    """A call failed; there is no reward.

    `index` is the position of the offending item among those that were
    passed, where one item is to blame.
    """

    index: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)


class InputError(AssayError, ValueError):
    """What was passed cannot be sent; nothing was."""


class NoAnswerError(AssayError):
    """The service could not be reached, or the connection broke or stalled.

    `sent` is False where the service cannot have seen the request.
    """

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class DeadlineError(AssayError):
    """The deadline of the call passed.

    It is no TimeoutError: some trainers turn that into a reward of 0.
    """


class BadAnswerError(AssayError):
    """The answer is not what assay answers: broken JSON, or a wrong number of results."""


class APIError(AssayError):
    """The service answered with an error.

    `code` is for programs (`overloaded`, `invalid`, ...), `field` the path of
    the offending value, `request_id` what the service's log has it under.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        field: str = "",
        request_id: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field
        self.request_id = request_id
        self.retry_after = retry_after


class InvalidRequestError(APIError):
    """400, 405, 413, 415, 422: the request itself is wrong."""


class AuthError(APIError):
    """401, 403: a token is missing, unknown or has not the scope."""


class NotFoundError(APIError):
    """404: no such model, or not an assay service."""


class ConflictError(APIError):
    """409: the models are not in a state in which this can be done."""


class NotEnabledError(APIError):
    """501: the service keeps no feedback and trains nothing."""


class UnavailableError(APIError):
    """408, 425, 429, 502, 503, 504: not now. It went on for longer than the retries."""


class ServerError(APIError):
    """500: the model or the service failed on this request."""


class RejectedError(AssayError):
    """Items of feedback were rejected; the others are stored."""
