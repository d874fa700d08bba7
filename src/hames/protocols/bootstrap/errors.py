"""The JSON-RPC error codes of bootstrap. The same numbers mean other things in other protocols."""

from hames.domain import errors

CODES: dict[type[errors.HarnessError], int] = {
    errors.HarnessError: -32603,
    errors.InvalidCommand: -32602,
    errors.UnknownMethod: -32601,
    errors.ThreadNotFound: -32001,
    errors.TurnBusy: -32002,
    errors.ThreadInUse: -32002,  # busy too, in another process
    errors.TurnNotFound: -32003,
    errors.ApprovalNotFound: -32004,
    errors.NotPermitted: -32010,
}


def code(error: errors.HarnessError) -> int:
    """The most specific number we have."""
    return next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
