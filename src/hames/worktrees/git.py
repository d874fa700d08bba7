"""git, in the sandbox: a repository's configuration can name programs (filters, hooks, monitors) that git runs."""

import os
from collections.abc import Sequence

import anyio
from msgspec.structs import replace

from hames.domain.errors import InvalidCommand, SandboxUnavailable
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.value import Value
from hames.ports import Launch, Limits, Process, Sandbox, ToolFailed

SECONDS = 120.0
_KILL_SECONDS = 3.0
_MOST_BYTES = 8 << 20
_PLAIN = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "advice.detachedHead=false")
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
_WITHOUT_ERRORS = ("sh", "-c", 'exec "$@" 2>/dev/null', "sh")


class GitAnswer(Value):
    code: int
    output: bytes

    @property
    def text(self) -> str:
        return os.fsdecode(self.output).strip()

    @property
    def names(self) -> tuple[str, ...]:
        """Of output that ends each name with a zero byte."""
        return tuple(os.fsdecode(name) for name in self.output.split(b"\0") if name)

    @property
    def why(self) -> str:
        """What git says is wrong, in one line."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        wrong = [line for line in lines if line.startswith(("fatal:", "error:"))]
        chosen = (wrong or lines or [f"git ended with code {self.code}"])[0]
        return chosen.removeprefix("fatal: ").removeprefix("error: ")


class SandboxedGit:
    """`policy` is that of the thread. Where that has no sandbox git has one all the same: nobody was asked about the
    programs that the repository names. Without one run only the user's hooks, and git where the machine has none.
    """

    def __init__(self, sandbox: Sandbox, policy: SandboxPolicy) -> None:
        self._sandbox = sandbox
        self._open = policy if isinstance(policy, DangerFullAccess | ExternalSandbox) else None

    async def ask(self, top: str, *words: str) -> GitAnswer:
        """Changes nothing; the output is what git writes to stdout alone."""
        argv = (*_WITHOUT_ERRORS, "git", *_PLAIN, *NO_HOOKS, "--no-optional-locks", "--no-pager")
        argv = (*argv, *_bare(top), *words)
        return await self._run(argv, top, ReadOnly())

    async def change(self, top: str, *words: str, roots: Sequence[str] = (), hooks: bool = False) -> GitAnswer:
        """Writes to the repository of `top`, and to `roots`. `hooks`: those of the user run as well."""
        argv = ("git", *_PLAIN, *(() if hooks else NO_HOOKS), "--no-pager", *_bare(top), *words)
        walls = WorkspaceWrite(writable_roots=tuple(roots))
        return await self._run(argv, top, (self._open or walls) if hooks else walls)

    async def _run(self, argv: tuple[str, ...], top: str, policy: SandboxPolicy) -> GitAnswer:
        launch = Launch(argv=argv, cwd=top, workspace=top, policy=policy, limits=Limits(seconds=SECONDS))
        try:
            process = await self._spawn(launch)
        except (OSError, SandboxUnavailable, ToolFailed) as problem:
            raise InvalidCommand(f"git cannot be run: {problem}") from None
        kept, code = bytearray(), -1
        try:
            with anyio.move_on_after(SECONDS) as scope:
                async for chunk in process.output():
                    kept += chunk
                    if len(kept) > _MOST_BYTES:
                        raise InvalidCommand("git lists more files than a worktree can be made for")
                code = await process.wait()
            if scope.cancelled_caught:
                raise InvalidCommand(f"git {argv[-1]!r} did not end within {SECONDS:g} seconds")
        finally:
            with anyio.move_on_after(_KILL_SECONDS, shield=True):
                await process.kill()
        return GitAnswer(code=code, output=bytes(kept))

    async def _spawn(self, launch: Launch) -> Process:
        try:
            return await self._sandbox.spawn(launch)
        except SandboxUnavailable:
            if self._open is None:
                raise
            return await self._sandbox.spawn(replace(launch, policy=self._open))


def _bare(top: str) -> tuple[str, ...]:
    """Commands that only read do not find a bare repository by themselves: one may lie in any project."""
    return () if os.path.lexists(f"{top}/.git") else (f"--git-dir={top}",)
