"""Which data directories are ours, and the keys their logs are sealed with.

A `.harness` can come with a cloned repository, and files can come into one of ours with every pull: a log is
ours only if it is sealed (see `seals`). A data directory has a token, which this user's own state directory knows
together with the directory's identity: a copy of the directory has another one, so copied logs are not ours there.

What must not be planted is not kept in the data directory at all: the list of threads and what agents remember
are in the state directory, by token.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import msgspec

from hames.deferred import pattern
from hames.domain.value import Value
from hames.private_files import descriptor, open_private, private_directory, write_private
from hames.store.seals import CHUNK, Seals, blake2b, chunks, fingerprint, user_key
from hames.store.system_calls import Disk, directory, find_plain, read_small, write_whole

log = logging.getLogger(__name__)

TOKEN = pattern(r"[0-9a-f]{32}")
THREAD_ID = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
EVENTS, LIVE, META = "events.jsonl", "live", "meta.json"
_MOST_TOKENS = 8
"""So many directories that were at one path are remembered."""
OLD_OWNER = "owner"
"""Held the token before logs were sealed."""


class Adopted(Value):
    """A log from before logs were sealed: its first `size` bytes, under the seal that they would have.

    `live` is the digest of the file of live deltas that lay beside it.
    """

    size: int
    seal: str
    live: str = ""


class Claim(NamedTuple):
    """A data directory of ours. `home` is what the state directory keeps for it; None: nothing."""

    token: str
    seals: Seals
    adopted: dict[str, Adopted]
    home: Path | None


class Places:
    """`home` is the user's state directory; None: nothing is remembered, and what was ours is foreign afterwards."""

    def __init__(self, home: Path | None) -> None:
        self._home = home
        self._places = home / "places" if home else None

    def known(self, directory_fd: int) -> Claim | None:
        """The claim on a directory that is ours already. Logs of an older version are adopted here, once."""
        if self._home is None or (key := user_key(self._home)) is None:
            return None
        try:
            if token := self._token(_owner(key), directory_fd):
                return self._claim(key, token)
            if token := self._token(OLD_OWNER, directory_fd):
                return self._old_claim(key, token, directory_fd)
        except OSError as problem:
            log.warning("places.unreadable", extra={"error": str(problem)})
        return None

    def claim(self, directory_fd: int, path: Path | None = None, *, deleted: str = "") -> Claim:
        """Ours from now on, whoever made it. Nothing in it becomes ours by that: what we write there will be.

        Where the state directory cannot be written, the claim holds for as long as this process. `path` is where the
        directory is. `deleted`: the token of a directory whose place this one takes, which we have just made.
        """
        if (found := self.known(directory_fd)) is not None:
            return found
        key = user_key(self._home) if self._home is not None else None
        if key is None or self._places is None:
            return _temporary_claim()
        try:
            with self._locked():
                token = self._token(_owner(key), directory_fd)  # another process may have been faster
                if not token:
                    token = deleted or os.urandom(16).hex()
                    # In this order: a directory that is known has nothing left to adopt.
                    if not deleted:
                        write_private(self._places / f"{token}.adopted", b"{}", sync=True)
                    write_private(self._places / token, _identity(directory_fd).encode(), sync=True)
                    write_whole(Disk(), _owner(key), token.encode(), at=directory_fd, sync=True)
                self._remember_path(path, token)
            return self._claim(key, token)
        except OSError as problem:
            log.warning("places.unclaimed", extra={"error": str(problem)})
            return _temporary_claim()

    def earlier_claims(self, path: Path) -> list[Claim]:
        """Those on the directories that have been there, the latest first."""
        if self._home is None or (key := user_key(self._home)) is None:
            return []
        with contextlib.suppress(OSError):
            return [self._claim(key, token) for token in self._tokens_at(path)]
        return []

    def remember_path(self, path: Path, claim: Claim) -> None:
        """For `earlier_claims`: a directory may have been moved there, or be older than this file."""
        if self._home is None or claim.home is None or self._tokens_at(path)[:1] == [claim.token]:
            return
        with contextlib.suppress(OSError), self._locked():
            self._remember_path(path, claim.token)

    def _remember_path(self, path: Path | None, token: str) -> None:
        if path is not None and self._places is not None:
            tokens = [token, *(one for one in self._tokens_at(path) if one != token)][:_MOST_TOKENS]
            write_private(self._path_file(path), "\n".join(tokens).encode())

    def _tokens_at(self, path: Path | None) -> list[str]:
        try:
            known = self._path_file(path).read_text().split() if path is not None else []
        except OSError:
            return []
        return [token for token in known if TOKEN.fullmatch(token)]

    def _path_file(self, path: Path) -> Path:
        assert self._places is not None
        return self._places / f"at-{blake2b(os.fsencode(path.absolute()), digest_size=16).hexdigest()}"

    def _token(self, name: str, directory_fd: int) -> str:
        """What the directory says its token is, if we know it and it is that directory."""
        assert self._places is not None
        try:
            token = read_small(name, at=directory_fd, limit=64).decode("ascii", "replace").strip()
            if TOKEN.fullmatch(token) and (self._places / token).read_text() == _identity(directory_fd):
                return token
        except FileNotFoundError:
            pass
        except OSError as problem:  # a link or a directory stands there: it is not a file of ours
            log.info("places.odd_owner", extra={"error": str(problem)})
        return ""

    def _claim(self, key: bytes, token: str) -> Claim:
        assert self._home is not None and self._places is not None
        try:
            adopted = msgspec.json.decode((self._places / f"{token}.adopted").read_bytes(), type=dict[str, Adopted])
        except (FileNotFoundError, msgspec.DecodeError):
            adopted = {}
        return Claim(token, Seals(key, token), adopted, self._home / "workspaces" / token)

    def _old_claim(self, key: bytes, token: str, directory_fd: int) -> Claim:
        assert self._places is not None
        marker = self._places / f"{token}.adopted"
        if not marker.exists():
            with self._locked():
                if not marker.exists():
                    found = _inventory(Seals(key, token), directory_fd)
                    # One rename: either every log that was here is adopted, or none yet.
                    write_private(marker, msgspec.json.encode(found), sync=True)
                    for end in ("", "-wal", "-shm"):  # the list of threads lay here
                        with contextlib.suppress(OSError):
                            os.unlink(f"index-{token}.db{end}", dir_fd=directory_fd)
        return self._claim(key, token)

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """One process at a time, for a moment."""
        assert self._places is not None
        with descriptor(open_private(self._places / ".lock", os.O_RDWR)) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield


def _owner(key: bytes) -> str:
    """The file with the token. Each user and each state directory has its own: a workspace may be shared."""
    return f"owner-{fingerprint(key)}"


def _temporary_claim() -> Claim:
    token = os.urandom(16).hex()
    return Claim(token, Seals(os.urandom(32), token), {}, None)


def _identity(directory_fd: int) -> str:
    found = os.fstat(directory_fd)
    return f"{found.st_dev}:{found.st_ino}"


def _inventory(seals: Seals, directory_fd: int) -> dict[str, Adopted]:
    """Every log that lies here now."""
    found: dict[str, Adopted] = {}
    try:
        threads = directory("threads", at=directory_fd)
    except FileNotFoundError:
        return found
    with descriptor(threads):
        for name in sorted(entry.name for entry in os.scandir(threads)):
            if THREAD_ID.fullmatch(name) and (adopted := _adopt(seals, name, at=threads)) is not None:
                found[name] = adopted
    return found


def _adopt(seals: Seals, name: str, *, at: int) -> Adopted | None:
    try:
        found = directory(name, at=at)
    except OSError:
        return None
    with descriptor(found) as thread:
        if (events := find_plain(EVENTS, at=thread)) is None:
            return None
        with descriptor(events) as fd:
            size = _whole_lines(fd)
            running = seals.log(name)
            for chunk in chunks(fd, 0, size):
                running.update(chunk)
            return Adopted(size=size, seal=running.hexdigest(), live=live_digest(thread))


def _whole_lines(fd: int) -> int:
    """Where the last line ends that has an end: a process may have been killed in the middle of one."""
    end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - CHUNK)
        if (last := os.pread(fd, end - start, start).rfind(b"\n")) >= 0:
            return start + last + 1
        end = start
    return 0


def live_digest(thread_fd: int) -> str:
    """Of the file of live deltas as it lies there; nothing where there is none."""
    if (live := find_plain(LIVE, at=thread_fd)) is None:
        return ""
    with descriptor(live) as fd:
        running = blake2b(digest_size=16)
        for chunk in chunks(fd, 0, os.fstat(fd).st_size):
            running.update(chunk)
        return running.hexdigest()


def claimed_directory(claim: Claim | None, name: str) -> Path | None:
    """A directory of that name which belongs to the data directory and does not lie in it. None: there is none."""
    if claim is None or claim.home is None:
        return None
    try:
        return private_directory(claim.home / name)
    except OSError:
        return None
