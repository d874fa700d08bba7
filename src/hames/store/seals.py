"""Seals: keyed hashes that prove that we wrote a log ourselves.

Each line of a log of ours has a seal of its own: a keyed hash over the record and over the beginning of the seal
before it. So every line proves itself, whatever happened to the others, and the chain shows where lines were left out,
replaced or moved. The key is this user's secret, mixed with the token of the data directory and the name of the
thread, so a log that is copied to another directory or another thread is not ours there.

Logs of earlier versions have seals over everything from the first byte of the file up to the seal. They are still
checked, and continued with lines that prove themselves.

A seal is only ever written into a log that is ours. A log that is not gets lines without seals, and stays foreign.
"""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from hames.private_files import create_private, descriptor

try:  # the same class, without the library of OpenSSL, which takes longer to load than everything else here
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

Running = blake2b
"""The state of a hash over a file so far."""

KEY_FILE = "seal.key"
KEY_BYTES = 32
SEAL_BYTES = 16
CHUNK = 1 << 20


def user_key(home: Path) -> bytes | None:
    """The user's secret, made at the first call. None: it cannot be kept, or what is there is no key."""
    path = home / KEY_FILE
    try:
        if (known := _read_key(path)) is None:
            create_private(path, os.urandom(KEY_BYTES).hex().encode())
            known = _read_key(path)
    except OSError:
        return None
    return known


def _read_key(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with descriptor(file) as fd:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            raise PermissionError(f"{str(path)!r} belongs to somebody else")
        if about.st_mode & 0o077:  # copied or restored without care; nobody else needs it
            os.fchmod(fd, 0o600)
        text = os.read(fd, 2 * KEY_BYTES + 1).decode("ascii", "replace").strip()
    if not re.fullmatch(rf"[0-9a-fA-F]{{{2 * KEY_BYTES}}}", text):
        raise OSError(f"{str(path)!r} holds no key")
    return bytes.fromhex(text)


class Seals:
    """The seals of one data directory."""

    def __init__(self, user: bytes, token: str) -> None:
        self._key = blake2b(token.encode(), key=user, digest_size=32, person=b"hames directory").digest()

    def line(self, thread_id: str) -> Running:
        """For one line of this thread's log; it is copied for each."""
        return self._start(thread_id, b"hames line")

    def log(self, thread_id: str) -> Running:
        """At the first byte of this thread's log, for the seals of earlier versions."""
        return self._start(thread_id, b"hames log")

    def live(self, thread_id: str, last_seal: bytes) -> Running:
        """At the first byte of its live file: what is jotted there counts only behind this very log."""
        running = self._start(thread_id, b"hames live")
        running.update(last_seal)
        return running

    def of(self, thread_id: str, data: bytes) -> str:
        """Of something small beside the log."""
        running = self._start(thread_id, b"hames file")
        running.update(data)
        return running.hexdigest()

    def _start(self, thread_id: str, purpose: bytes) -> Running:
        name = thread_id.encode(errors="replace") + b"\0"
        return blake2b(name, key=self._key, digest_size=SEAL_BYTES, person=purpose)


def fingerprint(key: bytes) -> str:
    """A name for whoever has this key, which tells nothing about it."""
    return blake2b(b"owner", key=key, digest_size=8, person=b"hames owner").hexdigest()


def chunks(fd: int, start: int, end: int) -> Iterable[bytes]:
    """The bytes of a file from `start` to `end`, or to where it ends."""
    while start < end and (chunk := os.pread(fd, min(CHUNK, end - start), start)):
        start += len(chunk)
        yield chunk
