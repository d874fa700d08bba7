"""The server under load and in trouble: a real `hames serve` in a process of its own, clients in this one.

    python bench/server.py [idle] [fanout] [crowd] [trickle] [restart]

CPU is the server process's own, from the kernel. Latency is that of `GET /healthz` by an honest client meanwhile.
Budgets: fan-out at most 10 µs of CPU per client and message; nobody waits longer than 250 ms at p99; memory bounded.
"""

import base64
import http.client
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

MIB = 1 << 20
WORDS = " ".join(f"word{n}" for n in range(2000))


class Served:
    """A running server."""

    def __init__(self, directory: Path, script: object, *, port: int = 0) -> None:
        work = directory / "work"
        work.mkdir(exist_ok=True)
        path = directory / "script.json"
        path.write_text(json.dumps(script))
        environment = {**os.environ, "HAMES_STATE": str(directory / "state"), "HAMES_CONFIG": str(directory / "none")}
        command = [str(Path(sys.executable).parent / "hames"), "serve", "--port", str(port), "--cwd", str(work)]
        command += ["--model", f"scripted/{path}", "--approval-policy", "never"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        assert self.process.stdout
        self.port = int(self.process.stdout.readline().decode().strip().rpartition(":")[2])
        self.ps = psutil.Process(self.process.pid)

    def ask(self, method: str, path: str, body: object = None) -> object:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            data = json.dumps(body).encode() if body is not None else None
            headers = {"content-type": "application/json"} if body is not None else {}
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
            return json.loads(text) if "json" in (answer.getheader("content-type") or "") else text.decode()
        finally:
            connection.close()

    def thread(self) -> str:
        return self.ask("POST", "/threads", {})["thread"]["id"]

    def prompt(self, thread: str) -> None:
        self.ask("POST", f"/prompt?thread={thread}", {"content": "go"})

    def metric(self, name: str) -> float:
        text = self.ask("GET", "/metrics")
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " "))

    def busy(self) -> int:
        rows = self.ask("GET", "/threads?limit=200")["threads"]
        return sum(row["status"] == "running" for row in rows)

    def cpu(self) -> float:
        times = self.ps.cpu_times()
        return times.user + times.system

    def rss(self) -> int:
        return self.ps.memory_info().rss

    def stop(self) -> float:
        begin = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(15)
        return time.perf_counter() - begin


@contextmanager
def served(script: object):
    with tempfile.TemporaryDirectory() as directory:
        server = Served(Path(directory), script)
        try:
            yield server
        finally:
            server.stop()


class Crowd:
    """Many sockets in one thread of ours, read and thrown away (or not read at all)."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sockets: list[socket.socket] = []
        self.received: dict[socket.socket, int] = {}
        self.ended: set[socket.socket] = set()
        self._selector = selectors.DefaultSelector()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def sync(self, thread: str, *, reads: bool = True) -> socket.socket:
        key = base64.b64encode(os.urandom(16)).decode()
        head = f"GET /ws?thread={thread} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nConnection: Upgrade\r\n"
        head += f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        return self._open(head.encode(), reads)

    def sse(self, thread: str, *, reads: bool = True) -> socket.socket:
        head = f"GET /events?thread={thread} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n"
        return self._open(head.encode(), reads)

    def silent(self) -> socket.socket:
        return self._open(b"G", True)

    def _open(self, head: bytes, reads: bool) -> socket.socket:
        found = socket.socket()
        if not reads:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        found.connect(("127.0.0.1", self.port))
        found.sendall(head)
        self.sockets.append(found)
        self.received[found] = 0
        if reads:
            found.setblocking(False)
            self._selector.register(found, selectors.EVENT_READ)
        return found

    def _read(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(0.1):
                found: socket.socket = key.fileobj
                try:
                    data = found.recv(1 << 18)
                except OSError:
                    data = b""
                self.received[found] += len(data)
                if not data:
                    self.ended.add(found)
                    self._selector.unregister(found)

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        for found in self.sockets:
            found.close()


class Latency:
    """An honest client that asks again and again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._times: list[float] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        while not self._stop.is_set():
            begin = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            self._times.append(time.perf_counter() - begin)
            time.sleep(0.005)

    def end(self) -> str:
        self._stop.set()
        self._thread.join()
        times = sorted(self._times)
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        return f"p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, worst {times[-1] * 1e3:.1f} ms ({len(times)} requests)"


def settle(server: Served, threads: int = 1) -> None:
    while server.busy():
        time.sleep(0.2 if threads == 1 else 0.5)


def idle(count: int = 1000) -> None:
    with served(["Hello."]) as server:
        thread = server.thread()
        server.ask("GET", "/status")
        before, crowd = server.rss(), Crowd(server.port)
        cpu, begin = server.cpu(), time.perf_counter()
        for number in range(count):
            (crowd.sync if number % 2 else crowd.sse)(thread)
        while server.metric("hames_sync_clients") + server.metric("hames_sse_clients") < count:
            time.sleep(0.05)
        took, spent = time.perf_counter() - begin, server.cpu() - cpu
        latency = Latency(server.port)
        cpu = server.cpu()
        time.sleep(5)
        resting = (server.cpu() - cpu) / 5
        begin = time.perf_counter()
        server.prompt(thread)
        settle(server)
        print(f"idle: {count} clients came in {took:.2f} s ({spent / count * 1e6:.0f} µs CPU each)")
        print(f"  memory {(server.rss() - before) / count / 1024:.1f} KiB a client; resting CPU {resting * 100:.1f} %")
        print(f"  a turn told to all of them in {time.perf_counter() - begin:.2f} s; meanwhile {latency.end()}")
        crowd.close()


def fanout(clients: int = 100, pieces: int = 1000, pace_ms: int = 5, rounds: int = 4) -> None:
    script = [[{"say": WORDS, "pieces": pieces, "pace_ms": pace_ms}]] * rounds
    spent: dict[int, tuple[float, float]] = {}
    for number in (1, clients):
        with served(script) as server:
            thread = server.thread()
            sockets = Crowd(server.port)
            for _ in range(number):
                sockets.sync(thread)
            while server.metric("hames_sync_clients") < number:
                time.sleep(0.05)
            measured = []
            for _ in range(rounds):
                told, cpu = server.metric("hames_frames_told"), server.cpu()
                server.prompt(thread)
                settle(server)
                measured.append((server.cpu() - cpu, server.metric("hames_frames_told") - told))
            spent[number] = min(measured[1:])  # the first warms up
            sockets.close()
    (one_cpu, one_told), (all_cpu, all_told) = spent[1], spent[clients]
    each = (all_cpu - one_cpu) / (all_told - one_told)
    print(f"fanout: {clients} clients, {all_told / clients:.0f} frames each of {pieces} tokens: {all_cpu:.2f} s CPU")
    print(f"  against {one_cpu:.2f} s with one client: {each * 1e6:.1f} µs CPU per client and message (budget 10)")


def crowd(threads: int = 100, deltas: int = 200) -> None:
    script = [[{"say": WORDS * 3, "pieces": deltas, "pace_ms": 20}]] * 3
    with served(script) as server:
        names = [server.thread() for _ in range(threads)]
        sockets = Crowd(server.port)
        for name in names:
            sockets.sync(name)
        slow = sockets.sync(names[0], reads=False)
        lazy = sockets.sse(names[0], reads=False)
        while server.metric("hames_sync_clients") < threads + 1:
            time.sleep(0.05)
        before = server.rss()
        latency = Latency(server.port)
        begin, cpu = time.perf_counter(), server.cpu()
        for name in names:
            server.prompt(name)
        settle(server, threads)
        took, spent = time.perf_counter() - begin, server.cpu() - cpu
        print(f"crowd: {threads} threads × {deltas} deltas at once, each watched, one client of each kind stalled")
        print(f"  {took:.2f} s, {spent:.2f} s CPU, {spent / threads / deltas * 1e6:.0f} µs CPU per delta told")
        print(f"  memory +{(server.rss() - before) / MIB:.1f} MiB; meanwhile {latency.end()}")
        assert slow not in sockets.ended
        assert lazy not in sockets.ended
        sockets.close()


def trickle(count: int = 200) -> None:
    with served(["Hello."]) as server:
        server.ask("GET", "/healthz")
        before, sockets = server.rss(), Crowd(server.port)
        latency = Latency(server.port)
        for _ in range(count):
            sockets.silent()
        begin = time.perf_counter()
        while len(sockets.ended) < count and time.perf_counter() - begin < 15:
            time.sleep(0.1)
        print(f"trickle: {len(sockets.ended)} of {count} connections that trickle were closed in", end=" ")
        print(f"{time.perf_counter() - begin:.1f} s; memory +{(server.rss() - before) / MIB:.1f} MiB; {latency.end()}")
        sockets.close()


class Reader(threading.Thread):
    """An SSE client that comes back until it has heard how the turn ended."""

    def __init__(self, port: int, thread: str) -> None:
        super().__init__(daemon=True)
        self.port, self.thread = port, thread
        self.last, self.ids, self.came, self.over = "", [], 0, threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                headers = {"Last-Event-ID": self.last} if self.last else {}
                connection.request("GET", f"/events?thread={self.thread}", headers=headers)
                answer = connection.getresponse()
                self.came += 1
                place = ""
                while line := answer.readline():
                    if line.startswith(b"id: "):
                        place = line[4:].strip().decode()
                        self.last = self.last or place
                    elif line.startswith(b"data: "):
                        self.last = place
                        self.ids.append((place, line))
                        if b'"state":"idle"' in line:
                            self.over.set()
                            return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)


def restart(readers: int = 50) -> None:
    script = [[{"say": WORDS, "pieces": 100, "pace_ms": 5}]] * 4
    with tempfile.TemporaryDirectory() as directory:
        server = Served(Path(directory), script)
        try:
            thread = server.thread()
            server.prompt(thread)
            settle(server)
            sockets = Crowd(server.port)
            for _ in range(100):
                sockets.sync(thread)
            crowd_of_readers = [Reader(server.port, thread) for _ in range(readers)]
            for reader in crowd_of_readers:
                reader.start()
            while server.metric("hames_sse_clients") < readers:
                time.sleep(0.05)
            server.prompt(thread)
            time.sleep(0.2)
        finally:
            down = server.stop()
        time.sleep(0.2)
        ended, begin = len(sockets.ended), time.perf_counter()
        server = Served(Path(directory), script, port=server.port)
        try:
            up = time.perf_counter() - begin
            for reader in crowd_of_readers:
                reader.join(max(0.0, begin + 20 - time.perf_counter()))
            log = server.ask("GET", f"/threads/{thread}/export?format=json")
        finally:
            server.stop()
        sockets.close()
        told = {repr(reader.ids[-3:]) for reader in crowd_of_readers}
        twice = sum(len({place for place, _ in reader.ids}) != len(reader.ids) for reader in crowd_of_readers)
        back = sum(reader.over.is_set() for reader in crowd_of_readers)
        print(f"restart: stopped in {down:.2f} s in mid-turn, {ended} of 100 sockets told so, up again in {up:.2f} s")
        print(f"  {back} of {readers} readers came back and heard the end, {twice} heard anything twice,", end=" ")
        print(f"{len(told)} version of the last events; the log has {len(log)} records and no gap")
        assert [record["seq"] for record in log] == list(range(1, len(log) + 1))


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["idle", "fanout", "crowd", "trickle", "restart"]
    for name in chosen:
        globals()[name]()
