"""The terminal under load: how long a key takes to be seen, and a page to be turned, while an answer pours in.

    python bench/tui.py [--seconds 10] [--rate 1000] [--items 10000]

A real `hames` in a pty of its own, a real server behind it, a scripted model that says `--rate` pieces a second. The
time of a key runs from the byte written into the pty to the byte that shows it; of a page, to the first row of it.
"""

import argparse
import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

COLUMNS, ROWS = 100, 30
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]|\x1b[=>]")


class Screen:
    """A program at the other end of a pty."""

    def __init__(self, folder: Path, *words: str) -> None:
        environment = {**os.environ, "HAMES_STATE": str(folder / "state"), "TERM": "xterm-256color"}
        environment.pop("NO_COLOR", None)
        self.pid, self.wire = pty.fork()
        if self.pid == 0:
            os.chdir(folder / "ws")
            os.execve(sys.executable, [sys.executable, "-m", "hames", "--theme", "dark", *words], environment)
        fcntl.ioctl(self.wire, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.rest = b""

    def read(self, seconds: float) -> bytes:
        """What comes within this time, without its colours."""
        ready = select.select([self.wire], [], [], max(0.0, seconds))[0]
        if not ready:
            return b""
        try:
            self.rest += os.read(self.wire, 1 << 16)
        except OSError:  # the program has left
            return b""
        cut = self.rest.rfind(b"\x1b")
        whole = self.rest if cut < 0 or len(self.rest) - cut > 40 else self.rest[:cut]
        self.rest = self.rest[len(whole) :]
        return ESCAPES.sub(b"", whole)

    def until(self, pattern: bytes, seconds: float = 30.0) -> float:
        """How long it took."""
        started, seen = time.perf_counter(), b""
        while not re.search(pattern, seen):
            left = started + seconds - time.perf_counter()
            if left <= 0:
                raise TimeoutError(f"{pattern!r} is not in {seen[-600:]!r}")
            seen = seen[-4000:] + self.read(left)
        return time.perf_counter() - started

    def drain(self, seconds: float) -> int:
        until, count = time.perf_counter() + seconds, 0
        while (left := until - time.perf_counter()) > 0:
            count += len(self.read(left))
        return count

    def press(self, keys: bytes) -> None:
        os.write(self.wire, keys)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mib(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def close(self) -> None:
        self.press(b"\x11")
        until = time.perf_counter() + 10
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.perf_counter() > until:
                os.kill(self.pid, 9)
            self.read(0.05)
        os.close(self.wire)


def told(name: str, times: list[float]) -> None:
    ranked = sorted(times)
    at = {share: ranked[min(len(ranked) - 1, int(share * len(ranked)))] * 1000 for share in (0.5, 0.95, 0.99)}
    print(
        f"{name:<34} n {len(times):>4}   p50 {at[0.5]:6.1f} ms   p95 {at[0.95]:6.1f} ms   "
        f"p99 {at[0.99]:6.1f} ms   max {ranked[-1] * 1000:6.1f} ms"
    )


def keys(screen: Screen, count: int, *, gap_s: float = 0.06) -> list[float]:
    """Letters that no answer contains, one after the other."""
    times: list[float] = []
    for number in range(count):
        letter = "ÄÖÜßÆØÅÞ"[number % 8].encode()
        screen.press(letter)
        times.append(screen.until(letter))
        screen.drain(gap_s)
    return times


def pages(screen: Screen, count: int, key: bytes, pattern: bytes, *, gap_s: float = 0.1) -> list[float]:
    times: list[float] = []
    for _ in range(count):
        screen.press(key)
        times.append(screen.until(pattern))
        screen.drain(gap_s)
    return times


def poured(screen: Screen, seconds: float) -> int:
    """What pieces cost when nobody touches a key. How many of them come in a second: fewer on a busy machine."""
    before, started, last = screen.cpu_s(), time.perf_counter(), _newest(screen, 1.0)
    newest = _newest(screen, seconds)
    spent, took = screen.cpu_s() - before, time.perf_counter() - started
    print(
        f"{'nobody at the keys':<34} {(newest - last) / seconds:.0f} pieces a second, {spent / took:.0%} of a core, "
        f"{spent / took * seconds / max(1, newest - last) * 1e6:.0f} µs of CPU a piece"
    )
    return round((newest - last) / seconds)


def _newest(screen: Screen, seconds: float) -> int:
    """The number of the last piece that was shown."""
    until, seen = time.perf_counter() + seconds, b""
    while (left := until - time.perf_counter()) > 0:
        seen = seen[-20_000:] + screen.read(left)
    return max((int(number) for number in re.findall(rb"row(\d{6})", seen)), default=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--items", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ws").mkdir()
        words = [f"row{number:06d} " + ("\n\n" if number % 60 == 59 else "") for number in range(args.rate * 120)]
        pour = {"say": "".join(words), "pieces": len(words), "pace_ms": 1000 // args.rate}
        said = [
            {"say": f"item{number:05d} has **two**\n\nlines of `text`", "pieces": 1} for number in range(args.items)
        ]
        look = {"call": "list", "with": {"path": "."}}
        many = [[*said[first : first + 1000], look] for first in range(0, args.items, 1000)]
        many[-1].pop()
        (folder / "pour.json").write_text(json.dumps([[pour]]))
        (folder / "many.json").write_text(json.dumps(many))

        screen = Screen(folder, "--model", f"scripted/{folder / 'pour.json'}")
        first = screen.until(rb"Say what you want")
        keys_taken = screen.until(rb"shift\+tab")
        agent = screen.until(rb"pour\.json")
        print(
            f"{'from start to a first frame':<34} {first:.2f} s, to the whole screen {first + keys_taken:.2f} s, "
            f"to an agent {first + keys_taken + agent:.2f} s"
        )
        told("keys, nothing going on", keys(screen, 30))
        screen.press(b"\x03")
        screen.drain(0.5)
        screen.press(b"go\r")
        screen.until(rb"row000500")
        print(f"{'load average of this machine':<34} {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        rate = poured(screen, args.seconds)
        before, started = screen.cpu_s(), time.perf_counter()
        count = int(args.seconds / 0.1)
        told(f"keys, {rate} pieces a second", keys(screen, count))
        told(f"pages, {rate} pieces a second", pages(screen, count // 2, b"\x1b[5~", rb"row\d{4}"))
        spent = (screen.cpu_s() - before) / (time.perf_counter() - started)
        print(f"{'the terminal meanwhile':<34} {spent:.0%} of a core, {screen.rss_mib():.0f} MiB")
        screen.close()

        screen = Screen(folder, "--model", f"scripted/{folder / 'many.json'}", "go")
        screen.until(f"item{args.items - 1:05d}".encode(), 120)
        screen.drain(2.0)
        screen.close()
        started = time.perf_counter()
        screen = Screen(folder, "--continue", "--model", f"scripted/{folder / 'many.json'}")
        screen.until(f"item{args.items - 1:05d}".encode(), 60)
        print(f"{f'a thread of {args.items} items is there after':<34} {time.perf_counter() - started:.2f} s")
        screen.drain(1.0)
        told(f"keys, {args.items} items", keys(screen, 50))
        told(f"pages, {args.items} items", pages(screen, min(100, args.items // 20), b"\x1b[5~", rb"item\d+"))
        told("to the top", pages(screen, 1, b"\x1b[1;5H", rb"item0000"))
        print(f"{'the terminal then':<34} {screen.rss_mib():.0f} MiB")
        screen.close()


if __name__ == "__main__":
    main()
