"""How long a start takes, as multiples of what the bare interpreter takes in the same run.

    python bench/start.py [ROUNDS]

Measured from the spawn: the answer to `initialize`, the first thread started, the whole of `hames run "Hello?"` on a
scripted model, the first text on the terminal's screen; and from the last answer: the end of the process.
`asyncio, anyio, msgspec` is an interpreter that imports these three and ends: no start of ours can be faster, except
the first answer, which needs none of them.
Each round runs everything once, so that a busy moment hits them all. Bytecode is compiled before the first round.
"""

import json
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

BIN = Path(sys.executable).parent
BUDGET_MS = {
    "initialize, bootstrap": 20,
    "initialize, flint": 20,
    "first thread, bootstrap": 70,
    "first thread, flint": 70,
    "exit, bootstrap": 20,
    "exit, flint": 20,
    "hames run": 150,
    "terminal, first paint": 150,
}
"""On a machine whose `python -c pass` takes 15 ms: what counts here is the multiple of that."""
BARE_MS = 15.0
LIBRARIES = "asyncio, anyio, msgspec"

SAID = {
    "bootstrap": (
        ["bootstrap", "harness"],
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}},
        {"jsonrpc": "2.0", "id": 2, "method": "thread.create", "params": {}},
    ),
    "flint": (
        ["hames", "app-server"],
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "bench", "version": "1"}}},
        {"id": 2, "method": "thread/start", "params": {}},
    ),
}


def environment(home: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    dirs = {f"XDG_{name}_HOME": f"{home}/{name.lower()}" for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    return {**kept, "HOME": home, **dirs}


def interpreter(env: dict[str, str], code: str = "pass") -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
    return time.perf_counter() - begin


def server(protocol: str, directory: str, env: dict[str, str]) -> dict[str, float]:
    words, initialize, create = SAID[protocol]
    command = [str(BIN / words[0]), *words[1:], "--cwd", directory]
    begin = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(initialize).encode() + b"\n")
        process.stdin.flush()
        answer(process.stdout.readline, 1)
        greeted = time.perf_counter()
        process.stdin.write(json.dumps(create).encode() + b"\n")
        process.stdin.flush()
        answer(process.stdout.readline, 2)
        created = time.perf_counter()
        process.stdin.close()
        process.wait()
        ended = time.perf_counter()
    return {
        f"initialize, {protocol}": greeted - begin,
        f"first thread, {protocol}": created - begin,
        f"exit, {protocol}": ended - created,
    }


def answer(readline: Callable[[], bytes], number: int) -> None:
    while line := readline():
        message = json.loads(line)
        if message.get("id") == number:
            assert "result" in message, line
            return
    raise SystemExit("the server closed its output")


def script(directory: str) -> str:
    path = Path(directory).parent / "script.json"
    if not path.exists():
        path.write_text('["Hello."]')
    return str(path)


def run(directory: str, env: dict[str, str]) -> float:
    command = [str(BIN / "hames"), "run", "--cwd", directory, "--model", "scripted/" + script(directory), "Hello?"]
    begin = time.perf_counter()
    done = subprocess.run(command, check=False, env=env, capture_output=True, stdin=subprocess.DEVNULL)
    took = time.perf_counter() - begin
    assert done.returncode == 0, done.stderr
    return took


def terminal(directory: str, env: dict[str, str]) -> float:
    """Until something readable is drawn: letters, not only commands to the terminal."""
    main, other = pty.openpty()
    command = [str(BIN / "hames"), "--cwd", directory, "--model", "scripted/" + script(directory)]
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env={**env, "TERM": "xterm-256color"}, start_new_session=True
    )
    os.close(other)
    drawn = b""
    try:
        while b"hames" not in drawn.lower():
            if not select.select([main], [], [], 20)[0]:
                raise SystemExit("the terminal drew nothing")
            drawn += os.read(main, 65536)
        return time.perf_counter() - begin
    finally:
        process.kill()
        process.wait()
        os.close(main)


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else 20
    times: dict[str, list[float]] = {"python -c pass": [], LIBRARIES: [], **{name: [] for name in BUDGET_MS}}
    for number in range(-1, rounds):
        with tempfile.TemporaryDirectory() as base:
            directory, env = f"{base}/work", environment(f"{base}/home")
            for path in (directory, env["HOME"]):
                Path(path).mkdir()
            took = {"python -c pass": interpreter(env), LIBRARIES: interpreter(env, f"import {LIBRARIES}")}
            for protocol in SAID:
                took |= server(protocol, directory, env)
            took["hames run"] = run(directory, env)
            took["terminal, first paint"] = terminal(directory, env)
        if number >= 0:  # the first round compiles
            for name, seconds in took.items():
                times[name].append(seconds)
    bare = statistics.median(times["python -c pass"])
    print(f"{'':<26}{'best':>8}{'median':>9}{'multiple':>10}{'budget':>8}")
    for name, seconds in times.items():
        budget = f"{BUDGET_MS[name] / BARE_MS:8.1f}" if name in BUDGET_MS else ""
        median = statistics.median(seconds)
        print(f"{name:<26}{min(seconds) * 1e3:8.1f}{median * 1e3:9.1f}{median / bare:10.1f}{budget}")


if __name__ == "__main__":
    main()
