"""Kills, damages, fills and cuts off the harness thousands of times, part by part, and says what held.

    make prove                                    all parts; those that held with this code are not run again
    .venv/bin/python scripts/prove.py --fresh     all parts from the beginning
    .venv/bin/python scripts/prove.py power-cuts  one part
    .venv/bin/python scripts/prove.py --vectors DIR   with the vectors of bootstrap and flint on several processes

Every part is a process of its own. What it has done is counted by itself and kept in `.venv/proved.json`, so an
interrupted run goes on with the part that it was in. The exit code is 1 if a part failed or did less than it has to,
and 130 after an interrupt.
"""

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".venv" / "proved.json"
CODE = (
    "src",
    "tests/prove",
    "tests/integration/test_protocols_shared.py",
    "tests/integration/test_shared_processes.py",
)
CODE += ("tests/kill_lanes.py", "tests/lane_clients.py", "tests/support.py", "scripts")
PROTOCOLS = ("flint", "bootstrap", "acp", "acp2", "sse", "sync")
KILLS = "random kills"
CALL_KILLS = "kills at calls that change a file"
EVERY_CALL = "kills at every call that changes a file"


@dataclass(frozen=True)
class Part:
    name: str
    command: tuple[str, ...]
    least: dict[str, int]
    """What it has to have done at least, by what its tests count."""
    environment: dict[str, str] = field(default_factory=dict[str, str])


def parts(workers: int, vectors: Path | None) -> list[Part]:
    python = sys.executable
    pytest = (python, "-m", "pytest", "-n", str(workers), "--dist", "load", "-q")

    def number(name: str, default: int) -> int:
        return int(os.environ.get(name, default))

    logs, errors = number("HAMES_DAMAGED_LOGS", 24_000), number("HAMES_IO_ERRORS", 2_000)
    cuts, kills = number("HAMES_POWER_CUTS", 1_000), -(-number("HAMES_KILLS", 1_000) // len(PROTOCOLS))
    calls = os.environ.get("HAMES_CALL_KILLS", "all")
    return [
        Part(
            "power-cuts",
            (*pytest, "tests/prove/test_prove_power_cuts.py"),
            {"power cuts": cuts},
            {"HAMES_POWER_CUTS": str(cuts)},
        ),
        Part(
            "io-errors",
            (*pytest, "tests/prove/test_prove_io_errors.py"),
            {"I/O errors": min(errors, 500), "of them short writes": min(errors, 500) // 50, "real full disks": 1},
            {"HAMES_IO_ERRORS": str(errors)},
        ),
        Part(
            "damaged-logs",
            (*pytest, "tests/prove/test_prove_damaged_logs.py"),
            {"damaged logs": logs},
            {"HAMES_DAMAGED_LOGS": str(logs)},
        ),
        *(
            Part(
                f"kills-{protocol}",
                (python, "scripts/prove_kills.py", "--protocols", protocol, "--kills", str(kills)),
                {KILLS: kills},
            )
            for protocol in PROTOCOLS
        ),
        *(
            Part(
                f"kills-at-calls-{protocol}",
                (*pytest, "tests/prove/test_prove_kill_at_calls.py", "-k", f"[{protocol}-"),
                {EVERY_CALL if calls == "all" else CALL_KILLS: 1},
                {"HAMES_CALL_KILLS": calls},
            )
            for protocol in PROTOCOLS
        ),
        Part(
            "processes",
            (*pytest, "tests/integration/test_protocols_shared.py", "tests/integration/test_shared_processes.py"),
            {},
        ),
        *([Part("vectors", (python, "scripts/prove_processes.py", str(vectors)), {})] if vectors is not None else []),
    ]


@dataclass
class Result:
    held: bool
    seconds: float
    counts: dict[str, int]
    why: str = ""


def fingerprint() -> str:
    """Of the code and the tests: what held with other code proves nothing."""
    found = hashlib.sha256()
    for place in CODE:
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


class Run:
    def __init__(self, code: str, *, fresh: bool) -> None:
        self._code = code
        self._process: subprocess.Popen[str] | None = None
        self.interrupted = False
        self.results: dict[str, Result] = {}
        if not fresh:
            self.results = _kept(code)

    def run(self, part: Part) -> Result:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="hames-prove-") as folder:
            counted = Path(folder, "counts")
            environment = {**os.environ, **part.environment, "HAMES_PROOF_COUNTS": str(counted)}
            self._process = subprocess.Popen(
                part.command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                start_new_session=True,
            )  # fmt: skip
            assert self._process.stdout is not None
            last: list[str] = []
            for line in self._process.stdout:
                last = [*last[-200:], line]
                if shown := _progress(line):
                    print(f"  {part.name}: {shown}", flush=True)
            code = self._process.wait()
            counts = _counts(counted)
        for line in last:
            if (found := re.match(r"(\d+) kills, seed", line)) is not None:
                counts[KILLS] += int(found[1])
        missing = [
            f"{least} {what} (only {counts[what]})" for what, least in part.least.items() if counts[what] < least
        ]
        why = f"exit code {code}" if code else f"did not do {', '.join(missing)}" if missing else ""
        if why and not self.interrupted:
            print("".join(last), flush=True)
        return Result(held=not why, seconds=time.monotonic() - began, counts=dict(counts), why=why)

    def keep(self, part: Part, result: Result) -> None:
        self.results[part.name] = result
        rows = {name: vars(one) for name, one in self.results.items() if one.held}
        KEPT.write_text(json.dumps({"code": self._code, "parts": rows}, indent=1))

    def interrupt(self, *_: object) -> None:
        self.interrupted = True
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)


def _kept(code: str) -> dict[str, Result]:
    try:
        kept = json.loads(KEPT.read_text())
        return {name: Result(**one) for name, one in kept["parts"].items()} if kept["code"] == code else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _counts(path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in path.read_text().splitlines() if path.exists() else []:
        number, _, what = line.partition(" ")
        counts[what] += int(number)
    return counts


def _progress(line: str) -> str:
    """What of a part's output is worth a line."""
    line = line.strip()
    return line if re.search(r"\[ *\d+%\]|kills|processes:|passed|failed", line) else ""


def report(chosen: list[Part], run: Run) -> bool:
    print("\nproved:")
    total: Counter[str] = Counter()
    for part in chosen:
        result = run.results.get(part.name)
        if result is None:
            print(f"  {part.name:28} not run")
            continue
        total.update(result.counts)
        done = ", ".join(f"{number} {what}" for what, number in result.counts.items() if number)
        print(f"  {part.name:28} {'held' if result.held else 'FAILED'} {result.seconds:7.0f} s  {result.why or done}")
    print("in all: " + (", ".join(f"{number} {what}" for what, number in total.items() if number) or "nothing"))
    return all(part.name in run.results and run.results[part.name].held for part in chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", help="only these parts")
    parser.add_argument("--fresh", action="store_true", help="run parts again that held with this code")
    parser.add_argument("--workers", type=int, default=int(os.environ.get("WORKERS", "3")))
    parser.add_argument("--vectors", type=Path, default=os.environ.get("HAMES_VECTORS"), help="a directory of vectors")
    parser.add_argument("--list", action="store_true", help="name the parts")
    args = parser.parse_args()
    every = parts(args.workers, Path(args.vectors) if args.vectors else None)
    unknown = set(args.part) - {one.name for one in every}
    if unknown:
        parser.error(f"no part {min(unknown)!r}: there are {', '.join(one.name for one in every)}")
    chosen = [one for one in every if not args.part or one.name in args.part]
    if args.list:
        print("\n".join(one.name for one in chosen))
        return 0
    run = Run(fingerprint(), fresh=args.fresh)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.interrupt)
    for count, part in enumerate(chosen, 1):
        if run.interrupted:
            break
        kept = run.results.get(part.name)
        enough = kept is not None and all(kept.counts.get(what, 0) >= least for what, least in part.least.items())
        print(f"[{count}/{len(chosen)}] {part.name}{': held before' if enough else ''}", flush=True)
        if not enough:
            result = run.run(part)
            if not run.interrupted:
                run.keep(part, result)
    held = report(chosen, run)
    return 130 if run.interrupted else 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
