"""Servers that are forked from a process which has imported everything: one more costs a fork, not a start.

Run as a program, it takes one server after the other over the socket that `FD` names: a line of JSON
`{"words": …, "environment": …, "number": …, "after": …}` with the descriptors of stdin, stdout and stderr, and one to
list calls. The child is `hames` with these words; it dies at its system call with that number (`kill_at_call.c`).
The answers are its pid, and its exit status once it is gone.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream, UNIXSocketStream

HERE = Path(__file__).resolve().parent
NEEDED = (
    "hames.app hames.cli.serve hames.cli.acp hames.cli.harness hames.cli.app_server hames.cli.flint_answer"
    " hames.server.app hames.providers.scripted.provider hames.tools.registry hames.sandbox.local hames.core.loop_agent"
    " hames.stdio.process hames.protocols.acp.session hames.protocols.bootstrap.session hames.protocols.flint.session"
    " hames.store.jsonl hames.store.listing hames.server.peers.sockets uvicorn sqlite3 anyio._backends._asyncio"
)


class ForkedServer:
    """What `anyio.abc.Process` is, as far as a lane needs it."""

    def __init__(self, pid: int, forks: "ForkedServers", stdin: SocketStream, stdout: SocketStream) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout = stdin, stdout
        self._forks = forks

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    async def wait(self) -> int:
        if self.returncode is None:
            self.returncode = json.loads(await self._forks.line())
        return self.returncode


class ForkedServers:
    """One server at a time."""

    def __init__(self, shim: Path) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            script = [sys.executable, str(Path(__file__).resolve())]
            environment = {**os.environ, "LD_PRELOAD": str(shim), "PYTHONDONTWRITEBYTECODE": "1"}
            environment["FD"] = str(theirs.fileno())
            self.process = subprocess.Popen(script, env=environment, pass_fds=(theirs.fileno(),))
        self._socket = ours
        self._rest = b""

    async def line(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += await anyio.to_thread.run_sync(self._socket.recv, 4096, abandon_on_cancel=True)
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    async def start(
        self, words: list[str], environment: dict[str, str], *, number: int, after: bool, calls: Path | None
    ) -> ForkedServer:
        """Dies at its call `number`, or at none if that is 0; `calls` is where these are listed."""
        sending, stdin = socket.socketpair()  # one for each direction, as a pipe
        receiving, stdout = socket.socketpair()
        listed = os.open(calls or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        errors = os.open(os.environ.get("HAMES_STDERR", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        asked: dict[str, Any] = {"words": words, "environment": environment, "number": number, "after": after}
        asked["armed"] = number > 0 or calls is not None
        try:
            given = [stdin.fileno(), stdout.fileno(), errors, listed]
            socket.send_fds(self._socket, [json.dumps(asked).encode()], given)
        finally:
            stdin.close()
            stdout.close()
            os.close(listed)
            os.close(errors)
        pipes = [await UNIXSocketStream.from_socket(one) for one in (sending, receiving)]
        return ForkedServer(json.loads(await self.line()), self, *pipes)

    def close(self) -> None:
        self._socket.close()
        self.process.wait(20)


def build_shim(folder: Path) -> Path:
    shim = folder / "kill_at_call.so"
    source = str(HERE / "kill_at_call.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", str(shim), source, "-ldl"], check=True, timeout=60)
    return shim


def _become(asked: dict[str, Any], given: list[int]) -> None:
    """The server itself; does not return."""
    os.setsid()
    for number, fd in enumerate(given[:3]):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv = ["hames", *asked["words"]]
    if asked["armed"]:
        ctypes.CDLL(None).kill_at_call(ctypes.c_long(asked["number"]), int(asked["after"]), given[3])
    from hames.cli.main import main

    try:
        main()
    except SystemExit as end:
        os._exit(int(end.code or 0))
    os._exit(0)


def _fork_servers() -> None:
    from importlib import import_module

    for name in NEEDED.split():
        import_module(name)
    gc.freeze()
    wire = socket.socket(fileno=int(os.environ["FD"]))
    os.set_inheritable(wire.fileno(), False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, given, _, _ = socket.recv_fds(wire, 1 << 20, 4)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            wire.close()
            _become(json.loads(message), given)
        for fd in given:
            os.close(fd)
        wire.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        wire.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _fork_servers()
