"""The access token: who may use the server from outside this machine.

It is kept in a file that only its owner reads, and compared in constant time. A browser signs in with a link or a short
code that works once and sets a cookie, so that the token itself is never in a URL. Only somebody who is signed in can
make either.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from msgspec.structs import replace

from hames.domain.errors import Misconfigured
from hames.domain.tokens import NamedToken, SignInLink
from hames.domain.value import Value
from hames.ports import Clock
from hames.ports.server_state import ServerState
from hames.private_files import private_directory
from hames.server.guard.named_tokens import KnownTokens

SUBPROTOCOL = "harness.v1"
BEARER_SUBPROTOCOL = "harness.bearer."
TOKEN_FILE = "token"
LEAST_CHARS = 16
LINK_SECONDS = 15 * 60.0
CODE_SECONDS = 10 * 60.0
LINKS = 64
CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Letters and digits that nobody takes for another when they type them from a screen."""
CODE_CHARS = 8
WRONG_CODES = 20
"""After so many wrong codes every open one is void: a guesser gets nowhere near one of 30^8."""


class Invitation(Value):
    """A way in for one browser: the word of a link, or a code to type. Using either uses up both."""

    word: str
    code: str


class _Open(Value):
    """`name` is the named token of whoever made it; empty: the owner."""

    name: str
    word: bytes
    code: bytes
    word_until: float
    code_until: float


class Keyring:
    """Checks tokens, cookies, links and codes. The token itself is not kept."""

    def __init__(
        self, token: str, clock: Clock, named: KnownTokens | None = None, shared: ServerState | None = None
    ) -> None:
        """`shared`: links and codes are kept there, for all servers that have the same token."""
        self._named = named
        self._shared = shared
        self._token = _digest(token)
        self._cookie_key = hmac.digest(token.encode(), b"cookies of named tokens", "sha256")
        self._cookie_value = hmac.new(token.encode(), b"cookie", hashlib.sha256).hexdigest()
        self._cookie = _digest(self._cookie_value)
        self._open: list[_Open] = []
        self._wrong_codes = 0
        self._clock = clock

    @property
    def shared_cookie_name(self) -> str:
        """Behind one name of several servers with the same token, whatever their ports are."""
        return f"hames-{hmac.digest(self._cookie_key, b'name', 'sha256').hex()[:12]}"

    @property
    def cookie(self) -> str:
        return self._cookie_value

    def opens(self, token: str) -> bool:
        """Whether it is the owner's token or a named one."""
        return self.is_owner(token) or (self._named is not None and self._named.find(token) is not None)

    def is_owner(self, token: str) -> bool:
        return hmac.compare_digest(_digest(token), self._token)

    def is_cookie(self, value: str) -> bool:
        return self.is_owner_cookie(value) or self.named_by_cookie(value) is not None

    def is_owner_cookie(self, value: str) -> bool:
        return hmac.compare_digest(_digest(value), self._cookie)

    def named_by_cookie(self, value: str) -> NamedToken | None:
        """The token that a browser signed in with, as long as it is valid."""
        name, _, seal = value.rpartition(":")
        found = self._named.find_name(name) if self._named is not None and name else None
        if found is None or not hmac.compare_digest(_digest(seal), _digest(self._seal(found))):
            return None
        return found

    def cookie_for(self, name: str) -> str | None:
        """The cookie of a browser that signs in with this named token; empty: the owner's. None: it is not valid."""
        if not name:
            return self._cookie_value
        found = self._named.find_name(name) if self._named is not None else None
        return None if found is None else f"{found.name}:{self._seal(found)}"

    def _seal(self, token: NamedToken) -> str:
        return hmac.new(self._cookie_key, token.sha256.encode(), hashlib.sha256).hexdigest()

    def invite(self, name: str = "") -> Invitation:
        """A new link and a new code. Only the newest code is valid: several would be easier to guess.

        Whoever uses them is signed in with the named token `name`; empty: as the owner.
        """
        self._forget()
        self._wrong_codes = 0
        code = _new_code()
        word = secrets.token_urlsafe(32)
        now = self._clock.monotonic()
        earlier = [_without_code(one) for one in self._open[-(LINKS - 1) :]]
        made = _Open(
            name=name,
            word=_digest(word),
            code=_digest(code),
            word_until=now + LINK_SECONDS,
            code_until=now + CODE_SECONDS,
        )
        self._open = [*earlier, made]
        return Invitation(word=word, code=code)

    def link(self) -> str:
        """A word that opens the page once, within a quarter of an hour."""
        made = self.invite()
        self._open[-1] = _without_code(self._open[-1])
        return made.word

    def take_link(self, word: str) -> str | None:
        """The cookie for whoever came with a link of ours, which is used up by asking; None: it is none."""
        self._forget()
        given = _digest(word)
        return self._take([hmac.compare_digest(given, one.word) for one in self._open])

    def take_code(self, typed: str) -> str | None:
        """The same for a code, however it was typed."""
        self._forget()
        given = _typed_code(typed)
        now = self._clock.monotonic()
        found = [hmac.compare_digest(given, one.code) and now < one.code_until for one in self._open]
        if any(found):
            self._wrong_codes = 0
            return self._take(found)
        self._wrong_codes += 1
        if self._wrong_codes >= WRONG_CODES:
            self._open = [_without_code(one) for one in self._open]
        return None

    def take_token(self, typed: str) -> str | None:
        """The same for a token that somebody was given: the owner's or a named one. It goes on working."""
        token = typed.strip()
        if self.is_owner(token):
            return self._cookie_value
        found = self._named.find(token) if self._named is not None else None
        return None if found is None else self.cookie_for(found.name)

    # -- the same where servers share a store: made at one of them, used at any

    async def make_invitation(self, name: str = "", *, has_code: bool = True) -> Invitation:
        """Raises `StorageFailed`."""
        if self._shared is None:
            return self.invite(name) if has_code else Invitation(word=self.link(), code="")
        made = Invitation(word=secrets.token_urlsafe(32), code=_new_code() if has_code else "")
        link = SignInLink(
            name=name,
            word=_digest(made.word),
            word_seconds=LINK_SECONDS,
            code=_digest(made.code) if has_code else b"",
            code_seconds=CODE_SECONDS,
        )
        await self._shared.put_link(link, most=LINKS)
        return made

    async def use_link(self, word: str) -> str | None:
        """The cookie, as from `take_link`. Raises `StorageFailed`."""
        if self._shared is None:
            return self.take_link(word)
        return self._cookie_of(await self._shared.take_link(_digest(word)))

    async def use_code(self, typed: str) -> str | None:
        """The cookie, as from `take_code`. Raises `StorageFailed`."""
        if self._shared is None:
            return self.take_code(typed)
        return self._cookie_of(await self._shared.take_code(_typed_code(typed), most_wrong=WRONG_CODES))

    def _cookie_of(self, name: str | None) -> str | None:
        return None if name is None else self.cookie_for(name)

    def _take(self, found: list[bool]) -> str | None:
        used = [one for one, taken in zip(self._open, found, strict=True) if taken]
        self._open = [one for one in self._open if one not in used]
        return self.cookie_for(used[0].name) if used else None

    def _forget(self) -> None:
        now = self._clock.monotonic()
        self._open = [one for one in self._open if one.word_until > now]


def _new_code() -> str:
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_CHARS))


def _typed_code(typed: str) -> bytes:
    return _digest("".join(char for char in typed.upper() if char.isalnum())[: CODE_CHARS + 1])


def _without_code(one: _Open) -> _Open:
    return replace(one, code=b"", code_until=0.0)


def _digest(text: str) -> bytes:
    """Digests have one length, so that comparing them tells nothing of the token's."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def token_in(directory: Path) -> str:
    """The token of this data directory, made when there is none. Raises `Misconfigured`."""
    path = directory / TOKEN_FILE
    try:
        private_directory(directory)
        return _read(path) if path.exists() else _create(path)
    except OSError as why:
        raise Misconfigured(f"the token file {str(path)!r} cannot be used: {why.strerror}") from None


def _create(path: Path) -> str:
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
            raise Misconfigured(
                f"{str(path)!r} can be read by others; set its mode to 0600 and make it your own, or remove it"
            )
        return checked(file.read(4096).decode("ascii", "replace").strip())


def checked(token: str) -> str:
    """Raises `Misconfigured` for one that could be guessed."""
    if len(token) < LEAST_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise Misconfigured(f"a token has at least {LEAST_CHARS} printable ASCII characters and no space")
    return token
