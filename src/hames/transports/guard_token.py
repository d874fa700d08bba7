"""The token: who may come in from outside this machine.

It is kept in a file that only its owner reads, and compared in constant time. A browser comes in through a link
that works once and leaves a cookie, so that the token itself is never in an address.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from hames.domain.errors import Misconfigured
from hames.ports import Clock
from hames.private_files import private_directory

SUBPROTOCOL = "harness.v1"
BEARER_SUBPROTOCOL = "harness.bearer."
TOKEN_FILE = "token"
LEAST_CHARS = 16
LINK_SECONDS = 15 * 60.0
LINKS = 64


class Keyring:
    """Knows a token when it sees one. The token itself is not kept."""

    def __init__(self, token: str, clock: Clock) -> None:
        self._token = _digest(token)
        self._cookie_value = hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()
        self._cookie = _digest(self._cookie_value)
        self._links: dict[bytes, float] = {}
        self._clock = clock

    @property
    def cookie(self) -> str:
        return self._cookie_value

    def opens(self, token: str) -> bool:
        return hmac.compare_digest(_digest(token), self._token)

    def is_cookie(self, value: str) -> bool:
        return hmac.compare_digest(_digest(value), self._cookie)

    def link(self) -> str:
        """A word that opens the page once, within a quarter of an hour."""
        self._forget()
        while len(self._links) >= LINKS:
            del self._links[next(iter(self._links))]
        word = secrets.token_urlsafe(32)
        self._links[_digest(word)] = self._clock.monotonic() + LINK_SECONDS
        return word

    def take_link(self, word: str) -> bool:
        """Whether it is one of ours; it is used up by asking."""
        self._forget()
        return self._links.pop(_digest(word), None) is not None

    def _forget(self) -> None:
        now = self._clock.monotonic()
        self._links = {word: until for word, until in self._links.items() if until > now}


def _digest(text: str) -> bytes:
    """Digests have one length, so that comparing them tells nothing of the token's."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def token_in(directory: Path) -> str:
    """The token of this data directory, made when there is none. Raises `Misconfigured`."""
    path = directory / TOKEN_FILE
    try:
        private_directory(directory)
        return _read(path) if path.exists() else _made(path)
    except OSError as why:
        raise Misconfigured(f"the token file {str(path)!r} cannot be used: {why.strerror}") from None


def _made(path: Path) -> str:
    token = secrets.token_urlsafe(32)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return _read(path)
    with os.fdopen(fd, "w") as file:
        file.write(token + "\n")
    return token


def _read(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise Misconfigured(f"{str(path)!r} can be read by others; make it 0600 and your own, or remove it")
        return checked(file.read(4096).decode("ascii", "replace").strip())


def checked(token: str) -> str:
    """Raises `Misconfigured` for one that could be guessed."""
    if len(token) < LEAST_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise Misconfigured(f"a token has at least {LEAST_CHARS} printable ASCII characters and no space")
    return token
