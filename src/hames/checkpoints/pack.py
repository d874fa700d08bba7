"""The contents of files, each of them once, in one file that only grows.

Needs the standard library alone, like everything that the program beside it imports.
"""

import hashlib
import os
import struct
import zlib
from collections.abc import Set
from contextlib import suppress

_HEADER = struct.Struct(">32sBQ")
_PLAIN, _COMPRESSED = 0, 1


class DamagedContent(Exception):
    """What was kept of a file cannot be read any more. The sentence says which."""


class Pack:
    """One writer at a time; whoever uses it holds the lock of its directory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._end = 0
        self._places: dict[str, tuple[int, int, int]] = {}

    def refresh(self) -> None:
        """Takes in what another process has added, or has written anew. A torn end is cut off."""
        if self._file >= 0:
            try:
                named = os.stat(self._path)
            except OSError:
                named = None
            if named is None or not os.path.samestat(named, os.fstat(self._file)):
                self.close()
        if self._file < 0:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._end, self._places = 0, {}
        size = os.fstat(self._file).st_size
        while self._end < size:
            header = os.pread(self._file, _HEADER.size, self._end)
            if len(header) < _HEADER.size:
                break
            digest, form, length = _HEADER.unpack(header)
            start = self._end + _HEADER.size
            if start + length > size or form not in (_PLAIN, _COMPRESSED):
                break
            self._places[digest.hex()] = (start, length, form)
            self._end = start + length
        if self._end < size:
            os.ftruncate(self._file, self._end)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @property
    def size(self) -> int:
        return self._end

    def __contains__(self, digest: str) -> bool:
        return digest in self._places

    def add(self, content: bytes) -> str:
        """Returns its digest. Raises `OSError`; what was written of it then is cut off."""
        digest = hashlib.sha256(content)
        name = digest.hexdigest()
        if name in self._places:
            return name
        packed = zlib.compress(content, 1)
        form = _COMPRESSED if len(packed) < len(content) else _PLAIN
        stored = packed if form == _COMPRESSED else content
        self._append(digest.digest(), form, stored)
        return name

    def _append(self, digest: bytes, form: int, stored: bytes) -> None:
        rest = memoryview(_HEADER.pack(digest, form, len(stored)) + stored)
        at = self._end
        try:
            while rest:
                count = os.pwrite(self._file, rest, at)
                rest, at = rest[count:], at + count
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise
        self._places[digest.hex()] = (self._end + _HEADER.size, len(stored), form)
        self._end = at

    def read(self, digest: str) -> bytes:
        """Raises `DamagedContent`."""
        try:
            start, length, form = self._places[digest]
            stored = os.pread(self._file, length, start)
            content = zlib.decompress(stored) if form == _COMPRESSED else stored
        except (KeyError, OSError, zlib.error):
            content = None
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            raise DamagedContent("the kept content is damaged or missing")
        return content

    def sync(self) -> None:
        os.fsync(self._file)

    def keep_only(self, digests: Set[str]) -> None:
        """Writes it anew with these contents alone. Raises `OSError`, and is unchanged then."""
        fresh_path = f"{self._path}.new"
        with suppress(FileNotFoundError):
            os.unlink(fresh_path)
        fresh = Pack(fresh_path)
        try:
            fresh.refresh()
            for digest, (start, length, form) in self._places.items():
                if digest in digests:
                    fresh._append(bytes.fromhex(digest), form, os.pread(self._file, length, start))
            fresh.sync()
            os.rename(fresh_path, self._path)
        except OSError:
            fresh.close()
            with suppress(OSError):
                os.unlink(fresh_path)
            raise
        self.close()
        self._file, self._end, self._places = fresh._file, fresh._end, fresh._places
