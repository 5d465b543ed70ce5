"""Client of assay, a reward-model service for RLHF.

    from assay_client import Client

    with Client("http://127.0.0.1:8080") as assay:
        for r in assay.score(["Drink some water.", "You are an idiot."]):
            print(r.reward, r.compliant, r.witness and r.witness.text)

A call that fails raises an `AssayError`. The client never makes up a reward
unless `on_error` says so.
"""

from . import dense
from ._async.client import AsyncClient
from ._async.live import AsyncLive
from ._errors import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AssayError,
    AuthenticationError,
    BadRequestError,
    ConflictError,
    DamagedResultError,
    DeadlineExceededError,
    InputError,
    InternalServerError,
    InvalidResponseError,
    NotEnabledError,
    NotFoundError,
    PermissionDeniedError,
    RejectedError,
    ServiceUnavailableError,
)
from ._retry import Retry
from ._sync.client import Client
from ._sync.live import Live
from ._types import (
    AspectResult,
    Candidate,
    Current,
    Event,
    Failure,
    FeedbackItem,
    Instance,
    Item,
    LiveEvent,
    LiveUtterance,
    Model,
    ModelInfo,
    Options,
    Receipt,
    Rejection,
    Result,
    Training,
    Witness,
)
from ._version import __version__

__all__ = [
    "APIConnectionError",
    "APIStatusError",
    "APITimeoutError",
    "AspectResult",
    "AssayError",
    "AsyncClient",
    "AsyncLive",
    "AuthenticationError",
    "BadRequestError",
    "Candidate",
    "Client",
    "ConflictError",
    "Current",
    "DamagedResultError",
    "DeadlineExceededError",
    "Event",
    "Failure",
    "FeedbackItem",
    "InputError",
    "Instance",
    "InternalServerError",
    "InvalidResponseError",
    "Item",
    "Live",
    "LiveEvent",
    "LiveUtterance",
    "Model",
    "ModelInfo",
    "NotEnabledError",
    "NotFoundError",
    "Options",
    "PermissionDeniedError",
    "Receipt",
    "RejectedError",
    "Rejection",
    "Result",
    "Retry",
    "ServiceUnavailableError",
    "Training",
    "Witness",
    "__version__",
    "dense",
]
