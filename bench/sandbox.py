"""What the walls cost: `true` bare, clean, and behind each policy, in turns; and how long a verdict takes.

  python bench/sandbox.py            medians of 60 rounds
  python bench/sandbox.py --rounds 200 --json
  python bench/sandbox.py --files 20000    in a workspace with that many files, all searched after each command

The figures of one run are comparable with each other and with nothing else. The sandbox may add at most 10 ms to
`true` without walls (median); a verdict may take at most 20 ms (p99).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Launch
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.trust.shell_trust import ShellTrust
from hames.sandbox.walls.probe import candidates

COMMANDS = Path(__file__).parent.parent / "tests/security/commands.jsonl"


async def once(sandbox: LocalSandbox, policy: SandboxPolicy, workspace: str) -> float:
    started = time.perf_counter()
    process = await sandbox.spawn(Launch(argv=("/bin/true",), cwd=workspace, workspace=workspace, policy=policy))
    async for _ in process.output():
        pass
    assert await process.wait() == 0
    return time.perf_counter() - started


def bare() -> float:
    started = time.perf_counter()
    subprocess.run(["/bin/true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - started


async def measure(rounds: int, workspace: str) -> dict[str, list[float]]:
    sandboxes = {Path(path).parts[1]: LocalSandbox(SandboxSettings(bubblewrap=path)) for path in candidates()}
    policies = {
        "readOnly": ReadOnly(),
        "workspaceWrite": WorkspaceWrite(),
        "with network": WorkspaceWrite(network_access=True),
    }
    plain = LocalSandbox()
    times: dict[str, list[float]] = {}
    for number in range(rounds + 3):
        taken = {"bare": bare(), "dangerFullAccess": await once(plain, DangerFullAccess(), workspace)}
        for where, sandbox in sandboxes.items():
            for name, policy in policies.items():
                taken[f"{name} ({'system' if where == 'usr' else 'wheel'})"] = await once(sandbox, policy, workspace)
        if number >= 3:
            for name, seconds in taken.items():
                times.setdefault(name, []).append(seconds)
    return times


def judge(workspace: str) -> list[float]:
    trust = ShellTrust()
    commands = [json.loads(line)["command"] for line in COMMANDS.read_text().splitlines()]
    trust.judge("ls", cwd=workspace, workspace=workspace)
    times: list[float] = []
    for command in commands * 5:
        started = time.perf_counter()
        trust.judge(command, cwd=workspace, workspace=workspace)
        times.append(time.perf_counter() - started)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--files", type=int, default=0)
    args = parser.parse_args()
    workspace = tempfile.mkdtemp(dir="/var/tmp")
    try:
        if shutil.which("git"):
            subprocess.run(["git", "init", "-q", workspace], check=True, env={"PATH": os.environ["PATH"]})
        for number in range(args.files):
            directory = Path(workspace, f"d{number // 200}", f"e{number // 10 % 20}")
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"f{number % 10}").touch()
        times = anyio.run(measure, args.rounds, workspace)
        verdicts = sorted(judge(workspace))
    finally:
        shutil.rmtree(workspace)
    rows = {
        name: {"min_ms": round(min(taken) * 1e3, 2), "p50_ms": round(statistics.median(taken) * 1e3, 2)}
        for name, taken in times.items()
    }
    p99 = round(verdicts[int(len(verdicts) * 0.99)] * 1e3, 3)
    judged = {"p50_ms": round(statistics.median(verdicts) * 1e3, 3), "p99_ms": p99}
    if args.json:
        json.dump({"true": rows, "verdict": judged}, sys.stdout, indent=2)
        return 0
    clean = rows["dangerFullAccess"]["p50_ms"]
    print(f"{'true':28} {'min ms':>8} {'p50 ms':>8} {'over clean':>11}")
    for name, row in rows.items():
        print(f"{name:28} {row['min_ms']:8.2f} {row['p50_ms']:8.2f} {row['p50_ms'] - clean:+11.2f}")
    print(f"\n{len(verdicts)} verdicts: p50 {judged['p50_ms']} ms, p99 {judged['p99_ms']} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
