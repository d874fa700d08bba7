"""The process that takes checkpoints: it ends by itself, and nobody waits for it."""

import os
import signal
from pathlib import Path

import anyio
import pytest

from hames.checkpoints.local import WorkspaceCheckpoints
from hames.domain.ids import ThreadId, TurnId

pytestmark = pytest.mark.anyio


async def used(tmp_path: Path) -> WorkspaceCheckpoints:
    """Checkpoints with a process that has answered, and no turn that runs."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("a")
    checkpoints = WorkspaceCheckpoints(tmp_path / "kept")
    turn = checkpoints.turn(ThreadId("thread"), TurnId("turn"), str(workspace), still_writing=lambda: False)
    await turn.before_write()
    turn.after_write()
    await turn.end()
    return checkpoints


async def test_closing_does_not_wait_for_the_process(tmp_path: Path) -> None:
    checkpoints = await used(tmp_path)
    program = checkpoints._program  # pyright: ignore[reportPrivateUsage]
    assert program is not None
    os.kill(program.pid, signal.SIGSTOP)  # it cannot end
    checkpoints.close()
    assert program.poll() is None
    with anyio.fail_after(60):  # it is killed a moment later
        while program.poll() is None:
            await anyio.sleep(0.05)


async def test_what_a_turn_changed_is_saved_while_the_process_has_nothing_to_do(tmp_path: Path) -> None:
    checkpoints = await used(tmp_path)
    (tmp_path / "workspace" / "new.txt").write_text("new")
    turn = checkpoints.turn(
        ThreadId("thread"), TurnId("next"), str(tmp_path / "workspace"), still_writing=lambda: False
    )
    await turn.before_write()
    await turn.end()
    (manifest,) = (tmp_path / "kept").glob("*/manifest.json")
    with anyio.fail_after(60):
        while "new.txt" not in manifest.read_text():
            await anyio.sleep(0.05)
    checkpoints.close()
