"""Facts about this machine and a working directory, for the model: system, programs, git, the names at the top.

A repository can name programs that git runs (filters, a file system monitor). So git runs in the sandbox, read-only,
and where there is no sandbox it does not run: the branch alone is read from the file HEAD.
"""

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import anyio
import anyio.to_thread

from hames.domain.errors import HarnessError
from hames.domain.guardrails import GUARDED, PLACEHOLDER_MODE
from hames.domain.policy import ReadOnly
from hames.domain.situation import Facts
from hames.executables import find_program
from hames.ports import Clock, Glance, Launch, Limits, Process, Sandbox, ToolFailed

PROGRAMS = (
    "git rg fd jq make cmake gcc clang python3 pip uv poetry pytest ruff node npm pnpm yarn bun deno tsc go cargo rustc"
    " java mvn gradle dotnet ruby bundle php composer docker psql sqlite3 curl"
).split()
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where commands find programs, beside the directories that the user adds."""
SHELL = "bash"
ENTRIES = 40
"""So many names at the top of the working directory are told."""
NAME_CHARS = 60
UNTOLD = frozenset({".git", ".harness", ".DS_Store", "__pycache__", "node_modules"})
GIT_SECONDS = 10.0
"""A huge repository takes longer, and its state is not told: the model can ask git itself."""
GIT_WAIT_SECONDS = 0.05
"""How long the first request waits for git. In a sandbox that was used before, git takes 0.03 s."""
GIT_BYTES = 1 << 20
GIT_STATUS = (
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "--no-optional-locks",
    "status",
    "--porcelain=v2",
    "--branch",
    "--ignore-submodules=all",
)
HEAD_BYTES = 4096
DEPTH = 64


class LocalEnvironment:
    """Implements `ports.Environment`. `git_seconds` is how long git may take for the state of the repository."""

    def __init__(
        self,
        sandbox: Sandbox,
        clock: Clock,
        *,
        extra_path: Sequence[str] = (),
        git_seconds: float = GIT_SECONDS,
        git_wait: float = GIT_WAIT_SECONDS,
    ) -> None:
        self.git_wait = git_wait
        self._git_seconds = git_seconds
        self._sandbox = sandbox
        self._clock = clock
        self._path = os.pathsep.join((*extra_path, PATH))

    async def describe(self, cwd: str) -> Facts:
        return await anyio.to_thread.run_sync(self._facts, cwd, abandon_on_cancel=True)

    def _facts(self, cwd: str) -> Facts:
        names, more = _entries(cwd)
        return Facts(
            date=self._date(),
            system=_system(),
            shell=SHELL,
            programs=_programs(self._path),
            branch=git_branch(cwd),
            entries=names,
            more_entries=more,
        )

    async def look(self, cwd: str, files: Sequence[str]) -> Glance:
        return await anyio.to_thread.run_sync(self._look, cwd, tuple(files), abandon_on_cancel=True)

    def _look(self, cwd: str, files: tuple[str, ...]) -> Glance:
        return Glance(date=self._date(), branch=git_branch(cwd), stamps={path: _stamp(path) for path in files})

    def _date(self) -> str:
        return time.strftime("%Y-%m-%d", time.localtime(self._clock.now_ms() / 1000))

    async def git_state(self, cwd: str) -> str:
        git = find_program("git", path=PATH, workspace=cwd)
        if not git or not await anyio.to_thread.run_sync(git_branch, cwd, abandon_on_cancel=True):
            return ""
        limits = Limits(seconds=self._git_seconds + 1)
        launch = Launch(argv=(git, *GIT_STATUS), cwd=cwd, workspace=cwd, policy=ReadOnly(), limits=limits)
        process, output = None, b""
        with anyio.move_on_after(self._git_seconds) as scope:
            try:
                process = await self._sandbox.spawn(launch)
                output = await _output(process)
                if await process.wait() != 0:
                    return ""
            except (OSError, HarnessError, ToolFailed):
                return ""
            finally:
                if process is not None:
                    with anyio.CancelScope(shield=True):
                        await process.kill()
        return "" if scope.cancelled_caught else read_status(output.decode("utf-8", "replace"))


async def _output(process: Process) -> bytes:
    output = bytearray()
    async for chunk in process.output():
        output += chunk
        if len(output) > GIT_BYTES:
            break
    return bytes(output)


def read_status(output: str) -> str:
    """What `git status --porcelain=v2 --branch` says, in words.

    >>> read_status("# branch.ab +1 -0\\n1 .M N... 1 2 3 a b x\\n? y\\n")
    '1 commit ahead of its upstream; 1 file changed, 1 untracked'
    >>> read_status("# branch.head main\\n")
    'no uncommitted changes'
    """
    rows = output.splitlines()
    ahead = behind = 0
    for row in rows:
        if found := re.fullmatch(r"# branch\.ab \+(\d+) -(\d+)", row):
            ahead, behind = int(found[1]), int(found[2])
    conflicts = sum(row.startswith("u ") for row in rows)
    counts = [
        _count(sum(row.startswith(("1 ", "2 ")) for row in rows), "file") + " changed",
        f"{sum(row.startswith('? ') for row in rows)} untracked",
        f"{conflicts} in conflict",
    ]
    told = [count for count in counts if not count.startswith("0 ")]
    parts = [f"{_count(ahead, 'commit')} ahead of its upstream"] if ahead else []
    parts += [f"{_count(behind, 'commit')} behind its upstream"] if behind else []
    parts.append(", ".join(told) or "no uncommitted changes")
    return "; ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def git_branch(cwd: str) -> str:
    """The branch by the file HEAD; empty outside of a repository."""
    for folder in _parents(cwd):
        dot_git = folder / ".git"
        try:
            mode = dot_git.lstat().st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(mode):  # a work tree or a submodule: the file says where its directory is
            words = _start_of(dot_git)
            if not words.startswith("gitdir:"):
                return ""
            dot_git = folder / words.removeprefix("gitdir:").strip()
        return read_head(_start_of(dot_git / "HEAD"))
    return ""


def _parents(cwd: str) -> Iterator[Path]:
    here = Path(cwd)
    yield here
    yield from here.parents[:DEPTH]


def read_head(words: str) -> str:
    """The branch that a file HEAD names.

    >>> read_head("ref: refs/heads/main\\n"), read_head("a" * 40), read_head("nonsense")
    ('main', '(none, at commit aaaaaaaaaaaa)', '')
    """
    words = words.strip()
    if found := re.fullmatch(r"ref: refs/heads/(\S{1,200})", words):
        return _printable(found[1])
    return f"(none, at commit {words[:12]})" if re.fullmatch(r"[0-9a-f]{40,64}", words) else ""


def _start_of(path: Path) -> str:
    """The beginning of a regular file; empty if it is anything else. It never waits for a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return os.read(handle, HEAD_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(handle)


def _entries(cwd: str) -> tuple[tuple[str, ...], bool]:
    found: list[str] = []
    try:
        with os.scandir(cwd) as entries:
            for entry in entries:
                if entry.name not in UNTOLD and not _is_placeholder(entry):
                    found.append(_printable(entry.name) + ("/" if entry.is_dir(follow_symlinks=False) else ""))
    except OSError:
        return (), False
    found.sort()
    return tuple(found[:ENTRIES]), len(found) > ENTRIES


def _is_placeholder(entry: "os.DirEntry[str]") -> bool:
    """Whether it is only there because a command runs in the background."""
    if entry.name not in GUARDED or not entry.is_dir(follow_symlinks=False):
        return False
    try:
        return stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode) == PLACEHOLDER_MODE
    except OSError:  # it is gone already
        return True


def _printable(name: str) -> str:
    """A name is data of the workspace: no line breaks, and not a whole sentence."""
    shown = "".join(letter if letter.isprintable() else "�" for letter in name)
    return shown if len(shown) <= NAME_CHARS else f"{shown[:NAME_CHARS]}…"


def _stamp(path: str) -> str:
    try:
        about = Path(path).stat()
    except (OSError, ValueError):
        return ""
    return f"{about.st_mtime_ns}:{about.st_size}:{about.st_ino}"


@cache
def _programs(path: str) -> tuple[str, ...]:
    return tuple(name for name in PROGRAMS if find_program(name, path=path))


@cache
def _system() -> str:
    about = os.uname()
    name = ""
    for row in _start_of(Path("/etc/os-release").resolve()).splitlines():
        if row.startswith("PRETTY_NAME="):
            name = row.partition("=")[2].strip().strip('"')
    return f"{about.sysname} {about.machine}" + (f" ({name})" if name else "")
