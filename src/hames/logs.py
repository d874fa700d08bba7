"""Logs: JSON lines on stderr or in a file, never on stdout, which belongs to the wire. Secrets are taken out.

`log.info("turn.ended", extra={"turn_id": turn_id})`: an event name and fields, not a sentence with holes.
"""

import logging
import os
import sys

from hames.deferred import pattern
from hames.domain.errors import Misconfigured

_STANDARD = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}
_SECRETS = pattern(
    r"(sk-[A-Za-z0-9_-]{8,}"
    r"|(?i:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"
    r"|(?i:x-api-key|api[_-]?key|authorization|password|token|secret)[\"']?\s*[:=]\s*[\"']?[^\s\"',}]{4,}"
    r"|(?<=://)[^/\s:@]{1,256}:[^/\s@]{1,256}(?=@))"
)


def redacted(text: str) -> str:
    """The text without what looks like a key.

    >>> redacted("x-api-key: abcdef")
    '[secret]'
    """
    return _SECRETS.sub("[secret]", text)


class JsonLines(logging.Formatter):
    """One record, one line: a newline in a client's string cannot forge another."""

    def format(self, record: logging.LogRecord) -> str:
        import json

        fields = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        entry = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **fields,
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return redacted(json.dumps(entry, default=str, ensure_ascii=True))


def set_up(*, level: str, file: str) -> None:
    """Called once, by the program; the library leaves logging to its host. Raises `Misconfigured`."""
    if file:
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except (OSError, ValueError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else str(problem)
            raise Misconfigured(f"logs cannot be written to {file!r}: {why}") from None
        handler: logging.Handler = logging.FileHandler(file, encoding="utf-8")
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx2", "httpcore2", "httpx", "httpcore", "asyncio", "mcp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
