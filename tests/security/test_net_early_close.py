"""A client that closes at any point, at any door, as any user: the log says that it came, and has no traceback."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest

from server_support import serve_process

NOBODY = 65534
ROUNDS = 12

CLIENT = r"""
import json, os, socket, struct, sys
uid, port, path, rounds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
if uid:
    os.setgroups([]); os.setgid(uid); os.setuid(uid)
HOST = f"Host: 127.0.0.1:{port}\r\n".encode()
UPGRADE = (b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
           b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
SAYINGS = {
    "nothing": b"",
    "half a head": b"GET /heal",
    "a head": b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    "two heads": (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n") * 2,
    "no such host": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "rubbish": b"\x00\x01\x02\r\n\r\n",
    "half a body": b"POST /prompt HTTP/1.1\r\n" + HOST + b"Content-Length: 99\r\n\r\n{",
    "a chunk": b"POST /threads HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhe",
    "events": b"GET /events HTTP/1.1\r\n" + HOST + b"\r\n",
    "a long head": b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 40000,
    "page": b"GET / HTTP/1.1\r\n" + HOST + b"\r\n",
    "expects": b"POST /threads HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 10\r\n\r\n",
    "half a socket": b"GET /ws HTTP/1.1\r\n" + HOST + UPGRADE,
    "a socket": b"GET /ws HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n",
    "a socket and half a frame": b"GET /ws HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n\x81",
    "a socket and rubbish": b"GET /ws HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n\xff\xff\xff",
}
def closed(there, how):
    if how == "reset":
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif how == "half":
        try: there.shutdown(socket.SHUT_WR)
        except OSError: pass
    elif how == "read first":
        there.settimeout(0.05)
        try: there.recv(10)
        except OSError: pass
        there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    there.close()
for _ in range(rounds):
    for how in ("reset", "close", "half", "read first"):
        for words in SAYINGS.values():
            there = socket.socket()
            try:
                there.connect(("127.0.0.1", port))
                there.sendall(words)
            except OSError:
                pass
            closed(there, how)
        for words in (b"", b"bootst", b"bootstrap\n", b"flint\n{", b"nonsense\n", b"bootstrap\n{}\n" * 3):
            there = socket.socket(socket.AF_UNIX)
            try:
                there.connect(path)
                there.sendall(words)
            except OSError:
                pass
            closed(there, "half" if how == "half" else "close")
print("done")
"""


@pytest.mark.parametrize(
    "uid",
    [
        pytest.param(0, id="the same user"),
        pytest.param(
            NOBODY,
            id="another user",
            marks=[
                pytest.mark.root,
                pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else"),
            ],
        ),
    ],
)
async def test_NET_a_client_that_closes_early_leaves_no_traceback(tmp_path: Path, uid: int) -> None:
    log = tmp_path / "log.jsonl"
    flags = ("--log-file", str(log), "--log-level", "info")
    async with serve_process(tmp_path, [[{"say": "hello"}]], *flags) as (process, url):
        port, sock = url.rpartition(":")[2], tmp_path / "work" / ".harness" / "hames.sock"
        command = [sys.executable, "-I", "-c", CLIENT, str(uid), port, str(sock), str(ROUNDS)]
        with anyio.fail_after(120):
            done = await anyio.run_process(command, check=False)
            assert done.stdout.strip() == b"done", done.stderr
            async with httpx2.AsyncClient(trust_env=False) as client:
                assert (await client.get(f"{url}/healthz")).status_code == 200
        assert process.returncode is None
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    bad = [entry for entry in entries if "traceback" in entry or entry.get("level") == "error"]
    assert bad == []
    if uid:
        assert any(entry["event"] == "peer.refused" for entry in entries), entries[:3]


REQUESTS = {
    "harness": '{"jsonrpc":"2.0","id":%d,"method":"thread.list"}\n',
    "app-server": '{"id":%d,"method":"model/list","params":{}}\n',
}


@pytest.mark.parametrize("command", REQUESTS)
@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("read", [0, 1, 5000])
def test_NET_a_client_on_the_pipes_that_closes_early_leaves_no_traceback(
    tmp_path: Path, command: str, count: int, read: int
) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HAMES_STATE": str(tmp_path / "state")}
    words = [str(Path(sys.executable).with_name("hames")), command, "--cwd", str(tmp_path)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        if not read:
            server.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            server.stdin.write("".join(REQUESTS[command] % n for n in range(count)).encode())
            server.stdin.flush()
        if read and count:
            server.stdout.read(read if count > 1 else 1)
            server.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            server.stdin.close()
        said = server.stderr.read().decode()
    assert "Traceback" not in said
    assert "traceback" not in said
