"""A machine without walls is said to be one, with the way out."""

import os
import shlex
from pathlib import Path

import anyio
import pytest

from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.walls import probe

KNOWINGLY = "dangerFullAccess"


def fake(tmp_path: Path, complaint: str) -> str:
    """A bubblewrap that fails the way a real one does."""
    path = tmp_path / "bwrap"
    version = '[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit'
    path.write_text(f"#!/bin/sh\n{version}\necho {shlex.quote(complaint)} >&2\nexit 1\n")
    path.chmod(0o755)
    return str(path)


def launch(cwd: Path, policy: SandboxPolicy) -> Launch:
    return Launch(argv=("/bin/touch", f"{cwd}/escaped"), cwd=str(cwd), workspace=str(cwd), policy=policy)


def test_nothing_installed_says_how_to_install_it() -> None:
    sentence = probe.refusal([])
    assert "not installed" in sentence
    assert "apt install bubblewrap" in sentence
    assert KNOWINGLY in sentence


@pytest.mark.parametrize(
    ("complaint", "way_out"),
    [
        ("bwrap: setting up uid map: Permission denied", "AppArmor"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
        ("bwrap: Unknown option --perms", "too old"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "--security-opt"),
    ],
)
async def test_SBX_3_a_sandbox_that_cannot_work_is_refused_with_the_reason_and_the_fix(
    tmp_path: Path, complaint: str, way_out: str
) -> None:
    sandbox = LocalSandbox(SandboxSettings(bubblewrap=fake(tmp_path, complaint)))
    for policy in (ReadOnly(), WorkspaceWrite()):
        with anyio.fail_after(60), pytest.raises(SandboxUnavailable) as refusal:
            await sandbox.spawn(launch(tmp_path, policy))
        assert complaint.removeprefix("bwrap: ") in str(refusal.value)
        assert way_out in str(refusal.value)
        assert KNOWINGLY in str(refusal.value)
    assert not (tmp_path / "escaped").exists()
    walls = await sandbox.walls()
    assert (walls.kind, walls.degraded) == ("none", False)


async def test_SBX_3_a_missing_binary_never_means_no_walls(tmp_path: Path) -> None:
    sandbox = LocalSandbox(SandboxSettings(bubblewrap=str(tmp_path / "missing")))
    with anyio.fail_after(60), pytest.raises(SandboxUnavailable, match="missing"):
        await sandbox.spawn(launch(tmp_path, WorkspaceWrite()))
    assert not (tmp_path / "escaped").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == []


async def test_no_walls_have_to_be_asked_for_by_name(tmp_path: Path) -> None:
    sandbox = LocalSandbox(SandboxSettings(bubblewrap=str(tmp_path / "missing")))
    process = await sandbox.spawn(launch(tmp_path, DangerFullAccess()))
    with anyio.fail_after(60):
        async for _ in process.output():
            pass
    assert (tmp_path / "escaped").exists()


async def test_landlock_is_used_only_when_weaker_walls_were_allowed_and_says_so(tmp_path: Path) -> None:
    sandbox = LocalSandbox(SandboxSettings(bubblewrap=str(tmp_path / "missing"), allow_degraded=True))
    walls = await sandbox.walls()
    if walls.kind == "none":
        pytest.skip("this kernel has no Landlock")
    assert walls.degraded
    assert "degraded" in walls.sentence


def test_the_systems_own_comes_before_the_wheels() -> None:
    found = probe.candidates()
    assert found == sorted(found, key=lambda path: "site-packages" in path)
    assert all(os.access(path, os.X_OK) for path in found)
