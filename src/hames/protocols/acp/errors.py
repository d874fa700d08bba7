"""The numbers of ACP's errors."""

from hames.codecs.jsonrpc_peer import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from hames.domain import errors

AUTH_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002
REQUEST_CANCELLED = -32800


class AuthRequired(errors.HarnessError):
    """The client has to let the user sign in first."""

    info: errors.ErrorInfo = "Unauthorized"


def error_code(error: errors.HarnessError) -> int:
    match error:
        case errors.UnknownMethod():
            return METHOD_NOT_FOUND
        case errors.InvalidCommand():
            return INVALID_PARAMS
        case errors.NotFound():
            return RESOURCE_NOT_FOUND
        case AuthRequired() | errors.Misconfigured():
            return AUTH_REQUIRED
        case (
            errors.TurnBusy()
            | errors.QueueFull()
            | errors.ThreadInUse()
            | errors.ThreadReadOnly()
            | errors.NotPermitted()
        ):
            return INVALID_REQUEST
        case errors.StorageFailed():
            return INTERNAL_ERROR
        case errors.ProviderError(info="Unauthorized"):
            return AUTH_REQUIRED
        case _:
            return INTERNAL_ERROR


def turn_error_code(info: errors.ErrorInfo) -> int:
    """For a turn that failed."""
    return AUTH_REQUIRED if info == "Unauthorized" else INTERNAL_ERROR
