"""The harness is not reached from what it starts: who may connect, by the namespaces a program lives in."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import walls
from walls import as_user, bubblewraps, run, workspace

from hames.clock_and_ids import SystemClock
from hames.domain.commands import ListThreads, ThreadPage
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.processes.environment import SYSTEM_PATH
from hames.sandbox.walls import landlock
from hames.server.guard import peer as guard_peer
from hames.server.guard.namespaces import is_unix_peer_ours
from hames.testing.fakes.model import ScriptedModel
from server_support import events, port_of, running, serve_process
from support import engine

pytestmark = pytest.mark.needs("bwrap", "bash")


def interpreter() -> str:
    """The system's Python, which every sandbox shows. One of a checkout is not there inside."""
    found = shutil.which("python3", path=os.pathsep.join(SYSTEM_PATH))
    assert found is not None
    return found


NOBODY_ELSE = "54321"
"""A user that nothing else on this machine runs as."""
USERS = ["root", NOBODY_ELSE] if os.getuid() == 0 else [str(os.getuid())]

CLIENT = r"""
import ctypes, os, socket, struct, sys
how, path, port = sys.argv[1:4]
libc = ctypes.CDLL(None)
if "undumpable" in how:
    libc.prctl(4, 0, 0, 0, 0)
if "filtered" in how:
    libc.prctl(38, 1, 0, 0, 0)
    allow = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000), 8)
    libc.prctl(22, 2, struct.pack("@HL", 1, ctypes.addressof(allow)), 0, 0)
by_path, by_port = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_INET)
by_path.connect(path)
by_port.connect(("127.0.0.1", int(port)))
if "left" in how and os.fork():
    os._exit(0)
print("ready", flush=True)
sys.stdin.read()
"""


def _wrappers(bubblewrap: str) -> dict[str, list[str]]:
    root = os.geteuid() == 0
    alone = ["unshare"] if root else ["unshare", "--user"]
    hard = [bubblewrap, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    return {
        "plain": [],
        "undumpable": [],
        "filtered": [],
        "left": [],
        "user namespace": ["unshare", "--user"],
        "mount namespace": [*alone, "--mount"],
        "process namespace": [*alone, "--pid", "--fork"],
        "bubblewrap": hard,
        "bubblewrap undumpable": hard,
        "bubblewrap without a process namespace": [word for word in hard if word != "--unshare-pid"],
    }


async def verdicts(bubblewrap: str) -> dict[str, list[bool]]:
    """For each kind of client: whether it is let in by the socket and by the port."""
    python = interpreter()
    assert python is not None
    found: dict[str, list[bool]] = {}
    place = Path(tempfile.mkdtemp(prefix="hames-peers-", dir="/var/tmp"))
    path = str(place / "s")
    try:
        with socket.socket(socket.AF_UNIX) as by_path, socket.socket(socket.AF_INET) as by_port:
            by_path.bind(path)
            by_port.bind(("127.0.0.1", 0))
            for door in (by_path, by_port):
                door.listen()
                door.settimeout(60)
            for how, wrapper in _wrappers(bubblewrap).items():
                words = [*wrapper, python, "-I", "-S", "-c", CLIENT, how, path, str(by_port.getsockname()[1])]
                pipe = subprocess.PIPE
                with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as client:
                    assert client.stdin is not None and client.stdout is not None and client.stderr is not None
                    assert client.stdout.readline() == "ready\n", client.stderr.read()
                    if how == "left":
                        client.wait(30)
                    a, b = by_path.accept()[0], by_port.accept()[0]
                    with a, b:
                        found[how] = [is_unix_peer_ours(a), guard_peer.refusal(b.getsockname(), b.getpeername()) == ""]
                    client.stdin.close()
    finally:
        shutil.rmtree(place)
    return found


EXPECTED = {
    "plain": [True, True],
    "undumpable": [True, True],
    "filtered": [False, True],  # so confined are commands without bubblewrap, and they have no port to come from
    "left": [False, True],
    "user namespace": [False, False],
    "mount namespace": [False, False],
    "process namespace": [False, False],
    "bubblewrap": [False, False],
    "bubblewrap undumpable": [False, False],
    "bubblewrap without a process namespace": [False, False],
}


@pytest.mark.needs("unshare")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("bubblewrap", bubblewraps())
def test_programs_in_other_namespaces_are_refused_and_all_others_are_not(user: str, bubblewrap: str) -> None:
    assert as_user(user, "test_peers:verdicts", bubblewrap) == EXPECTED


@pytest.mark.needs("unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount /proc anew")
@pytest.mark.parametrize("namespaces", [["--pid", "--fork", "--mount-proc"], ["--user", "--map-root-user", "--mount"]])
def test_a_harness_that_runs_in_a_container_itself_knows_its_neighbours(namespaces: list[str]) -> None:
    words = [sys.executable, walls.__file__, "root", "test_peers:verdicts", json.dumps([bubblewraps()[0]])]
    done = subprocess.run(["unshare", *namespaces, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == EXPECTED


# A sandboxed command and its own server

REHEARSED = ("driven",)
"""Run once before the user changes: a server imports much of the standard library late."""

DRIVE = r"""
import os, socket, struct, sys
path, port = sys.argv[1], int(sys.argv[2])
HELLO = b'{"id":1,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}\n'
START = b'{"id":2,"method":"thread/start","params":{}}\n'
POST = b"POST /threads HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n" % port
POST += b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"

def talked(name, family, address, *words):
    said = b""
    with socket.socket(family, socket.SOCK_STREAM) as talk:
        talk.settimeout(3)
        try:
            talk.connect(address)
            for word in words:
                talk.sendall(word)
            if family == socket.AF_UNIX:
                talk.shutdown(socket.SHUT_WR)
            while len(said) < 4000:
                more = talk.recv(4000)
                if not more:
                    break
                said += more
        except OSError as error:
            said += type(error).__name__.encode()
    print(name, said[:200])

directory = os.path.dirname(path)
for first in (b"flint\n", b"bootstrap\n"):
    for name, address in (("absolute", path), ("relative", "hames.sock")):
        try:
            os.chdir(directory)
            if name == "absolute" and len(path) > 107:
                address = "/proc/self/fd/%d/hames.sock" % os.open(directory, os.O_PATH)
            talked(name, socket.AF_UNIX, address, first, HELLO, START)
        except OSError as error:
            print(name, type(error).__name__)
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1"), (socket.AF_INET, "0.0.0.0")):
    talked("port", family, (host, port), POST)
proxy = os.environ.get("HTTP_PROXY", "")
if proxy:
    to = ("127.0.0.1", int(proxy.rpartition(":")[2]))
    for host in ("127.0.0.1", "localhost", "[::1]", "127.1"):
        talked("proxy", socket.AF_INET, to, b"CONNECT %b:%d HTTP/1.1\r\n\r\n" % (host.encode(), port), POST)
        talked("proxy", socket.AF_INET, to, POST.replace(b"/threads", b"http://%b:%d/threads" % (host.encode(), port)))
print("end")
"""


@contextmanager
def _home(*, long: bool) -> Iterator[Path]:
    with workspace() as base:
        place = base / ("a" * 110 if long else "a")
        place.mkdir()
        yield place


@asynccontextmanager
async def _served(place: Path, name: str) -> AsyncGenerator[tuple[Any, str, int]]:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, place / name) as server,
    ):
        yield its_engine, str(place / name / "hames.sock"), port_of(server)


async def driven(policy: str) -> list[Any]:
    """What a command in a sandbox of this process hears from the server of this process, and its threads: for a data
    directory that the sandbox knows and for another one, with a short path and with a long one."""
    sys.executable = interpreter() or sys.executable
    found: list[Any] = []
    sandbox = LocalSandbox(SandboxSettings())
    for name in (".harness", "data"):
        for long in (False, True):
            with _home(long=long) as place:
                async with _served(place, name) as (its_engine, path, port):
                    (place / "drive.py").write_text(DRIVE)
                    command = f"{sys.executable} -I -S drive.py {path} {port}"
                    done = await run(command, place, walls.policy(policy), sandbox=sandbox)
                    page = await its_engine.execute(ListThreads())
                    assert isinstance(page, ThreadPage)
                    found.append([name, done.text, len(page.threads)])
    sandbox.close()
    return found


POLICIES = {
    "readOnly": '{"type": "readOnly"}',
    "workspaceWrite": '{"type": "workspaceWrite"}',
    "with network": '{"type": "workspaceWrite", "networkAccess": true}',
}


def _check_refusals(said: str, name: str, *, network: bool) -> None:
    lines = said.splitlines()
    assert lines[-1] == "end", said
    assert not [line for line in lines if "result" in line or " 200 " in line or " 201 " in line], said
    by_path = [line for line in lines if line.startswith(("absolute", "relative"))]
    # Either it is covered, or its peer is refused.
    assert len(by_path) == 4
    assert all("Error" in line or "takes only programs of the same user" in line for line in by_path), said
    if name == ".harness":
        assert all("Error" in line for line in by_path), said
    assert [line for line in lines if line.startswith("port")] == ["port b'ConnectionRefusedError'"] * 3
    through = [line for line in lines if line.startswith("proxy")]
    assert len(through) == (8 if network else 0)
    assert all("403 Forbidden" in line or "400 Bad Request" in line for line in through), said


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_command_cannot_drive_the_server_it_came_from(user: str, policy: str) -> None:
    outcomes = as_user(user, "test_peers:driven", POLICIES[policy])
    assert len(outcomes) == 4
    for name, said, threads in outcomes:
        assert threads == 0, said
        _check_refusals(said, name, network=policy == "with network")


@pytest.mark.parametrize("policy", POLICIES)
async def test_hames_sandbox_does_not_let_a_command_drive_a_server(policy: str) -> None:
    hames = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", "sandbox"]
    for name in (".harness", "data"):
        with _home(long=True) as place:
            async with _served(place, name) as (its_engine, path, port):
                (place / "drive.py").write_text(DRIVE)
                command = [interpreter() or "python3", "-I", "-S", "drive.py", path, str(port)]
                words = [*hames, "--cwd", str(place), "--sandbox", POLICIES[policy], "--", *command]
                done = await anyio.run_process(words, check=False)
                assert done.returncode == 0, done.stderr
                _check_refusals(done.stdout.decode(), name, network=policy == "with network")
                page = await its_engine.execute(ListThreads())
                assert isinstance(page, ThreadPage)
                assert len(page.threads) == 0


@pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
@pytest.mark.parametrize("policy", [ReadOnly(), WorkspaceWrite()], ids=["readOnly", "workspaceWrite"])
async def test_a_command_under_landlock_is_refused_although_it_shares_our_namespaces(
    tmp_path: Path, policy: SandboxPolicy
) -> None:
    ask = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(200))"
    sandbox = LocalSandbox(SandboxSettings(bubblewrap="/nonexistent/bwrap", allow_degraded=True))
    async with _served(tmp_path, ".harness") as (_, path, _):
        done = await run(f"{interpreter()} -I -S -c '{ask}' {path}", tmp_path, policy, sandbox=sandbox)
    sandbox.close()
    assert "takes only programs of the same user" in done.text, done


async def test_a_command_without_walls_is_one_of_the_users_programs(tmp_path: Path) -> None:
    """`dangerFullAccess` means it: nothing keeps such a command from the server, and the documentation says so."""
    async with _served(tmp_path, ".harness") as (its_engine, path, port):
        (tmp_path / "drive.py").write_text(DRIVE)
        done = await run(f"{sys.executable} drive.py {path} {port}", tmp_path, DangerFullAccess())
        assert "result" in done.text
        page = await its_engine.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        assert len(page.threads) > 0


async def test_a_program_in_a_sandbox_hears_why_it_is_refused(tmp_path: Path) -> None:
    """One that shares the host's network, as other programs' sandboxes may: over HTTP and over a WebSocket."""
    ask = (
        "import http.client, sys\n"
        "for path, more in (('/threads', {}), ('/events', {}), ('/healthz', {}), ('/ws', {'Upgrade': 'websocket',"
        " 'Connection': 'Upgrade', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='})):\n"
        "    talk = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=60)\n"
        "    talk.request('GET', path, headers=more)\n"
        "    answer = talk.getresponse()\n"
        "    print(answer.status, answer.read().decode())\n"
    )
    wrapper = [bubblewraps()[0], "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc"]
    async with _served(tmp_path, "data") as (_, _, port):
        done = await anyio.run_process([*wrapper, interpreter() or "python3", "-I", "-c", ask, str(port)], check=True)
        lines = done.stdout.decode().splitlines()
        assert lines == [f"403 {guard_peer.ELSEWHERE}"] * 4
        async with httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200


async def test_with_a_token_the_token_decides(tmp_path: Path) -> None:
    wrapper = [bubblewraps()[0], "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc"]
    ask = (
        "import http.client, sys\n"
        "for more in ({}, {'Authorization': 'Bearer ' + sys.argv[2]}):\n"
        "    talk = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=60)\n"
        "    talk.request('GET', '/threads', headers=more)\n"
        "    print(talk.getresponse().status)\n"
    )
    token = "a-token-that-nobody-guesses-0123456789"
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", token=token) as server,
    ):
        words = [*wrapper, interpreter() or "python3", "-I", "-c", ask, str(port_of(server)), token]
        done = await anyio.run_process(words, check=True)
        assert done.stdout.decode().split() == ["401", "200"]


@pytest.mark.parametrize("long", [False, True], ids=["short path", "long path"])
@pytest.mark.parametrize("policy", [ReadOnly(), WorkspaceWrite(), WorkspaceWrite(network_access=True)], ids=str)
async def test_a_model_cannot_drive_its_own_server_with_a_command(policy: SandboxPolicy, *, long: bool) -> None:
    """`hames serve` as people start it, and a model that tries."""
    with _home(long=long) as place:
        work = place / "work"
        work.mkdir()
        (work / "drive.py").write_text(DRIVE)
        kind = type(policy).__name__
        options = f'type = "{kind[0].lower()}{kind[1:]}"'
        if getattr(policy, "network_access", False):
            options += ", networkAccess = true"
        (place / "none").write_text(f"sandbox = {{ {options} }}\n")
        python = interpreter()
        command = f'exec {python} -I -S drive.py {work}/.harness/hames.sock "$(cat port)"'
        script = [[{"call": "shell", "with": {"command": command}}], "Done."]
        async with (
            serve_process(place, script, "--approval-policy", "never") as (_, url),
            httpx2.AsyncClient(base_url=url, trust_env=False, timeout=30) as client,
            events(client) as heard,
        ):
            (work / "port").write_text(url.rpartition(":")[2])
            assert (await client.post("/prompt", json={"content": "go"})).status_code == 200
            with anyio.fail_after(120):  # the command takes its time on a busy machine
                while not any(event.get("state") == "idle" for event in heard.events[1:]):
                    await heard.next()
            listed = (await client.get("/threads")).json()
            (thread,) = listed["threads"]  # the command has made no other
            text = (await client.get(f"/threads/{thread['id']}/export")).text
        said = [line for line in text.splitlines() if line.startswith(("absolute", "relative", "port", "proxy"))]
        assert len(said) == (15 if getattr(policy, "network_access", False) else 7), text
        for line in said:
            assert "Error" in line or "takes only programs" in line or " 403 " in line or " 400 " in line, text
