"""Spawn to the answer to `initialize`, next to what the bare interpreter takes.

    python bench/start.py [ROUNDS]

Each round starts `python -c pass` and each server once, so that a busy moment hits them all. What counts is the
ratio of the best times: at most 2.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
INITIALIZE = {
    "bootstrap harness": b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n',
    "hames app-server": b'{"id":1,"method":"initialize","params":{"clientInfo":{"name":"bench","version":"1"}}}\n',
}


def interpreter() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return time.perf_counter() - begin


def server(command: str, directory: str) -> float:
    words = [str(BIN / command.split(maxsplit=1)[0]), *command.split()[1:], "--cwd", directory]
    begin = time.perf_counter()
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(INITIALIZE[command])
        process.stdin.flush()
        line = process.stdout.readline()
        took = time.perf_counter() - begin
        assert b'"result"' in line, f"{command}: {line!r}"
        process.kill()
    return took


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else 30
    times: dict[str, list[float]] = {"python -c pass": [], **{command: [] for command in INITIALIZE}}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(rounds):
            times["python -c pass"].append(interpreter())
            for command in INITIALIZE:
                times[command].append(server(command, directory))
    bare = min(times["python -c pass"])
    for name, took in times.items():
        median = sorted(took)[rounds // 2]
        print(f"{name:<20} best {min(took) * 1e3:6.1f} ms  median {median * 1e3:6.1f} ms  ratio {min(took) / bare:.2f}")


if __name__ == "__main__":
    main()
