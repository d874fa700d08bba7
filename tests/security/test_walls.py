"""THREATS, "Files and sandbox" and "Secrets, injection, resources": the rows that the sandbox alone can answer."""

import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walls import as_user, run, users, workspace

from hames.domain.display import printable
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch, Limits
from hames.sandbox.local import LocalSandbox
from hames.sandbox.processes.hide_environment import conceal
from hames.sandbox.proof.escape_test import AttemptResult, prove
from hames.sandbox.proof.targets import interpreter

pytestmark = pytest.mark.needs("bwrap", "bash")

Findings = dict[str, list[AttemptResult]]

WALLED: tuple[SandboxPolicy, ...] = (ReadOnly(), WorkspaceWrite(), WorkspaceWrite(network_access=True))
POLICIES = (*WALLED, DangerFullAccess(), ExternalSandbox())


def named(policy: Any) -> str:
    return policy.__class__.__name__ + ("+network" if getattr(policy, "network_access", None) is True else "")


@pytest.fixture(scope="module")
def findings() -> Findings:
    return {named(policy): anyio.run(prove, policy) for policy in WALLED}


def escaped(findings: Findings, *words: str) -> list[str]:
    """The attempts with one of these words in their names that got out of any walls."""
    tried = [one for list_ in findings.values() for one in list_ if any(word in one.attempt for word in words)]
    assert tried
    return [one.attempt for one in tried if one.escaped]


@pytest.mark.spec("flint/sandbox-workspace-write", "flint/sandbox-read-only")
def test_SBX_1_nothing_outside_the_roots_can_be_changed(findings: Findings) -> None:
    words = ("outside", "out_of_its", "through_", "mount", "device", "sysctl", "sysfs", "sysrq", "root", "cover")
    assert escaped(findings, *words) == []


@pytest.mark.spec("flint/sandbox-workspace-write-network")
@pytest.mark.parametrize("policy", WALLED, ids=named)
async def test_SBX_2_no_network_reaches_anyone(tmp_path: Path, policy: SandboxPolicy, findings: Findings) -> None:
    assert escaped(findings, "connect", "datagram", "send_", "look_up", "socket", "proxy", "metadata") == []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        command = f"echo secret > /dev/tcp/127.0.0.1/{port}; echo x > /dev/udp/127.0.0.1/{port}"
        done = await run(command, tmp_path, policy)
        assert "refused" in done.text or "unreachable" in done.text
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("policy", POLICIES, ids=named)
async def test_SBX_4_no_descriptor_above_two_is_inherited(tmp_path: Path, policy: SandboxPolicy) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    os.set_inheritable(writer, True)
    try:
        done = await run("ls /proc/$$/fd; true", tmp_path, policy)
    finally:
        os.close(reader)
        os.close(writer)
    assert done.text.split() == ["0", "1", "2"]


def test_SBX_4_leftovers_and_other_processes_are_out_of_reach(findings: Findings) -> None:
    assert escaped(findings, "process", "trace", "session", "inherited", "share_memory", "namespace", "terminal") == []


@pytest.mark.parametrize(
    "place", ["/var/spool/cron", "/var/spool/cron/crontabs", "/etc/cron.d", "/etc/systemd/system", "~"]
)
async def test_SBX_4_no_job_can_be_left_for_later(tmp_path: Path, place: str) -> None:
    done = await run(f"mkdir -p {place}/x && touch {place}/hames-test", tmp_path)
    # The home directory inside is a private one: it can be written to, and nobody outside sees it.
    assert (done.code == 0) == (place == "~")
    assert not Path(place).expanduser().joinpath("hames-test").exists()


@pytest.mark.parametrize(
    "command", ["touch x", "echo x > a", "rm a", "mkdir d", "git init", "ln -s a b", "chmod 777 a"]
)
@pytest.mark.spec("flint/sandbox-read-only")
async def test_SBX_5_nothing_is_written_under_read_only_whoever_allowed_it(tmp_path: Path, command: str) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(0o644)
    done = await run(command, tmp_path, ReadOnly())
    assert done.code != 0
    assert [(path.name, path.stat().st_mode & 0o777) for path in tmp_path.iterdir()] == [("a", 0o644)]


@pytest.mark.parametrize("policy", WALLED, ids=named)
async def test_SBX_1_a_workspace_below_tmp_has_nothing_writable_beside_it(policy: SandboxPolicy) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as top:
        workspace = Path(top, "deep", "ws")
        workspace.mkdir(parents=True)
        said = await run(
            "touch ../out; touch ../../out; mkdir ../new; touch /tmp/scratch && echo mine", workspace, policy
        )
        assert said.text.count("Read-only file system") == 3
        assert said.text.splitlines()[-1] == "mine"
        assert [path.name for path in Path(top).rglob("*")] == ["deep", "ws"]


@pytest.mark.spec("flint/sandbox-workspace-write-roots")
async def test_named_roots_can_be_written_and_nothing_beside_them() -> None:
    with workspace() as base:
        for name in ("ws", "more", "other"):
            (base / name).mkdir()
        policy = WorkspaceWrite(writable_roots=(str(base / "more"), str(base / "missing")))
        done = await run("touch here ../more/there; touch ../other/x ../x", base / "ws", policy)
        assert done.code != 0
        written = sorted(str(path.relative_to(base)) for path in base.rglob("*") if path.is_file())
        assert written == ["more/there", "ws/here"]


@pytest.mark.spec("flint/sandbox-danger-full-access", "flint/sandbox-external", "flint/sandbox-external-network")
@pytest.mark.parametrize("policy", [DangerFullAccess(), ExternalSandbox(), ExternalSandbox(network_access="enabled")])
async def test_without_walls_a_command_may_do_what_its_user_may(policy: SandboxPolicy) -> None:
    with workspace() as base:
        (base / "ws").mkdir()
        done = await run("touch ../outside && ls -d /proc/$PPID", base / "ws", policy)
        assert (done.code, done.text) == (0, f"/proc/{os.getpid()}\n")
        assert (base / "outside").exists()


SECRETS = {
    "ANTHROPIC_API_KEY": "canary-1",
    "OPENAI_API_KEY": "canary-2",
    "GITHUB_TOKEN": "canary-3",
    "AWS_SECRET_ACCESS_KEY": "canary-4",
    "AWS_PROFILE": "canary-5",
    "SSH_AUTH_SOCK": "canary-6",
    "DBUS_SESSION_BUS_ADDRESS": "canary-7",
    "MY_COMPANY_SETTING": "canary-8",
    "LD_PRELOAD_": "canary-9",
}


@pytest.mark.parametrize("policy", POLICIES, ids=named)
async def test_SEC_1_no_secret_of_the_environment_reaches_a_tool(tmp_path: Path, policy: SandboxPolicy) -> None:
    sandbox = LocalSandbox(environ={**os.environ, **SECRETS})
    done = await run("env; set; cat /proc/self/environ; cat /proc/$PPID/environ", tmp_path, policy, sandbox=sandbox)
    assert "canary" not in done.text
    assert "HOME=" in done.text


async def snooping(policy_is_danger: bool, concealed: bool) -> str:
    if concealed:
        conceal()
    with workspace() as here:
        files = f"/proc/{os.getpid()}/environ /proc/$PPID/environ /proc/*/environ"
        command = f"cat {files} 2>/dev/null | tr '\\0' '\\n'; exec 3</proc/{os.getpid()}/mem && echo opened; echo end"
        done = await run(command, here, DangerFullAccess() if policy_is_danger else WorkspaceWrite())
    assert os.environ["FAKE_API_KEY"].startswith("canary")  # the harness itself still has it
    return done.text


@pytest.mark.parametrize("user", users())
def test_SEC_2_the_environment_of_the_harness_cannot_be_read(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = f"canary-{time.monotonic_ns()}"
    monkeypatch.setenv("FAKE_API_KEY", canary)
    walled = as_user(user, "test_walls:snooping", False, False)
    concealed = as_user(user, "test_walls:snooping", True, True)
    assert walled.endswith("end\n")
    assert concealed.endswith("end\n")
    assert canary not in walled + concealed
    assert user == "root" or "opened" not in walled + concealed
    bare = as_user(user, "test_walls:snooping", True, False)
    assert canary in bare, "without concealing there is something to find"
    assert "opened" in bare


async def spawned(command: str, here: Path, policy: SandboxPolicy) -> Any:
    argv = ("/bin/bash", "--noprofile", "--norc", "-c", command)
    return await LocalSandbox().spawn(Launch(argv=argv, cwd=str(here), workspace=str(here), policy=policy))


def sleepers(words: str) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if words.encode() in line and b"sleep" in line.split(b"\0")[0]:
                found.append(entry.name)
    return found


@pytest.mark.parametrize("policy", [WorkspaceWrite(), DangerFullAccess()], ids=named)
@pytest.mark.parametrize(
    "stubborn",
    [
        "sleep {0} & wait",
        "trap '' TERM; sleep {0}; sleep {0}",
        "sleep {0} & sleep 0.1; kill -STOP $!; kill -STOP $$",
        "(setsid nohup sleep {0} >/dev/null 2>&1 &); sleep {0}",
    ],
)
async def test_RES_2_what_will_not_die_dies(tmp_path: Path, policy: SandboxPolicy, stubborn: str) -> None:
    duration = f"3600.{time.monotonic_ns()}"
    process = await spawned("echo on; " + stubborn.format(duration), tmp_path, policy)
    reader = process.output()
    with anyio.fail_after(60):
        assert await anext(reader) == b"on\n"
        while not sleepers(duration):
            await anyio.sleep(0.01)
        started = anyio.current_time()
        await process.kill()
        assert anyio.current_time() - started < 2
        assert sleepers(duration) == []
    await reader.aclose()


@pytest.mark.parametrize("policy", [WorkspaceWrite(), DangerFullAccess()], ids=named)
async def test_RES_2_a_result_comes_soon_after_the_command_itself_has_ended(
    tmp_path: Path, policy: SandboxPolicy
) -> None:
    duration = f"3600.{time.monotonic_ns()}"
    with anyio.fail_after(60):
        done = await run(f"sleep {duration} & echo done", tmp_path, policy)
    assert (done.code, done.text) == (0, "done\n")
    assert sleepers(duration) == []


async def bombed() -> list[str]:
    """Bombs of every kind in turn, and an honest command after each."""
    wrong: list[str] = []
    python = interpreter()
    limits = Limits(processes=100, memory_bytes=300 << 20, file_bytes=4 << 20)
    bombs = {
        "processes": "exec sh -c 'i=0; while [ $i -lt 2000 ]; do sleep 60 & i=$((i+1)); done;"
        " sleep 5; echo ALL started'",
        "memory": f"{python} -c 'x = bytearray(2 << 30); print(\"ALL taken\")'",
        "disk": "head -c 50000000 /dev/zero > big && echo ALL written",
        "descriptors": "ulimit -n 256; for i in $(seq 1000); do exec {fd}</dev/null || exit; done; echo ALL opened",
    }
    with workspace() as here:
        sandbox = LocalSandbox()
        for name, command in bombs.items():
            done = await run(command, here, sandbox=sandbox, limits=limits)
            if done.code == 0 or "ALL " in done.text:
                wrong.append(f"{name}: {done.code} {done.text[-200:]}")
            honest = await run("echo still here", here, sandbox=sandbox)
            if honest.text != "still here\n":
                wrong.append(f"after {name}: {honest.text}")
        if (here / "big").stat().st_size > 4 << 20:
            wrong.append("the disk was filled")
    return wrong


@pytest.mark.parametrize("user", users())
def test_RES_3_bombs_go_off_inside_and_the_harness_goes_on(user: str) -> None:
    assert as_user(user, "test_walls:bombed") == []


async def test_RES_3_private_memory_disks_are_bounded(tmp_path: Path) -> None:
    done = await run("df --output=size,target -B1 /tmp /dev/shm /run | tail -n +2; touch /dev/x", tmp_path)
    *sizes, refusal = done.text.splitlines()
    assert len(sizes) == 3
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert all(0 < int(size.split()[0]) <= memory // 4 for size in sizes)
    assert "Read-only" in refusal


ATTACKS = {
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "link": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "title": "\x1b]0;evil\x07",
    "cursor": "\x1b[2J\x1b[H\x1b[1A",
    "device control": "\x1bP+q544e\x1b\\",
    "one-byte controls": "\x9b2J\x9d0;evil\x9c\x90x\x9c",
    "unfinished": "\x1b]0;evil",
    "nested": "\x1b\x1b[0m]52;c;ZXZpbA==\x07",
    "charset": "\x1b(0\x0e\x0f",
    "reset": "\x1bc\x1b#8",
    "bell and backspace": "a\x07\x08\x08b\x7f",
    "reordering": "\u202eevil\u2066x\u2069",
    "answer back": "\x05\x1b[c\x1b[6n",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_INJ_1_nothing_that_commands_a_terminal_is_printed(attack: str) -> None:
    shown = printable(f"before {ATTACKS[attack]} after")
    assert not any(character < " " or "\x7f" <= character <= "\x9f" for character in shown)
    assert not any("\u202a" <= character <= "\u202e" or "\u2066" <= character <= "\u2069" for character in shown)
    assert shown.startswith("before ")
    assert shown.endswith(" after") or attack == "unfinished"


@given(st.text(alphabet=st.sampled_from("\x1b\x9b\x9d\x90[]P;0123mHJ\x07\\ab\n\t\r\u202eé")))
def test_INJ_1_no_text_gets_a_control_character_through(text: str) -> None:
    assert all(character in "\n\t" or " " <= character != "\x7f" for character in printable(text))
    assert not set(printable(text)) & {"\x1b", "\x9b", "\x9d", "\x90", "\x07", "\u202e"}


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "M"])))
def test_INJ_1_honest_text_is_printed_as_it_is(text: str) -> None:
    assert printable(text) == text
