"""What all servers of a shared store have in common beside threads: uploads, named tokens and sign-in links."""

from collections.abc import Callable, Sequence
from typing import Protocol

from hames.domain.tokens import NamedToken, SignInLink


class ServerState(Protocol):
    """Everything raises `StorageFailed` when the store cannot be reached."""

    async def put_upload(self, upload_id: str, name: str, body: bytes) -> None: ...

    async def find_upload(self, upload_id: str) -> bytes | None: ...

    async def delete_old_uploads(self, seconds: float) -> None:
        """Those that were put so long ago."""
        ...

    async def tokens(self) -> Sequence[NamedToken]: ...

    async def add_token(self, token: NamedToken, *, now_ms: int) -> bool:
        """False: there is one of that name that has not expired."""
        ...

    async def revoke_token(self, name: str) -> bool:
        """Whether there was one."""
        ...

    def watch_tokens(self, changed: Callable[[], None]) -> None:
        """Calls it when tokens were added or revoked on another node, and from time to time."""
        ...

    async def put_link(self, link: SignInLink, *, most: int) -> None:
        """Only the newest code is valid from now on, and only the `most` newest links."""
        ...

    async def take_link(self, word: bytes) -> str | None:
        """Uses up the link with this word: the name of its token. None: there is none."""
        ...

    async def take_code(self, code: bytes, *, most_wrong: int) -> str | None:
        """The same for a code. After so many wrong ones no open code is valid any more."""
        ...
