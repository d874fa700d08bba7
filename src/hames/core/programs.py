"""Programs that a client runs itself, in the sandbox that it names. No model has a part in it, so nobody is asked."""

import anyio

from hames.domain.commands import ProgramEnded, RunProgram
from hames.domain.errors import InvalidCommand, SandboxUnavailable
from hames.domain.options import Settings
from hames.ports import Launch, Limits, Process, Sandbox, ToolFailed, Workspace

KILL_SECONDS = 3.0
TIMED_OUT = 124
"""The exit code of a program that took too long, as the command `timeout` has it."""


async def run_program(
    command: RunProgram, settings: Settings, sandbox: Sandbox | None, workspace: Workspace
) -> ProgramEnded:
    """`settings` are what the command does not say. Raises `HarnessError`."""
    if sandbox is None:
        raise InvalidCommand("this server runs no commands")
    workplace = await workspace.resolve_directory(command.workspace or settings.cwd)
    cwd = await workspace.resolve_directory(command.cwd or workplace)
    launch = Launch(
        argv=command.argv,
        cwd=cwd,
        workspace=workplace,
        policy=command.sandbox or settings.sandbox,
        limits=Limits(seconds=command.seconds),
    )
    try:
        process = await sandbox.spawn(launch)
    except (OSError, SandboxUnavailable, ToolFailed) as problem:
        raise InvalidCommand(f"cannot run {command.argv[0]!r}: {problem}") from None
    try:
        return await _output(process, command)
    finally:
        with anyio.move_on_after(KILL_SECONDS, shield=True):
            await process.kill()


async def _output(process: Process, command: RunProgram) -> ProgramEnded:
    kept, code = bytearray(), TIMED_OUT
    with anyio.move_on_after(command.seconds) as scope:
        async for chunk in process.output():
            kept += chunk[: max(0, command.output_bytes - len(kept))]
        code = await process.wait()
    if scope.cancelled_caught:
        code = TIMED_OUT
    return ProgramEnded(exit_code=code if code >= 0 else 128 - code, output=bytes(kept))
