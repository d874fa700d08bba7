"""A stdio server made of several: threads are created in one process, and everything else is asked of another.

    python scripts/route_processes.py COUNT -- SERVER COMMAND

To a client it must look like one server, because the processes share the threads of their directory. The first process
is the one that the client talks to; new threads are made by the others in turn. Used by `scripts/prove_processes.py`.
"""

import ctypes
import json
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

CREATE = {"thread.create", "thread/start"}
TOLD_BY_OWNER = {"thread/started", "thread.created"}
OURS = "route-"
PDEATHSIG = 1


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)


def decoded(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Router:
    def __init__(self, count: int, command: list[str]) -> None:
        pipe = subprocess.PIPE
        self.front, *self.others = [
            subprocess.Popen(command, stdin=pipe, stdout=pipe, preexec_fn=die_with_parent)  # noqa: PLW1509 - no thread runs yet
            for _ in range(count)
        ]
        self._writing = threading.Lock()
        self._created: set[str] = set()
        """Requests (by their id, as JSON) that one of the others answers."""
        self._resumed: queue.Queue[None] = queue.Queue()
        self._next = 0

    def run(self) -> int:
        for process in (self.front, *self.others):
            threading.Thread(target=self._forward, args=(process,), daemon=True).start()
        for line in sys.stdin.buffer:
            self._take(line)
        for process in (*self.others, self.front):
            assert process.stdin is not None
            process.stdin.close()
        codes = [process.wait() for process in (self.front, *self.others)]
        return next((code for code in codes if code), 0)

    def _take(self, line: bytes) -> None:
        message = decoded(line)
        method = message.get("method")
        if method in ("initialize", "initialized"):
            for process in self.others:
                self._send(process, line)
        if method not in CREATE or "id" not in message or not self.others:
            self._send(self.front, line)
            return
        owner = self.others[self._next % len(self.others)]
        self._next += 1
        self._created.add(json.dumps(message["id"]))
        self._send(owner, line)
        self._resumed.get()

    def _send(self, process: "subprocess.Popen[bytes]", line: bytes) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError:
            pass

    def _forward(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            message = decoded(line)
            if process is self.front:
                if str(message.get("id", "")).startswith(OURS):
                    self._resumed.put(None)
                    continue
            elif "method" in message:
                if message["method"] not in TOLD_BY_OWNER:
                    continue
            elif json.dumps(message.get("id")) not in self._created:
                continue
            else:
                self._follow_in_front(message)
            with self._writing:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

    def _follow_in_front(self, answer: dict[str, Any]) -> None:
        """The process that the client talks to follows the new thread, as it would one that it made itself."""
        self._created.discard(json.dumps(answer["id"]))
        thread = answer.get("result", {}).get("thread", {})
        if "id" in thread:  # flint
            request = {"id": f"{OURS}{thread['id']}", "method": "thread/resume", "params": {"threadId": thread["id"]}}
            self._send(self.front, json.dumps(request).encode() + b"\n")
        else:
            self._resumed.put(None)


if __name__ == "__main__":
    sys.exit(Router(int(sys.argv[1]), sys.argv[3:]).run())
