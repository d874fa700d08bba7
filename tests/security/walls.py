"""Running things behind the walls in tests, also as another user than the one who runs the tests."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from hames.domain.policy import SandboxPolicy, WorkspaceWrite
from hames.domain.value import Value
from hames.ports import Launch, Limits
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.proof.attempts import run as attempts
from hames.sandbox.walls import probe
from hames.sandbox.walls.placeholders import SLOWLY

NOBODY = 65534
WRITE = WorkspaceWrite()


class Outcome(Value):
    code: int
    text: str
    notes: tuple[str, ...] = ()


def bubblewraps() -> list[str]:
    return probe.candidates()


async def run(
    command: str,
    workspace: Path,
    policy: SandboxPolicy = WRITE,
    *,
    sandbox: LocalSandbox | None = None,
    limits: Limits | None = None,
    cwd: Path | None = None,
) -> Outcome:
    """A shell command as a tool would run it, to its end."""
    launch = Launch(
        argv=("/bin/bash", "--noprofile", "--norc", "-c", command),
        cwd=str(cwd or workspace),
        workspace=str(workspace),
        policy=policy,
        limits=limits or Limits(),
    )
    with anyio.fail_after(60):
        process = await (sandbox or LocalSandbox()).spawn(launch)
        try:
            text = b"".join([chunk async for chunk in process.output()]).decode(errors="replace")
            code = await process.wait()
        finally:
            await process.kill()
    await anyio.to_thread.run_sync(settle)
    return Outcome(code=code, text=text, notes=process.notes)


def settle() -> None:
    """Waits for placeholders that a busy disk is slow to let go."""
    for thread in threading.enumerate():
        if thread.name == SLOWLY:
            thread.join()


@contextmanager
def workspace() -> Iterator[Path]:
    """One that is neither in the test's own temporary directory, which root owns, nor in the private `/tmp`."""
    path = Path(tempfile.mkdtemp(prefix="hames-test-", dir="/var/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def users() -> list[str]:
    """Who the walls are tried as: whoever runs the tests, and nobody if that is root."""
    return ["root", "nobody"] if os.getuid() == 0 else [pwd.getpwuid(os.getuid()).pw_name]


def as_user(user: str, function: str, *arguments: Any) -> Any:
    """Calls `MODULE:NAME`, a coroutine function of this directory, as `user` (a name or a number), in a process of its
    own.

    The process starts as we are, because the interpreter may be in a place only we can read, and then lets go.
    """
    if user == "nobody" or user.isdecimal():
        number = NOBODY if user == "nobody" else int(user)
        for path in (attempts.__file__, *bubblewraps()):
            if subprocess.run(["/usr/bin/test", "-r", path], user=number, check=False).returncode:
                pytest.skip(f"user {user} cannot read {path}")
    program = [sys.executable, __file__, user, function, json.dumps(arguments)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def _nothing() -> None:
    await anyio.to_thread.run_sync(os.getpid)


def _main() -> None:
    import ctypes
    from importlib import import_module

    user, name, arguments = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    module, _, function = name.partition(":")
    sys.path.append(str(Path(__file__).parents[1]))
    found = import_module(module)
    work = getattr(found, function)
    anyio.run(_nothing)  # imports what is imported late, while it can still be read
    if user.isdigit() and function in getattr(found, "REHEARSED", ()):
        anyio.run(work, *arguments)
    if user == "nobody" or user.isdigit():
        number = int(user) if user.isdigit() else NOBODY
        os.setgroups([])
        os.setgid(number)
        os.setuid(number)
        os.environ["HOME"] = "/nonexistent"
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # changing the user makes a process unreadable, even to itself
    print(msgspec.json.encode(anyio.run(work, *arguments)).decode())


def policy(name: str) -> SandboxPolicy:
    return msgspec.json.decode(name, type=SandboxPolicy)


def settings(bubblewrap: str) -> SandboxSettings:
    return SandboxSettings(bubblewrap=bubblewrap)


if __name__ == "__main__":
    _main()
