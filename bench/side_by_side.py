"""Hames next to Codex, the same work in the same run: start, a turn, a tool, memory.

    python bench/side_by_side.py [--codex PATH] [--turns 30] [--tools 30]

Both are driven over stdio against a model on a loopback port. Medians and minima; the machine is the same, and busy
for both. Without Codex (npm install @openai/codex) only our own figures are printed.
"""

import argparse
import json
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import ProviderServer, SeenRequest, ServerReply, ServerTalk, Use, talk

Json = dict[str, object]

CODEX_CONFIG = """model = "mock-model"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "MOCK_KEY"
supports_websockets = false
[analytics]
enabled = false
[feedback]
enabled = false
[features]
plugins = false
apps = false
remote_plugin = false
"""


class Peer:
    """One app-server over pipes. Every message gets the time it was read."""

    def __init__(self, command: list[str], environment: dict[str, str], cwd: str) -> None:
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=cwd
        )
        self._buffer = b""
        self._number = 0

    def send(self, method: str, params: Json | None = None, *, answered: bool = True) -> int:
        self._number += 1
        message: Json = {"method": method, "params": params or {}}
        if answered:
            message["id"] = self._number
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self._number

    def until(self, wanted: Callable[[Json], bool]) -> tuple[float, Json]:
        assert self.process.stdout is not None
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                message = json.loads(line)
                if wanted(message):
                    return time.perf_counter(), message
                continue
            if not select.select([self.process.stdout], [], [], 60)[0]:
                raise TimeoutError("nothing came for a minute")
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise EOFError("the server is gone")
            self._buffer += chunk

    def call(self, method: str, params: Json | None = None) -> tuple[float, Json]:
        number = self.send(method, params)
        at, message = self.until(lambda m: m.get("id") == number and "method" not in m)
        if "error" in message:
            raise RuntimeError(message["error"])
        return at, message["result"]  # type: ignore[return-value]

    def turn(self, thread_id: str, text: str = "go") -> tuple[float, float]:
        begun = time.perf_counter()
        self.send("turn/start", {"threadId": thread_id, "input": [{"type": "text", "text": text}]})
        return begun, self.until(lambda m: m.get("method") == "turn/completed")[0]

    def rss_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


def figures(name: str, what: str, seconds: list[float]) -> None:
    print(
        json.dumps(
            {"peer": name, "what": what, "p50_ms": round(statistics.median(seconds) * 1000, 2),
             "min_ms": round(min(seconds) * 1000, 2), "n": len(seconds)}
        ),
        flush=True,
    )  # fmt: skip


def measure(name: str, make: Callable[[str], Peer], dialect: object, shell: Json, args: argparse.Namespace) -> None:
    asked: list[float] = []
    plan: list[str] = []

    def answer(seen: SeenRequest) -> ServerReply | ServerTalk:
        asked.append(time.perf_counter())
        if plan and plan.pop() == "tool":
            arguments = json.dumps(shell["arguments"])
            return ServerTalk(
                parts=(Use(name=str(shell["name"]), arguments=arguments, id=f"call_{len(asked)}"),), stop="tools"
            )
        return talk("done", cuts=1)

    server = ProviderServer(dialect, then=answer, strict=False)  # type: ignore[arg-type]
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as there:
        starts: list[float] = []
        for _ in range(args.starts):
            peer = make(there.url)
            at, _ = peer.call("initialize", {"clientInfo": {"name": "bench", "version": "1"}})
            starts.append(at - peer.started)
            peer.close()
        figures(name, "spawn -> initialize answered", starts)
        peer = make(there.url)
        peer.call("initialize", {"clientInfo": {"name": "bench", "version": "1"}})
        peer.send("initialized", answered=False)
        _, opened = peer.call("thread/start", {})
        thread_id = opened["thread"]["id"]  # type: ignore[index,call-overload]
        peer.turn(thread_id)
        before, after = [], []
        for _ in range(args.turns):
            asked.clear()
            begun, ended = peer.turn(thread_id)
            before.append(asked[0] - begun)
            after.append(ended - asked[-1])
        figures(name, "prompt -> model request", before)
        figures(name, "model request -> turn completed (the reply is instant)", after)
        rounds: list[float] = []
        for _ in range(args.tools):
            asked.clear()
            plan[:] = ["tool"]
            peer.turn(thread_id)
            rounds.append(asked[1] - asked[0])
        figures(name, "`true`: call answered -> next request", rounds)
        print(json.dumps({"peer": name, "what": "memory", "rss_mib": round(peer.rss_mib(), 1)}), flush=True)
        peer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--codex", default=shutil.which("codex") or ".tools/clients/node_modules/.bin/codex")
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--tools", type=int, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "ws").mkdir()

        def hames(url: str, *flags: str) -> Peer:
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": directory,
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "x",
                "NO_PROXY": "127.0.0.1",
            }
            program = str(Path(sys.executable).with_name("hames"))
            flags = ("--data-dir", f"{directory}/data", "--approval-policy", "never", *flags)
            return Peer([program, "app-server", *flags], environment, str(base / "ws"))

        shell: Json = {"name": "shell", "arguments": {"command": "true"}}
        measure("hames", lambda url: hames(url, "--sandbox", "dangerFullAccess"), ANTHROPIC, shell, args)
        measure("hames, sandboxed", hames, ANTHROPIC, shell, args)
        if not Path(args.codex).exists():
            print("no codex here: npm install @openai/codex, then --codex PATH", file=sys.stderr)
            return

        def codex(url: str) -> Peer:
            home = base / "codex"
            home.mkdir(exist_ok=True)
            (home / "config.toml").write_text(CODEX_CONFIG.replace("{url}", url))
            environment = {"PATH": os.environ["PATH"], "HOME": directory, "CODEX_HOME": str(home), "MOCK_KEY": "x"}
            return Peer([str(Path(args.codex).resolve()), "app-server"], environment, str(base / "ws"))

        theirs: Json = {"name": "exec_command", "arguments": {"cmd": "true"}}
        measure("codex", codex, OPENAI, theirs, args)


main()
