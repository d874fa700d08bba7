"""The network attacks of the threat list, against the real listener.

Each attack must fail, leave no trace in any thread, and leave the next honest request working.
"""

import base64
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from itertools import product
from pathlib import Path

import anyio
import httpx2
import msgspec
import psutil
import pytest
from msgspec.structs import replace
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.commands import ListThreads, ThreadPage
from hames.domain.json import Json
from hames.protocols.sse.encoder import SseEncoder
from hames.server.app import Server
from hames.server.guard import peer as guard_peer
from hames.server.guard.peer import find_in_table
from hames.server.guard.token import Keyring, token_in
from hames.server.listener import Address
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import HandClock, closes, events, following, http, port_of, raw, running
from support import created, engine

MIB = 1 << 20
TOKEN = "a-token-that-nobody-guesses-0123456789"


@asynccontextmanager
async def house(
    directory: Path, model: ScriptedModel | None = None, token: str | None = None, **address: Json
) -> AsyncGenerator[tuple[Engine, Server]]:
    """A server that must be whole again after whatever was done to it."""
    async with (
        engine(model or ScriptedModel(), clock=SystemClock(), compacts=False) as its_engine,
        running(its_engine, directory / "data", token=token, address=Address(port=0, **address)) as server,
    ):
        yield its_engine, server
        headers = {"authorization": f"Bearer {token}"} if token else {}
        async with http(server, **headers) as client:
            with anyio.fail_after(60):
                assert (await client.get("/healthz")).status_code == 200


async def threads(its_engine: Engine) -> int:
    page = await its_engine.execute(ListThreads())
    assert isinstance(page, ThreadPage)
    return len(page.threads)


PROMPT = b'{"content": "do evil"}'
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


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


# NET-9

GET = b"GET /status HTTP/1.1\r\n"
HOST = b"Host: %b\r\n"
POST = b"POST /cancel HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"

ABUSES: dict[str, bytes] = {
    "two hosts": GET + HOST + b"Host: evil.example\r\n\r\n",
    "the same host twice": GET + HOST + b"Host: %b\r\n\r\n",
    "no host": GET + b"\r\n",
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "the same length twice": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a signed length": POST + b"Content-Length: +2\r\n\r\n{}",
    "encoding and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "length and encoding": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "trailers": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n",
    "a folded header": GET + HOST + b"X-A: b\r\n c\r\n\r\n",
    "a folded host": GET + b"Host: %b\r\n .evil.example\r\n\r\n",
    "a space before the colon": GET + b"Host : %b\r\n\r\n",
    "an absolute address": b"GET http://evil.example/status HTTP/1.1\r\n" + HOST + b"\r\n",
    "our own absolute address": b"GET http://%b/status HTTP/1.1\r\n" + HOST + b"\r\n",
    "an authority": b"CONNECT evil.example:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a scheme-relative address": b"GET //evil.example/status HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /status#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "bare line feeds": b"GET /status HTTP/1.1\nHost: %b\n\n",
    "a bare carriage return": GET + HOST + b"X-A: b\rX-C: d\r\n\r\n",
    "a NUL in a value": GET + HOST + b"X-A: b\0c\r\n\r\n",
    "a control character in the address": b"GET /\x01 HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /status\r\n\r\n",
    "HTTP/2 by force": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a header of 64 KiB": GET + HOST + b"X-A: " + b"a" * 65536 + b"\r\n\r\n",
    "an address of 64 KiB": b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "many headers": GET + HOST + b"".join(b"X-%d: y\r\n" % n for n in range(8000)) + b"\r\n",
    "a head that never ends": GET + HOST + b"X-A: " + b"a" * 40_000,
}


@pytest.mark.parametrize("abuse", ABUSES.values(), ids=ABUSES.keys())
async def test_net_9_a_request_that_two_readers_could_read_differently_is_refused(tmp_path: Path, abuse: bytes) -> None:
    async with house(tmp_path, ScriptedModel([hang()])) as (_, server):
        host = server.url.removeprefix("http://").encode()
        answer = await raw(server, abuse.replace(b"%b", host))
        assert answer.startswith(b"HTTP/1.1 400 "), answer[:200]
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in answer.lower()


async def test_net_9_a_second_request_behind_a_broken_one_is_not_served(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        host = server.url.removeprefix("http://").encode()
        broken = ABUSES["encoding and length"].replace(b"%b", host)
        answer = await raw(server, broken + GET + (HOST % host) + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b" 200 " not in answer


async def test_net_9_requests_behind_each_other_are_served_in_order(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        host = server.url.removeprefix("http://").encode()
        one = b"GET /healthz HTTP/1.1\r\nHost: %b\r\n\r\n" % host
        last = b"GET /healthz HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host
        answer = await raw(server, one + one + last)
        assert answer.count(b"HTTP/1.1 200 OK") == 3


# NET-10


async def test_net_10_two_hundred_trickling_connections_keep_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hames.server.http.connection.HEAD_SECONDS", 1.0)
    async with house(tmp_path) as (_, server), http(server) as honest:
        before = psutil.Process().memory_info().rss
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(200)]
        for stream in streams:
            with suppress(anyio.BrokenResourceError, OSError):  # the oldest were let go for the newest
                await stream.send(b"G")
        for _ in range(20):
            with anyio.fail_after(60):
                assert (await honest.get("/healthz")).status_code == 200
        for stream in streams:
            assert await closes(stream)
            await stream.aclose()
        assert psutil.Process().memory_info().rss - before < 32 * MIB


async def test_net_10_of_many_that_say_nothing_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hames.server.http.connection.HEAD_SECONDS", 600.0)
    monkeypatch.setattr("hames.server.http.connection.SILENT_SECONDS", 0.0)
    async with house(tmp_path) as (_, server):
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(100)]
        assert all([await closes(stream) for stream in streams[:30]])
        async with http(server) as honest:
            assert (await honest.get("/healthz")).status_code == 200
        for stream in streams:
            await stream.aclose()


async def test_net_10_many_honest_clients_at_once_are_all_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All connect before the first of them says anything, and on a busy machine that takes longer than a moment.
    monkeypatch.setattr("hames.server.http.connection.SILENT_SECONDS", 60.0)
    monkeypatch.setattr("hames.server.http.connection.HEAD_SECONDS", 60.0)
    async with house(tmp_path) as (_, server):
        host = server.url.removeprefix("http://").encode()
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(200)]
        for stream in streams:
            await stream.send(b"GET /healthz HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
        for stream in streams:
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
            await stream.aclose()


async def test_net_10_when_the_house_is_full_a_silent_one_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hames.server.http.connection.CONNECTIONS", 20)
    async with house(tmp_path) as (_, server):
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(40)]
        async with http(server) as honest:
            assert (await honest.get("/healthz")).status_code == 200
        assert await closes(streams[0])
        for stream in streams:
            await stream.aclose()


async def test_net_10_a_body_that_trickles_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hames.server.http.connection.BODY_SECONDS", 0.5)
    async with house(tmp_path) as (its_engine, server):
        host = server.url.removeprefix("http://").encode()
        async with await anyio.connect_tcp("127.0.0.1", port_of(server)) as stream:
            await stream.send(b"POST /prompt HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n" % host)
            await stream.send(b"Content-Length: 100\r\n\r\n{")
            assert await closes(stream)
        assert await threads(its_engine) == 0


async def test_net_10_an_event_reader_that_stops_reading_is_dropped_and_memory_stays_flat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hames.protocols.sse.encoder.SseEncoder.rules", replace(SseEncoder.rules, patience_s=1.0))
    model = ScriptedModel(*[[say("x" * 200_000, pieces=1)] for _ in range(60)])
    async with house(tmp_path, model) as (its_engine, server), http(server) as client:
        thread = await created(its_engine)
        host = server.url.removeprefix("http://").encode()
        lazy = await anyio.connect_tcp("127.0.0.1", port_of(server))
        raw_socket: socket.socket = lazy.extra(anyio.abc.SocketAttribute.raw_socket)
        raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await lazy.send(b"GET /events?thread=%b HTTP/1.1\r\nHost: %b\r\n\r\n" % (thread.id.encode(), host))
        async with events(client, f"/events?thread={thread.id}") as reader:
            before = psutil.Process().memory_info().rss
            for _ in range(60):
                answer = await client.post("/prompt", params={"thread": thread.id}, json={"content": "more"})
                assert answer.status_code == 200
                await reader.until("status", state="idle")
            assert len([event for event in reader.events if event["type"] == "text"]) == 60
            grown = psutil.Process().memory_info().rss - before
        with anyio.fail_after(60):
            while server.service.fanout.follower_count(SseEncoder):
                await anyio.sleep(0.05)  # until the server has noticed
        assert grown < 64 * MIB
        await lazy.aclose()


# NET-11


@pytest.mark.parametrize("poison", ["\n\ndata: {}\n\n", "\r\rid: 999\r\r", "\r\nevent: evil\r\n", "id: 7\n\n"])
async def test_net_11_text_cannot_forge_an_event(tmp_path: Path, poison: str) -> None:
    model = ScriptedModel([say(f"a{poison}b"), call("echo", text=poison)], [say("done")])
    async with house(tmp_path, model) as (_, server), http(server) as client:
        async with events(client) as reader:
            await client.post("/prompt", json={"content": f"p{poison}q"})
            await reader.until("status", state="idle")
        kinds = [event["type"] for event in reader.events if event["type"] != "status"]
        assert kinds == ["user", "text", "tool_call", "tool_result", "text"]
        assert reader.events[1]["content"] == f"p{poison}q"
        assert reader.last_id != "999"


# NET-12


def frame(opcode: int, payload: bytes, *, final: bool = True, reserved: int = 0) -> bytes:
    """A client's frame, masked with nothing."""
    head = bytes([(0x80 if final else 0) | reserved << 4 | opcode])
    length = len(payload)
    if length < 126:
        head += bytes([0x80 | length])
    elif length < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", length)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", length)
    return head + b"\0\0\0\0" + payload


class RawSocket:
    """A WebSocket client without manners."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self.stream = stream
        self.received = b""

    async def code(self) -> int:
        """The close code the server sends, whatever comes before it."""
        with anyio.fail_after(60):
            while True:
                position = 0
                while position + 2 <= len(self.received):
                    opcode, length = self.received[position] & 0x0F, self.received[position + 1] & 0x7F
                    start = position + 2
                    if length == 126:
                        length = int.from_bytes(self.received[start : start + 2])
                        start += 2
                    elif length == 127:
                        length = int.from_bytes(self.received[start : start + 8])
                        start += 8
                    if start + length > len(self.received):
                        break
                    if opcode == 8:
                        return int.from_bytes(self.received[start : start + 2])
                    position = start + length
                self.received += await self.stream.receive()


@asynccontextmanager
async def raw_socket(server: Server, **headers: str) -> AsyncGenerator[RawSocket]:
    async with await anyio.connect_tcp("127.0.0.1", port_of(server)) as stream:
        host = server.url.removeprefix("http://")
        lines = [f"{name}: {value}" for name, value in {"Host": host, **UPGRADE, **headers}.items()]
        await stream.send(("GET /ws HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await stream.receive()
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"sec-websocket-extensions" not in answer.lower(), "compression is off"
        client = RawSocket(stream)
        client.received = answer.partition(b"\r\n\r\n")[2]
        yield client


async def test_net_12_a_message_of_100_mb_is_refused_without_holding_it(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        before = psutil.Process().memory_info().rss
        async with raw_socket(server) as client:
            head = bytes([0x81, 0x80 | 127]) + struct.pack(">Q", 100 * MIB) + b"\0\0\0\0"
            await client.stream.send(head)
            with anyio.move_on_after(3):
                for _ in range(100):
                    try:
                        await client.stream.send(b"x" * MIB)
                    except (anyio.BrokenResourceError, OSError):
                        break
            assert await client.code() == 1009
        assert psutil.Process().memory_info().rss - before < 64 * MIB


async def test_net_12_a_million_fragments_are_not_collected(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        before = psutil.Process().memory_info().rss
        async with raw_socket(server) as client:
            pieces = frame(0, b"x", final=False) * 10_000
            await client.stream.send(frame(1, b"x", final=False))
            for _ in range(100):
                try:
                    await client.stream.send(pieces)
                except (anyio.BrokenResourceError, OSError):
                    break
            assert await client.code() in (1008, 1009)
        assert psutil.Process().memory_info().rss - before < 64 * MIB


async def test_net_12_text_that_is_none_is_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), raw_socket(server) as client:
        await client.stream.send(frame(1, b"\xff\xfe\xfd"))
        assert await client.code() == 1007


async def test_net_12_a_flood_of_pings_is_ended(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), raw_socket(server) as client:
        await client.stream.send(frame(9, b"x" * 100) * 5000)
        assert await client.code() == 1008


async def test_net_12_compression_is_not_spoken_here(tmp_path: Path) -> None:
    offer = {"Sec-WebSocket-Extensions": "permessage-deflate"}
    async with house(tmp_path) as (_, server), raw_socket(server, **offer) as client:
        await client.stream.send(frame(1, b"\x00" * 20, reserved=4))
        assert await client.code() == 1002


async def test_net_12_a_message_of_a_megabyte_and_one_is_too_long(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), following(server) as client:
        await client.hear()
        await client.socket.send("x" * (MIB + 1))
        with pytest.raises(ConnectionClosed):
            while True:
                await client.hear()
        assert client.socket.close_code == 1009


# NET-13


POISON = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) <script>alert(1)</script>"


async def test_net_13_hostile_text_is_json_and_nothing_else(tmp_path: Path) -> None:
    model = ScriptedModel([say(POISON), call("echo", text=POISON)], [say("done")])
    async with house(tmp_path, model) as (_, server), http(server) as client:
        made = await client.post("/threads", json={"title": POISON})
        thread = made.json()["thread"]["id"]
        async with following(server, thread) as page:
            await page.hear()
            await page.send({"type": "submit", "prompt": POISON})
            state = await page.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)
        assert state["messages"][0]["content"] == state["messages"][1]["content"] == POISON
        for path in (f"/threads/{thread}", "/threads", f"/threads/{thread}/timeline", f"/threads/{POISON}"):
            answer = await client.get(path)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
        output = state["messages"][1]["toolCalls"][0]["id"]
        plain = await client.get(f"/threads/{thread}/tools/{output}/output")
        assert plain.headers["content-type"].startswith("text/plain")
        assert plain.headers["x-content-type-options"] == "nosniff"
        exported = await client.get(f"/threads/{thread}/export")
        assert "attachment" in exported.headers["content-disposition"]


async def test_net_13_the_page_runs_no_script_but_its_own(tmp_path: Path) -> None:
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text('<!doctype html><script type="module" src="/assets/a.js"></script>')
    (page / "assets" / "a.js").write_text("1")
    (tmp_path / "secret.js").write_text("secret")
    (page / "link.js").symlink_to(tmp_path / "secret.js")
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", page=page) as server,
        http(server) as client,
    ):
        for path in ("/", "/t/ses_1", "/assets/a.js"):
            answer = await client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self';" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        host = server.url.removeprefix("http://").encode()
        request = b"GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n"
        for path in ("/link.js", "/assets/../../secret.js", "/assets/%2e%2e/%2e%2e/secret.js", "/secret.js"):
            got = await raw(server, request % (path.encode(), host))
            assert got.startswith(b"HTTP/1.1 404 ")


# NET-14


async def test_net_14_paths_are_made_of_our_own_words(tmp_path: Path) -> None:
    evil = [call("__proto__", constructor={"prototype": 1}), call("constructor"), call("0")]
    model = ScriptedModel(*[[one] for one in evil], [say("done")])
    async with house(tmp_path, model) as (_, server), following(server) as page:
        await page.hear()
        await page.send({"type": "submit", "prompt": "__proto__", "id": "constructor"})
        await page.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)
        steps = {
            step
            for message in page.heard
            if message["type"] == "delta"
            for operation in message["operations"]
            for step in operation["path"]
        }
        assert steps
        assert not steps & {"__proto__", "constructor", "prototype"}


# NET-15


async def test_net_15_nonsense_and_floods_of_commands_never_start_two_runs(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with house(tmp_path, model) as (_, server), following(server) as client:
        await client.hear()
        await client.send({"type": "sudo"})
        await client.send(*[{"type": "cancel"}] * 10_000)
        await client.send(*[{"type": "submit", "prompt": "go", "id": f"p{n}"} for n in range(40)])
        await client.send(*[{"type": "submit", "prompt": "go", "id": f"q{n}"} for n in range(5)])
        state = await client.until(lambda state: len(state["queue"]) == 32)
        while len(client.errors) < 2 + 12:
            await client.hear()
        assert state["status"] == "running"
        assert [message["role"] for message in state["messages"]] == ["user", "assistant"]
        assert len(model.requests) == 1
        assert {error["submitId"] for error in client.errors[2:]} == {
            *(f"p{n}" for n in range(33, 40)),
            *(f"q{n}" for n in range(5)),
        }


async def test_net_15_a_client_that_only_talks_nonsense_is_let_go(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), following(server) as client:
        await client.hear()
        with pytest.raises(ConnectionClosed):
            for _ in range(40):
                await client.socket.send("nonsense")
                await client.hear()
        assert client.socket.close_code == 1008
        assert len(client.errors) == 21


async def test_a_flood_of_requests_is_answered_with_patience(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        engine(ScriptedModel(), clock=clock) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server) as client,
    ):
        codes = [(await client.post("/cancel")).status_code for _ in range(203)]
        assert codes == [200] * 200 + [429] * 3
        assert (await client.get("/threads")).status_code == 200
        await clock.advance(1)
        assert (await client.post("/cancel")).status_code == 200


async def test_a_body_that_is_too_long_is_refused_unread(tmp_path: Path) -> None:
    async with house(tmp_path) as (its_engine, server), http(server) as client:
        answer = await client.post("/prompt", content=b" " * (MIB + 1), headers={"content-type": "application/json"})
        assert answer.status_code == 413
        host = server.url.removeprefix("http://").encode()
        head = b"POST /prompt HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n" % host
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        got = await raw(server, head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17, wait=2)
        assert got.startswith(b"HTTP/1.1 413 ")
        assert await threads(its_engine) == 0
