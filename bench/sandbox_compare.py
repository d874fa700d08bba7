"""`true` behind the walls, this source tree against another one, in turns.

  git archive COMMIT | tar x -C /var/tmp/before
  python bench/sandbox_compare.py /var/tmp/before/src
  python bench/sandbox_compare.py                 this tree against itself: how much two measurements differ
  python bench/sandbox_compare.py /var/tmp/before/src --workspace DIR --rounds 300

Each tree has a process of its own, which starts one command after the other as told. Printed are medians and minima of
the time until the output has ended, and the CPU time of harness and command together.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent.parent / "src"
POLICIES = ("readOnly", "workspaceWrite")


def serve(workspace: str, bubblewrap: str) -> None:
    """One policy per line on stdin, one measurement per line on stdout."""
    import anyio

    from hames.domain.policy import ReadOnly, WorkspaceWrite
    from hames.ports import Launch
    from hames.sandbox.local import LocalSandbox, SandboxSettings

    sandbox = LocalSandbox(SandboxSettings(bubblewrap=bubblewrap))

    async def once(name: str) -> tuple[float, float] | None:
        policy = ReadOnly() if name == "readOnly" else WorkspaceWrite()
        launch = Launch(argv=("/bin/true",), cwd=workspace, workspace=workspace, policy=policy)
        cpu, started = _cpu(), time.perf_counter()
        process = await sandbox.spawn(launch)
        async for _ in process.output():
            pass
        if await process.wait() != 0:
            return None  # something that was to be covered has vanished meanwhile
        return time.perf_counter() - started, _cpu() - cpu

    async def all_of_them() -> None:
        for line in sys.stdin:
            print(json.dumps(await once(line.strip())), flush=True)

    anyio.run(all_of_them)
    sandbox.close()


def _cpu() -> float:
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def compare(trees: dict[str, str], workspace: str, bubblewrap: str, rounds: int) -> None:
    workers = {
        name: subprocess.Popen(
            [sys.executable, __file__, "--serve", "--workspace", workspace, "--bubblewrap", bubblewrap, tree],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": tree},
        )
        for name, tree in trees.items()
    }
    taken: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for number in range(rounds + 5):
        for policy in POLICIES:
            for name, worker in workers.items() if number % 2 else reversed(workers.items()):
                assert worker.stdin is not None and worker.stdout is not None
                worker.stdin.write(policy + "\n")
                worker.stdin.flush()
                figures = json.loads(worker.stdout.readline())
                if number >= 5 and figures is not None:
                    taken.setdefault((policy, name), []).append(figures)
    for worker in workers.values():
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()
    print(f"{'true':32} {'min ms':>8} {'p50 ms':>8} {'cpu p50 ms':>11}")
    for (policy, name), figures in sorted(taken.items()):
        seconds, cpu = [one[0] for one in figures], [one[1] for one in figures]
        row = (min(seconds), statistics.median(seconds), statistics.median(cpu))
        print(f"{policy + ' ' + name:32} {row[0] * 1e3:8.2f} {row[1] * 1e3:8.2f} {row[2] * 1e3:11.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "tree", nargs="?", default=str(HERE), help="the other source tree, a directory that holds the package"
    )
    parser.add_argument("--workspace", help="default: an empty git repository")
    parser.add_argument("--bubblewrap", default="", help="which one, by path")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.workspace, args.bubblewrap)
        return
    workspace = args.workspace or tempfile.mkdtemp(dir="/var/tmp")
    try:
        if not args.workspace and shutil.which("git"):
            subprocess.run(["git", "init", "-q", workspace], check=True, env={"PATH": os.environ["PATH"]})
        compare({"before": args.tree, "now": str(HERE)}, workspace, args.bubblewrap, args.rounds)
    finally:
        if not args.workspace:
            shutil.rmtree(workspace)


if __name__ == "__main__":
    main()
