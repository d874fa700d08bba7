"""The error codes of flint, in each of the two shapes.

Codex knows hardly more than "invalid request", and reads -32001 as an overloaded server that one
asks again: its clients must never see flint's number for an unknown thread.
"""

from hames.domain import errors

FLINT: dict[type[errors.HarnessError], int] = {
    errors.HarnessError: -32603,
    errors.InvalidCommand: -32602,
    errors.UnknownMethod: -32601,
    errors.NotFound: -32602,
    errors.ThreadNotFound: -32001,
    errors.TurnBusy: -32002,
    errors.ThreadInUse: -32002,  # busy too, in another process
    errors.TurnNotFound: -32003,
    errors.NotPermitted: -32010,
}

CODEX: dict[type[errors.HarnessError], int] = {
    errors.HarnessError: -32603,
    errors.InvalidCommand: -32600,
    errors.UnknownMethod: -32601,
    errors.NotFound: -32600,
    errors.TurnBusy: -32600,
    errors.ThreadInUse: -32600,
    errors.ThreadReadOnly: -32600,
    errors.QueueFull: -32600,
    errors.Misconfigured: -32600,
    errors.NotPermitted: -32600,
}


def code(error: errors.HarnessError, table: dict[type[errors.HarnessError], int]) -> int:
    """The most specific number we have."""
    return next(table[kind] for kind in type(error).__mro__ if kind in table)
