"""Which HTTP status an error has."""

from hames.domain import errors
from hames.domain.value import Value

STATUS: dict[type[errors.HarnessError], int] = {
    errors.HarnessError: 500,
    errors.InvalidCommand: 400,
    errors.NotFound: 404,
    errors.NotPermitted: 403,
    errors.TurnBusy: 409,
    errors.QueueFull: 409,
    errors.ThreadInUse: 409,
    errors.ThreadReadOnly: 409,
}


class Problem(Value):
    message: str
    info: str = "Other"


class Failure(Value):
    """The body of every answer that is none."""

    error: Problem


def status(error: errors.HarnessError) -> int:
    """The most specific number we have."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
