"""Named tokens and sign-in links, as servers keep them: hashes only."""

from hames.domain.roles import Role
from hames.domain.value import Value


class NamedToken(Value, omit_defaults=True):
    name: str
    role: Role
    sha256: str
    created_at_ms: int
    expires_at_ms: int = 0
    """0: never."""

    def is_expired(self, now_ms: int) -> bool:
        return 0 < self.expires_at_ms <= now_ms


class SignInLink(Value):
    """A way in for one browser: hashes of the word in a link and of a code. Using either uses up both."""

    name: str
    """The named token that it signs in with; empty: the owner's."""
    word: bytes
    word_seconds: float
    code: bytes = b""
    """Empty: it has none."""
    code_seconds: float = 0.0
