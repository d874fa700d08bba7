"""Landlock, where it is allowed and there is nothing better; and the profile for a Mac, which is only text here."""

import socket
from pathlib import Path

import anyio
import pytest

from hames.domain.guardrails import GUARDED
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.proof.escape_test import prove
from hames.sandbox.walls import landlock, seatbelt

DEGRADED = SandboxSettings(bubblewrap="/nonexistent/bwrap", allow_degraded=True)
landlocked = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")

# Landlock has no view of its own: what it cannot stop is documented as the reason why it is never silent.
BEYOND_LANDLOCK = (
    "mode_outside",
    "time_outside",
    "attribute_outside",
    "share_memory_by_key",
    "see_another_process",
    "environment_of_another",
    "sysctl",
    "socket_outside",
    "socket_in_the_workspace",
    "moved_state_of_the_harness",
    "settings_of_the_harness",
    "git",
    "repository",
    "hooks",
    "agent",
    "editor",
    "shell_start",
    "logs_of_the_harness",
    "rename_the_workspace",
    "kill_another",
    "abstract",
    "keep_capabilities",
    "make_a_device",
    "raw_socket",
    "packet_socket",
)


async def output(policy: SandboxPolicy, here: Path, command: str) -> tuple[int, str]:
    launch = Launch(argv=("/bin/sh", "-c", command), cwd=str(here), workspace=str(here), policy=policy)
    with anyio.fail_after(60):
        process = await LocalSandbox(DEGRADED).spawn(launch)
        text = b"".join([chunk async for chunk in process.output()]).decode()
        return await process.wait(), text


@landlocked
async def test_landlock_confines_writing_to_the_roots(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "ws", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    command = (
        f"echo x > inside; echo x > {outside}/escaped; echo x > $TMPDIR/scratch && echo scratch; echo x > /dev/null"
    )
    _, text = await output(WorkspaceWrite(), workspace, command)
    assert "scratch\n" in text
    assert (workspace / "inside").exists()
    assert list(outside.iterdir()) == []
    code, _ = await output(ReadOnly(), workspace, "echo x > more")
    assert code != 0
    assert not (workspace / "more").exists()


@landlocked
async def test_landlock_and_the_filter_leave_no_network(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        command = f"bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'; bash -c 'echo x > /dev/udp/127.0.0.1/{port}'"
        code, _ = await output(WorkspaceWrite(), tmp_path, command)
        assert code != 0
        with pytest.raises(BlockingIOError):
            server.accept()


@landlocked
async def test_landlock_is_weaker_in_the_ways_that_are_known() -> None:
    escaped = {finding.attempt for finding in await prove(WorkspaceWrite(), DEGRADED) if finding.escaped}
    assert {name for name in escaped if not any(words in name for words in BEYOND_LANDLOCK)} == set()
    free = {finding.attempt for finding in await prove(DangerFullAccess()) if finding.escaped}
    assert len(escaped) < len(free)


def test_the_profile_for_a_mac_shuts_what_it_opened(tmp_path: Path) -> None:
    text = seatbelt.profile(roots=["/w"], home="/Users/me", scratch="/private/tmp/x", network=False)
    opened = text.index('(allow file-read* file-write* (subpath "/w"))')
    assert opened < text.index('(deny file-write* (subpath "/w/.git/hooks"))')
    for name in GUARDED:
        assert f'"/w/{name}"' in text
    assert '(deny file-read* (subpath "/Users/me/.ssh"))' in text
    assert "(deny default)" in text
    assert "network" not in text
    assert "(allow network*)" in seatbelt.profile(roots=[], home="/h", scratch="/x", network=True)
    assert not seatbelt.VERIFIED


def test_a_path_cannot_leave_its_quotes_in_a_profile() -> None:
    text = seatbelt.profile(roots=['/w") (allow default) ("'], home="/h", scratch="/x", network=False)
    assert '(subpath "/w\\") (allow default) (\\"")' in text
