"""TLS: a certificate and its key from two files, read again when they change.

A new pair is tried on its own first. If it is no good the old one stays, and a warning says why; connections that are
open keep the pair they began with.
"""

import logging
import ssl
from pathlib import Path

from hames.domain.errors import Misconfigured
from hames.ports import Clock

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0

_Stamp = tuple[tuple[int, int, int], ...]


class Certificate:
    def __init__(self, cert: str, key: str) -> None:
        """Raises `Misconfigured` for files that cannot be used."""
        self._cert = cert
        self._key = key
        self._seen = self._stamp()
        try:
            self.newest = self._load()
        except (OSError, ValueError) as why:
            raise Misconfigured(
                f"the certificate {cert!r} with the key {key!r} cannot be used: {_reason(why)}"
            ) from None
        self.context = self._load()
        """What a listener needs. Every handshake takes the newest pair."""
        self.context.sni_callback = self._choose  # called for clients that name no server as well

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self.newest

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._cert, self._key, password=lambda: "")  # without this it asks on the terminal
        return context

    async def watch(self, clock: Clock) -> None:
        """Never returns."""
        while True:
            await clock.sleep(LOOK_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Takes the pair anew if the files have changed."""
        found = self._stamp()
        if found == self._seen:
            return
        self._seen = found
        try:
            self.newest = self._load()
        except (OSError, ValueError) as why:
            log.warning("tls.not_reloaded", extra={"cert": self._cert, "key": self._key, "why": _reason(why)})
        else:
            log.info("tls.reloaded", extra={"cert": self._cert})

    def _stamp(self) -> _Stamp:
        found: list[tuple[int, int, int]] = []
        for path in (self._cert, self._key):
            try:
                status = Path(path).stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_ino, status.st_mtime_ns, status.st_size))
        return tuple(found)


def _reason(why: OSError | ValueError) -> str:
    if isinstance(why, ssl.SSLError):
        if "KEY_VALUES_MISMATCH" in str(why):
            return "the key does not belong to the certificate"
        return f"it is not a certificate and a key in PEM format without a password ({why.reason or 'unreadable'})"
    return (why.strerror if isinstance(why, OSError) else None) or str(why)
