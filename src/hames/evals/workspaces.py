"""The files of one trial: the agent's workspace, and the copy that the check looks at.

A task's scripts run in the sandbox. The check sees its own folder read-only and a copy of the workspace, so nothing
that the agent left behind can change it.
"""

import os
import shutil
import stat
from pathlib import Path

import anyio
from anyio import to_thread

from hames.app.toolbox import sandbox_settings, tool_limits
from hames.config.load import Options
from hames.domain.errors import HarnessError
from hames.domain.policy import ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.value import Value
from hames.evals.tasks import EvalTask
from hames.ports import Launch, Limits, ToolFailed
from hames.sandbox.local import LocalSandbox, SandboxSettings

SCRIPT_SECONDS = 120.0
KEPT_BYTES = 64 * 1024


class TaskBroken(HarnessError):
    """The task itself does not work: its set-up failed."""


class ScriptResult(Value):
    exit_code: int
    output: str


class TrialFiles:
    """`folder` is empty and belongs to one trial."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.data = folder / "data"
        self._options = options

    async def prepare(self, task: EvalTask) -> None:
        """Makes the workspace. Raises `TaskBroken`, `SandboxUnavailable`."""
        if task.workspace is None:
            self.workspace.mkdir()
        else:
            await to_thread.run_sync(_copy_tree, task.workspace, self.workspace)
        if task.setup is not None:
            done = await self._run(task, ("/bin/bash", str(task.setup)), self.workspace)
            if done.exit_code != 0:
                raise TaskBroken(f"setup.sh of the task {task.name!r} failed: {_last_line(done.output)}")

    async def check(self, task: EvalTask) -> ScriptResult:
        """Whether the workspace is as the task wants it: exit code 0. Raises `SandboxUnavailable`."""
        copied = self.folder / "checked"
        await to_thread.run_sync(_copy_tree, self.workspace, copied)
        return await self._run(task, task.check_command, copied)

    async def _run(self, task: EvalTask, argv: tuple[str, ...], workspace: Path) -> ScriptResult:
        settings = sandbox_settings(self._options)
        shown = SandboxSettings(
            allow_degraded=settings.allow_degraded,
            extra_path=settings.extra_path,
            extra_read=(*settings.extra_read, str(task.folder)),
            hidden=settings.hidden,
            bubblewrap=settings.bubblewrap,
        )
        shell = tool_limits(self._options).shell
        limits = Limits(
            seconds=SCRIPT_SECONDS,
            processes=shell.processes,
            memory_bytes=shell.memory_bytes,
            file_bytes=shell.file_bytes,
        )
        launch = Launch(
            argv=argv,
            cwd=str(workspace),
            workspace=str(workspace),
            policy=script_policy(self._options.sandbox),
            limits=limits,
        )
        try:
            return await _collect(LocalSandbox(shown), launch)
        except ToolFailed as failure:
            raise TaskBroken(str(failure)) from None


def script_policy(policy: SandboxPolicy) -> SandboxPolicy:
    """A task's scripts write in their folder. Whoever gave up the sandbox for the agent did it for them, too."""
    return WorkspaceWrite() if isinstance(policy, ReadOnly | WorkspaceWrite) else policy


async def _collect(sandbox: LocalSandbox, launch: Launch) -> ScriptResult:
    kept = bytearray()
    process = await sandbox.spawn(launch)
    code = 124
    try:
        with anyio.move_on_after(launch.limits.seconds):
            async for chunk in process.output():
                kept = (kept + chunk)[-KEPT_BYTES:]
            code = await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await process.kill()
    output = bytes(kept).decode(errors="replace")
    return ScriptResult(exit_code=code, output=output or ("no answer in time" if code == 124 else ""))


def _copy_tree(source: Path, target: Path) -> None:
    """Files, folders and links; a link is copied as a link, a device or a pipe is left out."""

    def special(folder: str, names: list[str]) -> list[str]:
        modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}  # noqa: PTH118
        return [
            name for name, mode in modes.items() if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))
        ]

    shutil.copytree(source, target, symlinks=True, ignore=special)


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")
