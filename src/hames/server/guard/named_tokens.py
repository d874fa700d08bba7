"""Tokens for other people and programs: each has a name, a role, and perhaps an end.

Only hashes are kept, in a file of mode 0600 in the state directory. `hames tokens` writes it, a running server looks
whether it has changed, so that a revoked token is refused at once.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Generator
from pathlib import Path

import msgspec

from hames.codecs.jsontext import encode
from hames.domain.errors import InvalidCommand, Misconfigured
from hames.domain.roles import Role
from hames.domain.tokens import NamedToken
from hames.domain.value import Value
from hames.ports import Clock
from hames.private_files import descriptor, open_private, write_private

FILE = "tokens.json"
PREFIX = "hames_"
"""How every named token begins: one that is not known (any more) is told apart from no token at all."""
OWNER = "owner"
FILE_BYTES = 1 << 20
TAKEN = "there is a token {name!r} already; revoke it first: hames tokens revoke {name}"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class _Kept(Value):
    tokens: tuple[NamedToken, ...] = ()


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def make_token(name: str, role: Role, *, now_ms: int, lasts_ms: int = 0) -> tuple[str, NamedToken]:
    """A new token, and what is kept of it. Raises `InvalidCommand`."""
    if not _NAME.fullmatch(name) or name == OWNER:
        raise InvalidCommand(
            f"{name!r} can't be the name of a token: use up to 64 letters, digits and . _ @ -, and not {OWNER!r}"
        )
    token = PREFIX + secrets.token_urlsafe(32)
    ends = now_ms + lasts_ms if lasts_ms else 0
    return token, NamedToken(name=name, role=role, sha256=hash_token(token), created_at_ms=now_ms, expires_at_ms=ends)


class TokenFile:
    """The tokens of one state directory."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / FILE

    def read(self) -> tuple[NamedToken, ...]:
        """Raises `Misconfigured`: a file that cannot be read must not count as an empty one."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as why:
            raise Misconfigured(f"the token file {str(self.path)!r} cannot be read: {why.strerror}") from None
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise Misconfigured(
                    f"{str(self.path)!r} can be changed or read by others; set its mode to 0600 and make it your own"
                )
            try:
                return msgspec.json.decode(file.read(FILE_BYTES), type=_Kept).tokens
            except msgspec.MsgspecError:
                raise Misconfigured(f"the token file {str(self.path)!r} is damaged; remove it to start over") from None

    def add(self, name: str, role: Role, *, now_ms: int, lasts_ms: int = 0) -> str:
        """The new token, which is kept nowhere. Raises `InvalidCommand` and `Misconfigured`."""
        token, made = make_token(name, role, now_ms=now_ms, lasts_ms=lasts_ms)
        with self._changing() as known:
            kept = [one for one in known if not (one.name == name and one.is_expired(now_ms))]
            if any(one.name == name for one in kept):
                raise InvalidCommand(TAKEN.format(name=name))
            self._write((*kept, made))
        return token

    def revoke(self, name: str) -> bool:
        """Whether there was one."""
        with self._changing() as known:
            kept = tuple(one for one in known if one.name != name)
            if len(kept) != len(known):
                self._write(kept)
            return len(kept) != len(known)

    @contextlib.contextmanager
    def _changing(self) -> Generator[tuple[NamedToken, ...]]:
        """One at a time, or of two that add a token at once one would be lost."""
        try:
            with descriptor(open_private(self.path.with_name(f".{FILE}.lock"), os.O_RDWR)) as fd:
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield self.read()
        except OSError as why:
            raise Misconfigured(f"the token file {str(self.path)!r} cannot be written: {why.strerror}") from None

    def _write(self, tokens: tuple[NamedToken, ...]) -> None:
        write_private(self.path, encode(_Kept(tokens=tokens)), sync=True)


class KnownTokens:
    """The tokens that a server knows of."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_hash: dict[str, NamedToken] = {}

    def find(self, token: str) -> NamedToken | None:
        return self.find_hash(hash_token(token)) if token.startswith(PREFIX) else None

    def find_name(self, name: str) -> NamedToken | None:
        self._refresh()
        found = next((one for one in self._by_hash.values() if one.name == name), None)
        return None if found is None or found.is_expired(self._clock.now_ms()) else found

    def find_hash(self, sha256: str) -> NamedToken | None:
        """Looked up by its hash, so the time it takes says nothing about the token."""
        self._refresh()
        found = self._by_hash.get(sha256)
        return None if found is None or found.is_expired(self._clock.now_ms()) else found

    async def learn(self, token: str, cookie: str) -> None:
        """Before a request is judged: a token that is not known may have been made at another server just now."""

    def _refresh(self) -> None:
        """Before each look."""


class NamedTokens(KnownTokens):
    """Those of the file, as it is now."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        super().__init__(clock)
        self._file = TokenFile(directory)
        self._seen: tuple[int, int, int] | None = None
        self._load()

    def _refresh(self) -> None:
        if self._stamp() != self._seen:
            self._load()

    def _load(self) -> None:
        self._seen = self._stamp()
        try:
            self._by_hash = {one.sha256: one for one in self._file.read()}
        except Misconfigured:
            self._by_hash = {}  # nobody comes in with a file that somebody else may have written

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._file.path, follow_symlinks=False)  # noqa: PTH116 - called for every command
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
