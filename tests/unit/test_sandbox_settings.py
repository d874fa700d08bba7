"""What a person may choose about the sandbox, and what nobody may change behind its back."""

from pathlib import Path

import anyio
import pytest

from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch
from hames.sandbox.local import LocalSandbox, SandboxSettings

WRITE = WorkspaceWrite()


async def said(sandbox: LocalSandbox, here: Path, command: str, policy: SandboxPolicy = WRITE) -> str:
    launch = Launch(argv=("/bin/sh", "-c", command), cwd=str(here), workspace=str(here), policy=policy)
    with anyio.fail_after(60):
        process = await sandbox.spawn(launch)
        return b"".join([chunk async for chunk in process.output()]).decode()


@pytest.mark.needs("bwrap")
async def test_temporary_files_last_where_they_were_given_a_place(tmp_path: Path) -> None:
    workspace, scratch = tmp_path / "ws", tmp_path / "scratch"
    workspace.mkdir()
    scratch.mkdir()
    lasting = LocalSandbox(SandboxSettings(scratch=str(scratch)))
    await said(lasting, workspace, "echo kept > /tmp/note")
    assert await said(lasting, workspace, "cat /tmp/note") == "kept\n"
    assert "No such file" in await said(lasting, workspace, "cat /tmp/note", ReadOnly())
    assert "No such file" in await said(LocalSandbox(), workspace, "cat /tmp/note")


@pytest.mark.needs("bwrap")
async def test_what_a_person_hides_is_hidden(tmp_path: Path) -> None:
    for name in ("ws", "private"):
        (tmp_path / name).mkdir()
    (tmp_path / "ws/notes.txt").write_text("secret")
    (tmp_path / "private/notes.txt").write_text("secret")
    hidden = (str(tmp_path / "private"), str(tmp_path / "ws/notes.txt"), str(tmp_path / "missing"))
    command = f"cat notes.txt {tmp_path}/private/notes.txt"
    assert "secret" not in await said(LocalSandbox(SandboxSettings(hidden=hidden)), tmp_path / "ws", command)


async def test_chosen_programs_and_variables_are_there(tmp_path: Path) -> None:
    tools, workspace = tmp_path / "tools", tmp_path / "ws"
    tools.mkdir()
    tools.chmod(0o755)
    workspace.mkdir()
    (tools / "greet").write_text("#!/bin/sh\necho hello $CHOSEN$OTHER\n")
    (tools / "greet").chmod(0o755)
    environ = {"CHOSEN": "you", "OTHER": "secret", "HOME": str(tmp_path)}
    chosen = LocalSandbox(SandboxSettings(extra_path=(str(tools),), inherit=("CHOSEN",)), environ=environ)
    # Without walls: behind them, the private /tmp hides where this test keeps its tools.
    assert await said(chosen, workspace, "greet", DangerFullAccess()) == "hello you\n"
    assert "not found" in await said(LocalSandbox(environ=environ), workspace, "greet", DangerFullAccess())


@pytest.mark.needs("bwrap")
async def test_a_workspace_that_became_a_link_is_refused(tmp_path: Path) -> None:
    workspace, victim = tmp_path / "ws", tmp_path / "victim"
    workspace.mkdir()
    victim.mkdir()
    sandbox = LocalSandbox()
    assert await said(sandbox, workspace, "touch mine; echo done") == "done\n"
    workspace.rename(tmp_path / "away")
    workspace.symlink_to(victim)
    with pytest.raises(SandboxUnavailable, match="was replaced by another directory"):
        await said(sandbox, workspace, "touch stolen")
    assert list(victim.iterdir()) == []


async def test_a_relative_workspace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    launch = Launch(argv=("true",), cwd=str(tmp_path), workspace=".", policy=WRITE)
    with pytest.raises(SandboxUnavailable, match="cannot be a writable root"):
        await LocalSandbox().spawn(launch)
