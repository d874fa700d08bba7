"""`networkAccess: true`, with a real sandbox: what a command reaches, what it does not, and what is left afterwards.

The internet of these tests is on the loopback: names have public addresses, and those lead to servers of the test.
"""

import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from network_support import PUBLIC, StandIn, web_server
from walls import as_user, bubblewraps, run, users, workspace

from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.ports import Launch
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.processes.environment import SYSTEM_PATH
from hames.sandbox.walls.network.access import PORT
from hames.sandbox.walls.network.namespace_listener import NamespaceListeners

pytestmark = pytest.mark.needs("bwrap", "bash")


def interpreter() -> str:
    """The system's Python, which every sandbox shows. One of a checkout is not there inside."""
    found = shutil.which("python3", path=os.pathsep.join(SYSTEM_PATH))
    assert found is not None
    return found


ONLINE = WorkspaceWrite(network_access=True)
PYTHON = "/usr/bin/python3"


class Site(http.server.SimpleHTTPRequestHandler):
    """Says who was asked for what; below `/files/` it has files."""

    directory = "/nonexistent"

    def do_GET(self) -> None:
        if self.path.startswith("/files/"):
            self.path = self.path.removeprefix("/files")
            super().do_GET()
            return
        body = f"{self.headers['Host']}{self.path}\n".encode()
        if self.path == "/left-pad":
            version = {"name": "left-pad", "version": "1.2.3"}
            body = json.dumps({**version, "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def sandbox_for(port: int, **more: Any) -> tuple[LocalSandbox, StandIn]:
    outside = StandIn({"site.test": [[PUBLIC]]}, {PUBLIC: port})
    return LocalSandbox(SandboxSettings(**more), outside=outside), outside


@pytest.fixture
def here() -> Iterator[Path]:
    with workspace() as path:
        yield path


# Clients

CLIENTS = {
    "curl": ("curl", "curl -sS http://site.test/page", "site.test/page"),
    "curl with SOCKS": (
        "curl",
        f"curl -sS --noproxy '' --socks5-hostname 127.0.0.1:{PORT} http://site.test/",
        "site.test/",
    ),
    "curl over a tunnel": ("curl", "curl -sS --proxytunnel http://site.test/page", "site.test/page"),
    "wget": ("wget", "wget -qO- http://site.test/page", "site.test/page"),
    "urllib": (
        "python3",
        f"{PYTHON} -c 'import urllib.request as u; print(u.urlopen(\"http://site.test/page\").read().decode())'",
        "site.test/page",
    ),
    "npm": ("npm", "npm view left-pad version --registry http://site.test/", "1.2.3"),
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_usual_clients_reach_a_public_host_without_being_told(client: str, here: Path) -> None:
    program, command, expected = CLIENTS[client]
    if shutil.which(program, path="/usr/bin:/bin") is None:
        pytest.skip(f"this machine has no {program}")
    with web_server(Site) as port:
        sandbox, outside = sandbox_for(port)
        done = await run(command, here, ONLINE, sandbox=sandbox)
    sandbox.close()
    assert done.code == 0, done
    assert [note.partition(" (")[0] for note in done.notes] == ["network: reached site.test:80"]
    assert expected in done.text
    assert set(outside.dialled) == {(PUBLIC, 80)}


@pytest.mark.needs("openssl", "curl")
async def test_tls_goes_through_untouched(here: Path, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", here / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=site.test"),
            *("-addext", "subjectAltName=DNS:site.test", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    commands = [
        "curl -sS --cacert cert.pem https://site.test/page",
        f"SSL_CERT_FILE=cert.pem {PYTHON} -c "
        "'import urllib.request as u; print(u.urlopen(\"https://site.test/page\").read().decode())'",
    ]
    with web_server(Site, context) as port:
        for command in commands:
            sandbox, outside = sandbox_for(port)
            done = await run(command, here, ONLINE, sandbox=sandbox)
            sandbox.close()
            assert "site.test/page" in done.text
            assert outside.dialled == [(PUBLIC, 443)]


@pytest.mark.needs("git")
async def test_git_clones_over_http(here: Path, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path / "made")]
    subprocess.run(["git", "init", "-q", str(tmp_path / "made")], check=True)
    (tmp_path / "made" / "file").write_text("hello")
    for words in (["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(tmp_path / "made"), str(tmp_path / "made.git")], check=True)
    subprocess.run(["git", "-C", str(tmp_path / "made.git"), "update-server-info"], check=True)
    site = type("Files", (Site,), {"__init__": lambda self, *a: Site.__init__(self, *a, directory=str(tmp_path))})
    with web_server(site) as port:
        sandbox, _ = sandbox_for(port)
        done = await run(
            "git clone -q http://site.test/files/made.git got && cat got/file", here, ONLINE, sandbox=sandbox
        )
    sandbox.close()
    assert (done.code, done.text) == (0, "hello"), done


async def test_pip_downloads_from_an_index(here: Path, tmp_path: Path) -> None:
    if not Path("/usr/bin/pip").exists():
        pytest.skip("this machine has no /usr/bin/pip")
    wheel = "tiny-1.0-py3-none-any.whl"
    script = (
        "import zipfile, sys\n"
        "with zipfile.ZipFile(sys.argv[1], 'w') as z:\n"
        "    z.writestr('tiny.py', '')\n"
        "    z.writestr('tiny-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n')\n"
        "    z.writestr('tiny-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')\n"
        "    z.writestr('tiny-1.0.dist-info/RECORD', '')\n"
    )
    (tmp_path / "simple" / "tiny").mkdir(parents=True)
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "simple" / "tiny" / wheel)], check=True)
    (tmp_path / "simple" / "tiny" / "index.html").write_text(f'<a href="{wheel}">{wheel}</a>')
    site = type("Files", (Site,), {"__init__": lambda self, *a: Site.__init__(self, *a, directory=str(tmp_path))})
    index = "--index-url http://site.test/files/simple --trusted-host site.test --isolated"
    with web_server(site) as port:
        sandbox, _ = sandbox_for(port)
        command = f"/usr/bin/pip download -q --no-deps --no-cache-dir {index} -d . tiny"
        done = await run(command, here, ONLINE, sandbox=sandbox)
    sandbox.close()
    assert (here / wheel).exists(), done


async def test_java_uses_the_proxy_and_says_so_in_one_line(here: Path) -> None:
    if not Path("/usr/bin/java").exists():
        pytest.skip("this machine has no /usr/bin/java")
    (here / "Fetch.java").write_text(
        "public class Fetch { public static void main(String[] a) throws Exception {"
        'System.out.print(new String(new java.net.URL("http://site.test/page").openStream().readAllBytes())); } }'
    )
    with web_server(Site) as port:
        sandbox, _ = sandbox_for(port)
        done = await run("java Fetch.java", here, ONLINE, sandbox=sandbox)
    sandbox.close()
    if "Fetch.java" in done.text:
        pytest.skip("this Java cannot compile")
    assert done.text.splitlines()[-1] == "site.test/page"


@pytest.mark.needs("curl")
async def test_what_is_refused_is_noted_on_the_command(here: Path) -> None:
    sandbox, outside = sandbox_for(1)
    done = await run(
        "curl -s http://10.0.0.5/; curl -s https://10.0.0.5/; curl -s http://nowhere.test/",
        here,
        ONLINE,
        sandbox=sandbox,
    )
    sandbox.close()
    assert done.notes == (
        "refused: 10.0.0.5:80 is a private address",
        "refused: 10.0.0.5:443 is a private address",
        "could not connect to nowhere.test:80: the name was not found: name or service not known",
    )
    assert done.text.startswith("refused: 10.0.0.5:80 is a private address\n")
    assert outside.dialled == []


# What is not reached

HOSTILE = """
import os, socket, struct, sys
def tried(family, kind, address, data=b"GET / HTTP/1.1\\r\\n\\r\\n"):
    with socket.socket(family, kind) as talk:
        talk.settimeout(2)
        try:
            talk.connect(address)
            talk.send(data)
            if kind == socket.SOCK_STREAM:
                return "reached" if talk.recv(10) else "closed"
            return "sent"
        except OSError as error:
            return type(error).__name__
tcp, tcp6, udp, abstract, own = sys.argv[1:6]
I4, I6, U, S, D = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
for address in ("127.0.0.1", "127.8.8.8", "0.0.0.0", own):
    print("tcp", tried(I4, S, (address, int(tcp))))
    print("udp", tried(I4, D, (address, int(udp))))
for address in ("::1", "::ffff:127.0.0.1", "::"):
    print("tcp6", tried(I6, S, (address, int(tcp6))))
print("abstract", tried(U, S, "\\0" + abstract))
print("metadata", tried(I4, S, ("169.254.169.254", 80)))
print("dns", tried(I4, D, ("8.8.8.8", 53)))
for host in ("127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", own):
    for ask in (b"CONNECT %b:%b HTTP/1.1\\r\\n\\r\\n", b"GET http://%b:%b/ HTTP/1.1\\r\\n\\r\\n"):
        with socket.create_connection(("127.0.0.1", PORT), 5) as talk:
            talk.sendall(ask % (host.encode(), tcp.encode()))
            print("proxy", talk.recv(12).decode())
    with socket.create_connection(("127.0.0.1", PORT), 5) as talk:
        name = host.strip("[]").encode()
        talk.sendall(b"\\5\\1\\0" + b"\\5\\1\\0\\3" + bytes([len(name)]) + name + struct.pack(">H", int(tcp)))
        print("socks", talk.recv(2) + talk.recv(2))
""".replace("PORT", str(PORT))


async def unreachable(bubblewrap: str) -> list[str]:
    """What a hostile command with network access says, and what the servers of the host heard."""
    sys.executable = interpreter() or sys.executable
    own, heard = _own_address(), list[str]()
    with (
        workspace() as here,
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as tcp6,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as abstract,
    ):
        udp.bind(("127.0.0.1", 0))
        try:
            tcp6.bind(("::1", 0))
        except OSError:
            tcp6.bind(("", 0))
        tcp6.listen()
        name = f"hames-test-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        (here / "hostile.py").write_text(HOSTILE)
        ports = f"{tcp.getsockname()[1]} {tcp6.getsockname()[1]} {udp.getsockname()[1]} {name} {own}"
        sandbox = LocalSandbox(SandboxSettings(bubblewrap=bubblewrap), outside=StandIn())
        done = await run(f"{PYTHON} hostile.py {ports}", here, ONLINE, sandbox=sandbox)
        sandbox.close()
        for server in (tcp, tcp6, abstract, udp):
            server.setblocking(False)
            with suppress(BlockingIOError):
                _ = server.recv(10) if server is udp else server.accept()
                heard.append(f"HEARD {server.family.name} {server.type.name}")
    return [*done.text.splitlines(), *heard]


def _own_address() -> str:
    """An address of this machine beside the loopback's, if it has one. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]
    return "127.0.0.1"


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("bubblewrap", bubblewraps())
def test_nothing_of_this_machine_is_reached_with_network_access(user: str, bubblewrap: str) -> None:
    said: list[str] = as_user(user, "test_network_access:unreachable", bubblewrap)
    assert not [line for line in said if "HEARD" in line or "reached" in line or " 200" in line], said
    assert said.count("proxy HTTP/1.1 403") == 12
    assert said.count("socks b'\\x05\\x00\\x05\\x02'") == 6
    assert "metadata OSError" in said
    assert "abstract ConnectionRefusedError" in said


async def works(bubblewrap: str) -> list[Any]:
    sys.executable = interpreter() or sys.executable
    with workspace() as here, web_server(Site) as port:
        sandbox, outside = sandbox_for(port, bubblewrap=bubblewrap)
        done = await run("curl -sS http://site.test/a http://site.test/b", here, ONLINE, sandbox=sandbox)
        sandbox.close()
        return [done.code, done.text, outside.dialled]


@pytest.mark.needs("curl")
@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("bubblewrap", bubblewraps())
def test_it_works_for_root_and_for_others_with_every_bubblewrap(user: str, bubblewrap: str) -> None:
    said = as_user(user, "test_network_access:works", bubblewrap)
    assert said == [0, "site.test/a\nsite.test/b\n", [[PUBLIC, 80], [PUBLIC, 80]]]


async def test_a_server_of_the_commands_own_is_reached_on_its_own_loopback(here: Path) -> None:
    command = (
        f"{PYTHON} -m http.server 8099 --bind 127.0.0.1 >/dev/null 2>&1 & "
        f"{PYTHON} - <<'END'\n"
        "import socket, time, urllib.request\n"
        "for _ in range(200):\n"
        "    try:\n"
        "        socket.create_connection(('127.0.0.1', 8099)).close()\n"
        "        break\n"
        "    except OSError:\n"
        "        time.sleep(0.05)\n"
        "print(urllib.request.urlopen('http://127.0.0.1:8099/').status)\n"
        "print(urllib.request.urlopen('http://localhost:8099/').status)\n"
        "END"
    )
    for policy in (ONLINE, WorkspaceWrite()):
        done = await run(command, here, policy)
        assert done.text.splitlines()[-2:] == ["200", "200"], done


async def test_without_network_access_there_is_no_proxy_and_no_variable(here: Path) -> None:
    for policy in (WorkspaceWrite(), ReadOnly()):
        done = await run(f"env | grep -i proxy; echo x > /dev/tcp/127.0.0.1/{PORT}", here, policy)
        assert "http" not in done.text
        assert "refused" in done.text


async def test_the_variables_name_the_proxy_whatever_else_is_inherited(here: Path) -> None:
    environ = {"HOME": "/root", "HTTPS_PROXY": "http://127.0.0.1:9", "JAVA_TOOL_OPTIONS": "-Xmx1g", "no_proxy": "*"}
    inherit = ("HTTPS_PROXY", "JAVA_TOOL_OPTIONS", "no_proxy")
    sandbox = LocalSandbox(SandboxSettings(inherit=inherit), environ=environ, outside=StandIn())
    done = await run("env", here, ONLINE, sandbox=sandbox)
    sandbox.close()
    found = dict(line.split("=", 1) for line in done.text.splitlines())
    url = f"http://127.0.0.1:{PORT}"
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        assert found[name] == found[name.lower()] == url
    assert found["NO_PROXY"] == found["no_proxy"] == "localhost,127.0.0.1,::1"
    assert found["NODE_USE_ENV_PROXY"] == "1"
    assert found["JAVA_TOOL_OPTIONS"].startswith("-Xmx1g -Dhttp.proxyHost=127.0.0.1")


# What is left


def _sockets_of_ours() -> set[str]:
    found: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(entry.readlink()))
    return {link for link in found if link.startswith(("socket:", "pipe:", "net:"))}


@pytest.mark.needs("curl")
async def test_nothing_is_left_open_when_the_command_has_ended(here: Path) -> None:
    with web_server(Site) as port:
        sandbox, _ = sandbox_for(port)
        await run("curl -s http://site.test/", here, ONLINE, sandbox=sandbox)  # what stays for the next is there now
        before = _sockets_of_ours()
        threads = threading.active_count()
        for _ in range(5):
            done = await run(
                "curl -s http://site.test/ & sleep 60 & disown; curl -s http://site.test/",
                here,
                ONLINE,
                sandbox=sandbox,
            )
            assert done.text.count("site.test/") >= 1
        assert _sockets_of_ours() <= before
        assert threading.active_count() <= threads + 4  # the web server's own
        sandbox.close()


async def test_the_listener_is_nobodys_but_ours(here: Path) -> None:
    """Neither the command nor what it leaves running holds it, and no other command reaches it."""
    launch = Launch(
        argv=("/bin/sh", "-c", "ls -l /proc/self/fd /proc/$$/fd; echo ready; sleep 60"),
        cwd=str(here),
        workspace=str(here),
        policy=ONLINE,
    )
    sandbox = LocalSandbox(outside=StandIn())
    with anyio.fail_after(60):
        process = await sandbox.spawn(launch)
        output, said = process.output(), b""
        async for chunk in output:
            said += chunk
            if b"ready" in said:
                break
        assert b"socket:" not in said
        with pytest.raises(ConnectionRefusedError):
            await anyio.to_thread.run_sync(socket.create_connection, ("127.0.0.1", PORT))
        other = await run(f"echo x > /dev/tcp/127.0.0.1/{PORT}", here, WorkspaceWrite(), sandbox=sandbox)
        assert "refused" in other.text
        await process.kill()
        await output.aclose()
    sandbox.close()


DOWNLOAD = """
import urllib.request
answer = urllib.request.urlopen("http://site.test/")
while answer.read(9999):
    print("some", flush=True)
"""


async def test_a_command_that_is_killed_during_a_download_leaves_nothing(here: Path) -> None:
    """The server sends for ever; the command, the connection and the proxy end together."""
    ended = threading.Event()

    class Endless(Site):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                ended.set()

    with web_server(Endless) as port:
        sandbox, _ = sandbox_for(port)
        launch = Launch(
            argv=(PYTHON, "-c", DOWNLOAD),
            cwd=str(here),
            workspace=str(here),
            policy=ONLINE,
        )
        with anyio.fail_after(60):
            process = await sandbox.spawn(launch)
            async for chunk in process.output():
                if b"some" in chunk:
                    await process.kill()
        assert await anyio.to_thread.run_sync(ended.wait, 20)
        sandbox.close()


@pytest.mark.needs("curl")
async def test_commands_at_the_same_time_have_their_own_proxies_and_notes(here: Path) -> None:
    with web_server(Site) as port:
        sandbox, _ = sandbox_for(port)
        outcomes: dict[int, Any] = {}

        async def one(number: int) -> None:
            command = f"curl -s http://10.0.0.{number}/; curl -s http://site.test/{number}"
            outcomes[number] = await run(command, here, ONLINE, sandbox=sandbox)

        async with anyio.create_task_group() as tasks:
            for number in range(1, 9):
                tasks.start_soon(one, number)
        sandbox.close()
    for number, done in outcomes.items():
        assert done.text.endswith(f"site.test/{number}\n")
        reached, refused = done.notes
        assert reached.startswith("network: reached site.test:80 (")
        assert refused == f"refused: 10.0.0.{number}:80 is a private address"


@pytest.mark.needs("curl")
async def test_the_small_process_that_opens_listeners_may_be_killed(here: Path) -> None:
    with web_server(Site) as port:
        sandbox, _ = sandbox_for(port)
        for _ in range(3):
            done = await run("curl -s http://site.test/", here, ONLINE, sandbox=sandbox)
            assert done.text == "site.test/\n"
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and _is_our_listener_program(entry):
                    os.kill(int(entry.name), signal.SIGKILL)
        sandbox.close()


def _is_our_listener_program(entry: Path) -> bool:
    try:
        words = (entry / "cmdline").read_bytes()
        parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return False
    return b"listener_program.py" in words and int(parent) == os.getpid()


# Failing closed


async def test_without_its_listener_the_command_is_not_started(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    sandbox = LocalSandbox(outside=StandIn())
    with pytest.raises(SandboxUnavailable, match="no network for the command"):
        await run("touch began", here, ONLINE, sandbox=sandbox)
    assert not (here / "began").exists()
    monkeypatch.undo()
    done = await run("touch began", here, ONLINE, sandbox=sandbox)
    assert done.code == 0
    sandbox.close()


def test_a_listener_is_only_opened_in_the_namespace_that_is_meant() -> None:
    listeners = NamespaceListeners()
    try:
        for pid, namespace in ((os.getpid(), 0), (os.getpid(), 1), (2**22 + 1, 0)):
            with pytest.raises(OSError):
                listeners.open(pid, namespace, PORT)
    finally:
        listeners.close()


async def setuid(path: str) -> str:
    with workspace() as here:
        try:
            await run(
                "touch began", here, ONLINE, sandbox=LocalSandbox(SandboxSettings(bubblewrap=path), outside=StandIn())
            )
        except SandboxUnavailable as refusal:
            return f"{refusal} {(here / 'began').exists()}"
        return "started"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can set the bit")
def test_a_bubblewrap_with_the_setuid_bit_gives_no_network_and_says_why() -> None:
    with workspace() as place:
        place.chmod(0o755)
        path = place / "bwrap"
        shutil.copy(bubblewraps()[0], path)
        path.chmod(0o4755)
        if subprocess.run([path, "--version"], user=1234, capture_output=True, check=False).returncode:
            pytest.skip("this bubblewrap does not find its libraries with the setuid bit")
        said = as_user("1234", "test_network_access:setuid", str(path))
    assert said.endswith(" False")
    assert "setuid" in said


async def test_landlock_gives_no_network_and_says_why(here: Path) -> None:
    from hames.sandbox.walls import landlock

    if landlock.abi() == 0:
        pytest.skip("this kernel has no Landlock")
    sandbox = LocalSandbox(SandboxSettings(bubblewrap="/nonexistent/bwrap", allow_degraded=True))
    with pytest.raises(SandboxUnavailable, match="no network for the command"):
        await run("touch began", here, ONLINE, sandbox=sandbox)
    assert not (here / "began").exists()


@pytest.mark.needs("curl")
async def test_closing_the_sandbox_first_is_no_harm(here: Path) -> None:
    with web_server(Site) as port:
        sandbox, _ = sandbox_for(port)
        launch = Launch(
            argv=("/bin/sh", "-c", "curl -s http://site.test/; echo ready; sleep 60"),
            cwd=str(here),
            workspace=str(here),
            policy=ONLINE,
        )
        with anyio.fail_after(60):
            process = await sandbox.spawn(launch)
            async for chunk in process.output():
                if b"ready" in chunk:
                    sandbox.close()
                    await process.kill()
        done = await run("curl -s http://site.test/", here, ONLINE, sandbox=sandbox)  # it starts again
        assert done.text == "site.test/\n"
        sandbox.close()
