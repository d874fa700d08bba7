"""Project trust: nothing a workspace brings is obeyed before the user said so.

Trust is bound to the directory itself (its real path, device and inode) and to
what was in it: a look-alike, a moved copy or a changed file asks again.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hames.config.paths import PROJECT_CONFIG
from hames.domain.value import Value
from hames.private_files import write_private

OBEYED = (PROJECT_CONFIG, ".mcp.json")
"""The files of a workspace that can change what hames does."""
OBEYED_BYTES = 1 << 20
OTHER_AGENTS = (".claude", ".codex", ".cursor", ".gemini", ".opencode", ".windsurf", ".clinerules", ".roo")
"""Directories in which other agents keep their settings, commands and rules."""


class Trusted(Value):
    path: str
    device: int
    inode: int
    digest: str


class ProjectTrust:
    """`home` is the user's state directory; what cannot be read there is not trusted."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._file = home / "trusted.json"

    def trusts(self, directory: Path) -> bool:
        found = identity(directory)
        return found.digest == "" or found in self._known() or self._trusts_origin(found)

    def has_trusted(self, directory: Path) -> bool:
        """The user said so, for the files there are now. Where there are none, nobody was asked."""
        found = identity(directory)
        return found.digest != "" and (found in self._known() or self._trusts_origin(found))

    def _trusts_origin(self, found: Trusted) -> bool:
        """Whether this is a worktree that Hames made from a trusted directory, with the same files to obey."""
        if (origin := worktree_origin(self._home, found.path)) is None:
            return False
        try:
            before = identity(Path(origin))
        except OSError:
            return False
        trusted = [each for each in self._known() if each.path == before.path]
        return any(
            (each.device, each.inode, each.digest) == (before.device, before.inode, found.digest) for each in trusted
        )

    def asks_for(self, directory: Path) -> list[str]:
        """The files that would be obeyed, and are not yet."""
        return [] if self.trusts(directory) else sorted(_contents(directory.resolve()))

    def trusted_before(self, directory: Path) -> bool:
        """This directory was trusted once, with other contents perhaps."""
        return str(directory.resolve()) in {each.path for each in self._known()}

    def trust(self, directory: Path) -> Trusted:
        found = identity(directory)
        self._write([each for each in self._known() if each.path != found.path] + [found])
        return found

    def revoke(self, directory: Path) -> bool:
        known = self._known()
        kept = [each for each in known if each.path != str(directory.resolve())]
        self._write(kept)
        return len(kept) < len(known)

    def _known(self) -> list[Trusted]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[Trusted])
        except (OSError, msgspec.DecodeError):
            return []

    def _write(self, trusted: list[Trusted]) -> None:
        write_private(self._file, msgspec.json.format(msgspec.json.encode(trusted)))


def worktree_origin(state: Path, directory: str) -> str | None:
    """The directory that corresponds to this one in the workspace from which Hames made the worktree around it."""
    if not (state / "worktrees").is_dir():
        return None
    from hames.worktrees.records import WorktreeRecords

    record = WorktreeRecords(state).containing(directory)
    if record is None:
        return None
    top = Path(record.path, record.below)
    real = Path(os.path.realpath(directory))
    return str(Path(record.workspace, real.relative_to(top))) if real.is_relative_to(top) else None


def identity(directory: Path) -> Trusted:
    """The directory and a digest of what it would have us obey; no digest: there is nothing to obey."""
    real = directory.resolve(strict=True)
    found = real.stat()
    contents = _contents(real)
    digest = _digest(contents) if contents else ""
    return Trusted(path=str(real), device=found.st_dev, inode=found.st_ino, digest=digest)


def _digest(contents: dict[str, bytes]) -> str:
    import hashlib

    digest = hashlib.sha256()
    for name, data in sorted(contents.items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _contents(directory: Path) -> dict[str, bytes]:
    """Read without following links and without waiting: a FIFO must not hold up the start."""
    contents: dict[str, bytes] = {}
    for name in OBEYED:
        try:
            fd = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            found = os.fstat(fd)
            if stat.S_ISREG(found.st_mode) and found.st_size <= OBEYED_BYTES:
                contents[name] = os.read(fd, OBEYED_BYTES)
        finally:
            os.close(fd)
    return contents


def ignored(directory: Path, untrusted: Sequence[str], *, changed: bool) -> list[str]:
    """One sentence for each configuration file of the workspace that exists and is ignored."""
    said: list[str] = []
    if untrusted:
        names, verb = " and ".join(untrusted), "is" if len(untrusted) == 1 else "are"
        why = "this project has changed since it was trusted" if changed else "this project is not trusted"
        said.append(f"{names} {verb} ignored because {why}. Run `hames trust`")
    for name in OBEYED:
        if (why := _unreadable(directory / name)) and name not in untrusted:
            said.append(f"{name} is ignored because {why}")
    return said


def _unreadable(path: Path) -> str:
    """Why an existing file cannot be used; empty: it can."""
    try:
        found = path.lstat()
    except OSError:
        return ""
    if stat.S_ISLNK(found.st_mode):
        return "it is a link. Replace it with the file itself"
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file"
    if found.st_size > OBEYED_BYTES:
        return f"it is larger than {OBEYED_BYTES:,} bytes"
    return "" if os.access(path, os.R_OK) else "it cannot be read: permission denied"


def read_obeyed(directory: Path, name: str) -> bytes:
    """One of the files, for a directory that is trusted. Nothing if it is not there."""
    return _contents(directory.resolve()).get(name, b"")


def other_agents_files(directory: Path) -> str:
    """Which directories of other agents this project has and what is read instead, in words; empty: it has none."""
    here = directory.resolve()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    folders = [folder for folder in (here, *here.parents) if folder.is_relative_to(root)]
    names = [f"{name}/" for name in OTHER_AGENTS if any((folder / name).is_dir() for folder in folders)]
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{' and '.join(names)} {verb} not read: no settings, commands, agents, hooks or rules in there. Read are"
        f" AGENTS.md, CLAUDE.md where there is no AGENTS.md beside it, and hames.toml and .mcp.json after `hames trust`"
    )
