"""Errors in the shape of OpenAI's APIs."""

from hames.domain import errors
from hames.domain.errors import ErrorInfo, HarnessError
from hames.domain.json import Json

_STATUS: dict[type[HarnessError], tuple[int, str]] = {
    HarnessError: (500, "server_error"),
    errors.InvalidCommand: (400, "invalid_request_error"),
    errors.UnknownModel: (404, "invalid_request_error"),
    errors.NotFound: (404, "invalid_request_error"),
    errors.NotPermitted: (403, "permission_error"),
    errors.TurnBusy: (409, "invalid_request_error"),
    errors.QueueFull: (409, "invalid_request_error"),
    errors.ThreadInUse: (409, "invalid_request_error"),
    errors.ThreadReadOnly: (409, "invalid_request_error"),
}
_TURNS: dict[ErrorInfo, tuple[int, str]] = {
    "UsageLimitExceeded": (429, "rate_limit_exceeded"),
    "ServerOverloaded": (503, "server_error"),
    "ContextWindowExceeded": (400, "context_length_exceeded"),
    "ModelNotFound": (404, "model_not_found"),
    "BadRequest": (400, "invalid_prompt"),
}
"""What a failed turn is: HTTP's number, and a code. Anything else is the server's fault."""


_HTTP = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "unknown_url"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


class InvalidParameter(errors.InvalidCommand):
    """`param` is its name."""

    def __init__(self, message: str, param: str, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


def error_status(error: HarnessError) -> int:
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)[0]


def error_body(error: HarnessError) -> Json:
    kind = next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)[1]
    code = "model_not_found" if isinstance(error, errors.UnknownModel) else None
    if isinstance(error, InvalidParameter):
        return _body(str(error), kind, error.code, error.param)
    return _body(str(error), kind, code)


def http_error(status: int, message: str) -> Json:
    """A refusal before the request was looked at: of its token, its path or its size."""
    kind, code = _HTTP.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return _body(message, kind, code)


def _body(message: str, kind: str, code: str | None, param: str | None = None) -> Json:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def turn_error(info: ErrorInfo) -> tuple[int, str]:
    return _TURNS.get(info, (502, "server_error"))
