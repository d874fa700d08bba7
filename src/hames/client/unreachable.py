"""Errors of clients: no server could be reached, or the connection was closed."""


class Unreachable(Exception):
    """There is no server to talk to, and why. `code` is the exit code of what should have become one."""

    def __init__(self, why: str, code: int = 1) -> None:
        super().__init__(why)
        self.code = code


class ConnectionClosed(Exception):
    """The server is gone; nobody will answer."""
