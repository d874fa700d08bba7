"""Gets listening sockets out of the network namespaces of sandboxes, through a small process of ours."""

import socket
import subprocess
import threading
from contextlib import suppress

from hames.executables import script_command
from hames.sandbox.walls.network import listener_program

_ANSWER_SECONDS = 10.0
_MSG_CMSG_CLOEXEC = 0x40000000


class NamespaceListeners:
    """The process is started with the first wish, and again if somebody ended it. Call from worker threads."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._talk: socket.socket | None = None
        self._turn = threading.Lock()

    def open(self, pid: int, namespace: int, port: int) -> socket.socket:
        """A socket that listens on 127.0.0.1 where process `pid` is. Raises `OSError` when it cannot be had."""
        with self._turn:
            for last in (False, True):
                talk = self._talk or self._start()
                try:
                    talk.send(f"{pid} {namespace} {port}".encode())
                    said, files, _, _ = socket.recv_fds(talk, listener_program.LONGEST_BYTES, 1, _MSG_CMSG_CLOEXEC)
                except OSError:
                    said, files = b"", []
                if files:
                    return socket.socket(fileno=files[0])
                if said:
                    raise OSError(said.decode(errors="replace"))
                self._end()
                if last:
                    break
            raise OSError("the process that opens it does not answer")

    def close(self) -> None:
        with self._turn:
            self._end()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._program = subprocess.Popen(
                    script_command(listener_program.__file__, str(theirs.fileno())),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # Ctrl-C in the terminal is not for it
                    cwd="/",
                    env={},
                )
            except OSError:
                ours.close()
                raise
        ours.settimeout(_ANSWER_SECONDS)
        self._talk = ours
        return ours

    def _end(self) -> None:
        """It ends by itself when nobody is there to talk to; one that hangs is killed."""
        if self._talk is not None:
            self._talk.close()
            self._talk = None
        if self._program is not None:
            try:
                self._program.wait(_ANSWER_SECONDS / 10)
            except subprocess.TimeoutExpired:
                self._program.kill()
                with suppress(subprocess.TimeoutExpired):
                    self._program.wait(_ANSWER_SECONDS)
            self._program = None
