"""Client of assay: rewards for the responses of language models.

    from assay_client import Client

    with Client("http://127.0.0.1:8080") as assay:
        for r in assay.score(["Drink some water.", "You are an idiot."]):
            print(r.reward, r.compliant, r.witness and r.witness.text)

A call that fails raises an `AssayError`; there is never a reward that nobody
computed, unless `on_error` asks for one.
"""

from . import dense
from ._aio import AsyncClient
from ._errors import (
    APIError,
    AssayError,
    AuthError,
    BadAnswerError,
    ConflictError,
    DeadlineError,
    InputError,
    InvalidRequestError,
    NoAnswerError,
    NotEnabledError,
    NotFoundError,
    RejectedError,
    ServerError,
    UnavailableError,
)
from ._retry import Retry
from ._sync import Client
from ._types import (
    Candidate,
    Current,
    Event,
    Failure,
    FeedbackItem,
    Instance,
    Item,
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
    "APIError",
    "AssayError",
    "AsyncClient",
    "AuthError",
    "BadAnswerError",
    "Candidate",
    "Client",
    "ConflictError",
    "Current",
    "DeadlineError",
    "Event",
    "Failure",
    "FeedbackItem",
    "InputError",
    "Instance",
    "InvalidRequestError",
    "Item",
    "Model",
    "ModelInfo",
    "NoAnswerError",
    "NotEnabledError",
    "NotFoundError",
    "Options",
    "Receipt",
    "RejectedError",
    "Rejection",
    "Result",
    "Retry",
    "ServerError",
    "Training",
    "UnavailableError",
    "Witness",
    "__version__",
    "dense",
]
