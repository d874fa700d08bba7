"""The network attacks of the threat list (1 to 8: who is let in), against the real listener.

Each attack must fail, leave no trace in any thread, and leave the next honest request working.
"""

import base64
import os
import signal
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path

import anyio
import httpx2
import msgspec
import pytest
from net_support import UPGRADE, house, threads
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hames.clock_and_ids import SystemClock
from hames.server.app import Server
from hames.server.guard import peer as guard_peer
from hames.server.guard.peer import find_in_table
from hames.server.guard.token import Keyring, token_in
from server_support import following, http, port_of, raw

TOKEN = "a-token-that-nobody-guesses-0123456789"


PROMPT = b'{"content": "do evil"}'

# NET-1


REQUESTS = [
    ("POST", "/prompt"),
    ("GET", "/events"),
    ("POST", "/cancel"),
    ("GET", "/ws"),
    ("GET", "/threads"),
    ("GET", "/"),
]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "evil.example",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.:{port}",
    ],
)
async def test_net_1_a_rebound_name_reaches_nothing(tmp_path: Path, host: str) -> None:
    async with house(tmp_path) as (its_engine, server), http(server) as client:
        port = port_of(server)
        for (method, path), origin in product(REQUESTS, ("", f"http://evil.example:{port}")):
            headers = {"host": host.format(port=port), "content-type": "application/json"}
            if origin:
                headers["origin"] = origin
            if path == "/ws":
                headers |= UPGRADE
            answer = await client.request(method, path, headers=headers, content=PROMPT if method == "POST" else None)
            tried = (method, path, origin)
            assert answer.status_code in (403, 421), tried
            assert "text/event-stream" not in answer.headers["content-type"], tried
            assert set(answer.json()) == {"error"}, tried
            assert await threads(its_engine) == 0, tried


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
async def test_net_1_the_names_of_this_machine_are_taken(tmp_path: Path, host: str) -> None:
    async with house(tmp_path) as (_, server), http(server) as client:
        answer = await client.get("/status", headers={"host": host.format(port=port_of(server))})
        assert answer.status_code == 200


# NET-2


SIMPLE = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json+x",
    "",
]


@pytest.mark.parametrize("path", ["/prompt", "/threads", "/approvals/x", "/uploads", "/links"])
async def test_net_2_a_simple_request_is_not_taken(tmp_path: Path, path: str) -> None:
    async with house(tmp_path) as (its_engine, server), http(server) as client:
        for kind in SIMPLE:
            request = client.build_request("POST", path, content=PROMPT)
            request.headers.pop("content-type", None)
            if kind:
                request.headers["content-type"] = kind
            answer = await client.send(request)
            assert answer.status_code == 415, kind
            assert await threads(its_engine) == 0, kind


async def test_net_2_a_cancel_needs_no_type_where_it_has_no_body(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), http(server) as client:
        assert (await client.post("/cancel")).status_code == 200
        assert (await client.post("/cancel", content=b"x", headers={"content-type": "text/plain"})).status_code == 415
        chunked = b"POST /cancel HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        host = server.url.removeprefix("http://").encode()
        assert b" 415 " in (await raw(server, chunked % host, wait=1)).split(b"\r\n")[0]


# NET-3


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost:9999",
        "http://127.0.0.1.evil.example",
        "http://localhost:{port}@evil.example",
        "http://localhost:{port}",  # ours, by another name than the one that was asked for
        "http://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}, http://evil.example",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/ws", "/bootstrap", "/flint"])
async def test_net_3_another_sites_page_gets_no_socket(tmp_path: Path, path: str, origin: str) -> None:
    async with house(tmp_path) as (its_engine, server):
        url = server.url.replace("http", "ws") + path
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url, additional_headers={"Origin": origin.format(port=port_of(server))}, proxy=None):
                pass
        assert refused.value.response.status_code == 403
        assert await threads(its_engine) == 0


async def test_net_3_our_own_page_and_a_client_without_origin_get_one(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        async with following(server, origin=server.url) as page:
            assert (await page.hear())["type"] == "state"
        async with following(server) as terminal:
            assert (await terminal.hear())["type"] == "state"


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_net_3_a_browser_that_says_it_is_elsewhere_is_believed(tmp_path: Path, site: str) -> None:
    async with house(tmp_path) as (its_engine, server), http(server) as client:
        for method, path in (("GET", "/events"), ("GET", "/threads"), ("GET", "/"), ("POST", "/cancel")):
            answer = await client.request(method, path, headers={"sec-fetch-site": site})
            assert answer.status_code == 403
        assert await threads(its_engine) == 0
        assert (await client.get("/threads", headers={"sec-fetch-site": "same-origin"})).status_code == 200


# NET-4


@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
async def test_net_4_no_stranger_is_told_what_it_may_do(tmp_path: Path, method: str) -> None:
    async with house(tmp_path) as (_, server), http(server) as client:
        headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
        answer = await client.request(method, "/prompt", headers=headers)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_net_4_nobody_is_told_unless_it_was_configured(tmp_path: Path) -> None:
    async with house(tmp_path, origins=("https://good.example",)) as (_, server), http(server) as client:
        good = {"origin": "https://good.example", "sec-fetch-site": "cross-site"}
        answer = await client.get("/threads", headers=good)
        assert answer.headers["access-control-allow-origin"] == "https://good.example"
        asked = await client.options("/prompt", headers={**good, "access-control-request-method": "POST"})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "https://good.example")
        plain = await client.get("/threads")
        assert not [name for name in plain.headers if name.lower().startswith("access-control")]


# NET-5


ELSEBODY = """
import encodings.idna, os, socket, sys  # all of it now: the other user may not read where Python lies
os.setgroups([]); os.setgid(65534); os.setuid(65534)
port, unix_path = int(sys.argv[1]), sys.argv[2]
for request in (
    b"GET /threads HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % port,
    b"GET /ws HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n"
    b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n" % port,
):
    with socket.create_connection(("127.0.0.1", port)) as there:
        received = b""
        try:
            there.sendall(request)
            while data := there.recv(65536):
                received += data
        except OSError:
            pass
        print(received.split(b"\\r\\n")[0].decode())
with socket.socket(socket.AF_UNIX) as there:
    try:
        there.connect(unix_path)
        print("connected")
    except OSError as why:
        print(type(why).__name__)
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
async def test_net_5_another_user_of_this_machine_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    async with house(tmp_path) as (its_engine, server):
        socket_path = tmp_path / "data" / "hames.sock"
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
        assert socket_path.stat().st_mode & 0o777 == 0o600
        done = await anyio.run_process(
            [sys.executable, "-I", "-c", ELSEBODY, str(port_of(server)), str(socket_path)], check=True
        )
        said = done.stdout.decode().splitlines()
        assert said[:2] == ["HTTP/1.1 403 Forbidden"] * 2
        assert said[2] == "PermissionError"
        assert await threads(its_engine) == 0


async def test_net_5_the_kernel_knows_our_own_connections(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        there = socket.create_connection(door.getsockname())
        here, _ = door.accept()
        with there, here:
            ends = here.getsockname(), here.getpeername()
            assert guard_peer.refusal(*ends) == ""
            # The way for kernels without netlink finds the same.
            peer = find_in_table(Path("/proc/net/tcp").read_bytes(), *ends)
            assert peer is not None
            assert peer.is_held_by(os.geteuid())
            assert not peer.is_held_by(os.geteuid() + 1)
        assert guard_peer.refusal(*ends), "a connection that is over belongs to nobody"


async def test_net_5_ipv6_is_looked_up_too() -> None:
    try:
        door = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with door:
        there = socket.create_connection(door.getsockname()[:2])
        here, _ = door.accept()
        with there, here:
            ends = here.getsockname()[:2], here.getpeername()[:2]
            assert guard_peer.refusal(*ends) == ""
            peer = find_in_table(Path("/proc/net/tcp6").read_bytes(), *ends)
            assert peer is not None
            assert peer.is_held_by(os.geteuid())


def test_net_5_an_orphaned_socket_is_nobodys() -> None:
    row = b"  0: 0100007F:1F90 0100007F:0050 %b 00000000:00000000 00:00000000 00000000     0        0 %b 1 x\n"
    head = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    here, there = ("127.0.0.1", 80), ("127.0.0.1", 8080)
    for state, inode, held in ((b"01", b"55", True), (b"05", b"55", True), (b"05", b"0", False), (b"06", b"0", False)):
        peer = find_in_table(head + row % (state, inode), here, there)
        assert peer is not None
        assert peer.is_held_by(0) is held


# NET-6


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_net_6_an_open_door_without_a_token_is_not_opened(tmp_path: Path, host: str) -> None:
    environment = {**os.environ, "HAMES_STATE": str(tmp_path / "state"), "HAMES_CONFIG": str(tmp_path / "none")}
    environment.pop("HAMES_TOKEN", None)
    command = [sys.executable, "-m", "hames.cli.main", "serve", "--host", host, "--port", "0", "--cwd", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", *command[3:]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert "token" in done.stderr
    assert done.stdout == ""


# NET-7


@pytest.mark.parametrize("thousands", [2, pytest.param(10, marks=pytest.mark.slow)])
async def test_net_7_thousands_of_wrong_tokens_open_nothing_and_lock_nobody_out(tmp_path: Path, thousands: int) -> None:
    async with house(tmp_path, token=TOKEN) as (its_engine, server):
        host = server.url.removeprefix("http://").encode()
        refused = [await _guess(server, host, 1000, number) for number in range(thousands)]
        assert sum(refused) == thousands * 1000
        assert await threads(its_engine) == 0
        async with http(server, authorization=f"Bearer {TOKEN}") as owner:
            assert (await owner.get("/threads")).status_code == 200


async def _guess(server: Server, host: bytes, times: int, seed: int) -> int:
    """How many of so many guesses were answered with 401."""
    refused = 0

    async def one(number: int) -> None:
        nonlocal refused
        guess = f"{TOKEN[:-2]}x{seed}{number}".encode()
        request = b"POST /prompt HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\n" % (host, guess)
        request += b"Content-Type: application/json\r\nConnection: close\r\n"
        request += b"Content-Length: %d\r\n\r\n%b" % (len(PROMPT), PROMPT)
        answer = await raw(server, request)
        refused += answer.startswith(b"HTTP/1.1 401 ")

    limit = anyio.CapacityLimiter(32)

    async def bounded(number: int) -> None:
        async with limit:
            await one(number)

    async with anyio.create_task_group() as tasks:
        for number in range(times):
            tasks.start_soon(bounded, number)
    return refused


def test_net_7_tokens_are_compared_as_digests_of_one_length() -> None:
    """`compare_digest` takes the same time whatever differs, and only when both sides have one length."""
    keyring = Keyring(TOKEN, SystemClock())
    assert keyring.opens(TOKEN)
    assert not keyring.opens(TOKEN + "x")
    assert not keyring.opens("")
    assert not keyring.opens("é\udcff")
    assert TOKEN not in repr(vars(keyring))
    digests = [value for value in vars(keyring).values() if isinstance(value, bytes)]
    assert {len(value) for value in digests} == {32}


def test_net_7_the_token_file_is_long_random_and_the_owners_alone(tmp_path: Path) -> None:
    token = token_in(tmp_path / "state")
    assert len(base64.urlsafe_b64decode(token + "=")) == 32
    assert (tmp_path / "state" / "token").stat().st_mode & 0o777 == 0o600
    assert token_in(tmp_path / "state") == token


# NET-8


async def test_net_8_the_token_appears_nowhere(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    script = tmp_path / "script.json"
    script.write_text('["Hello."]')
    log_file = tmp_path / "log.jsonl"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "HAMES_STATE": str(tmp_path / "state"),
        "HAMES_CONFIG": str(tmp_path / "none"),
        "HAMES_TOKEN": TOKEN,
    }
    command = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", "serve"]
    command += ["--port", "0", "--cwd", str(work), "--model", f"scripted/{script}", "--log-level", "debug"]
    command += ["--log-file", str(log_file)]
    async with await anyio.open_process(command, env=environment) as process:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"Ctrl+C" not in said:
                said += await process.stdout.receive()
        try:
            url = said.split()[3].decode()
            link = next(word for word in said.split() if b"?token=" in word).decode()
            word = link.partition("token=")[2]
            await _use(url, link)
            cmdline = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        finally:
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(60):
                rest = b"".join([chunk async for chunk in process.stdout])
                assert process.stderr is not None
                errors = b"".join([chunk async for chunk in process.stderr])
                assert await process.wait() == 0
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    everything = [said, rest, errors, cmdline, *kept]
    assert kept
    assert log_file.read_bytes()
    for secret in (TOKEN.encode(), base64.urlsafe_b64encode(TOKEN.encode()).rstrip(b"=")):
        assert not [text for text in everything if secret in text]
    assert not [text for text in [rest, errors, *kept] if word.encode() in text]


async def _use(url: str, link: str) -> None:
    """Everything a person would do, and a few things that fail."""
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as browser:
        page = await browser.get(link)
        assert page.status_code == 303
        assert page.headers["location"] == "/"
        cookie = page.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie.replace("Strict", "strict")
        assert TOKEN not in cookie
        shown = await browser.get("/")
        assert TOKEN not in shown.text
        assert shown.headers["referrer-policy"] == "no-referrer"
        assert (await browser.get("/threads")).status_code == 200
        again = await httpx2.AsyncClient(trust_env=False).get(link)
        assert again.status_code == 401
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as program:
        assert (await program.get("/threads", headers={"authorization": f"Bearer {TOKEN}"})).status_code == 200
        assert (await program.get("/threads", params={"token": TOKEN})).status_code == 401
        prompt = await program.post("/prompt", json={"content": "Hi"}, headers={"authorization": f"Bearer {TOKEN}"})
        assert prompt.status_code == 200
    wrapped = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    ws = url.replace("http", "ws") + "/ws"
    async with connect(ws, subprotocols=["harness.v1", f"harness.bearer.{wrapped}"], proxy=None) as client:  # type: ignore[list-item]
        assert client.subprotocol == "harness.v1"
        assert msgspec.json.decode(await client.recv())["type"] == "state"
    async with connect(ws, proxy=None) as client:
        with pytest.raises(ConnectionClosed):
            await client.recv()
        assert client.close_code == 4401
