"""The numbers of ACP's errors."""

from hames.codecs.jsonrpc_peer import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from hames.domain.errors import (
    ErrorInfo,
    HarnessError,
    InvalidCommand,
    Misconfigured,
    NotFound,
    NotPermitted,
    ProviderError,
    QueueFull,
    StorageFailed,
    ThreadInUse,
    ThreadReadOnly,
    TurnBusy,
    UnknownMethod,
)

AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
REQUEST_CANCELLED = -32800


class AuthRequired(HarnessError):
    """The client has to let the user sign in first."""

    info: ErrorInfo = "Unauthorized"


def error_code(error: HarnessError) -> int:
    match error:
        case UnknownMethod():
            return METHOD_NOT_FOUND
        case InvalidCommand():
            return INVALID_PARAMS
        case NotFound():
            return RESOURCE_NOT_FOUND
        case AuthRequired() | Misconfigured():
            return AUTH_REQUIRED
        case TurnBusy() | QueueFull() | ThreadInUse() | ThreadReadOnly() | NotPermitted():
            return INVALID_REQUEST
        case StorageFailed():
            return INTERNAL_ERROR
        case ProviderError(info="Unauthorized"):
            return AUTH_REQUIRED
        case _:
            return INTERNAL_ERROR


def turn_error_code(info: ErrorInfo) -> int:
    """For a turn that failed."""
    return AUTH_REQUIRED if info == "Unauthorized" else INTERNAL_ERROR
