"""Kills real servers with SIGKILL at random moments, and checks what the next process makes of it.

  .venv/bin/python scripts/prove_kills.py --kills 1000 --seed 7

Each lane (`tests/kill_lanes.py`, which also says what is checked) is one protocol with one approval policy. A process
ends the turn that its predecessor was killed in, starts the next one, and is killed, at most twice for one turn.

Exit code 1 with the lanes and seeds of whatever failed.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

import anyio

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from kill_lanes import PROTOCOLS, Lane  # noqa: E402


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40, help="how many, over all lanes (default: %(default)s)")
    parser.add_argument("--seed", default=str(random.randrange(1 << 32)))
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument("-v", action="store_true", help="show what the servers write to stderr")
    args = parser.parse_args()
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="hames-kills-") as folder:
        lanes = [
            Lane(protocol, asks=asks, directory=Path(folder, f"{protocol}-{asks}"), seed=f"{args.seed}{protocol}{asks}")
            for protocol in args.protocols.split(",")
            for asks in (False, True)
        ]
        limit = anyio.Semaphore(2)

        async def prove(lane: Lane) -> None:
            async with limit:
                began = time.monotonic()
                try:
                    await lane.run(-(-args.kills // len(lanes)))
                except Exception as problem:
                    failures.append(f"{lane.name}, seed {args.seed}, after {lane.kills} kills: {problem!r}")
                places = ", ".join(f"{count} {place}" for place, count in lane.where.most_common())
                took = time.monotonic() - began
                print(
                    f"{lane.name}: {lane.kills} kills ({places}), {lane.turns} turns completed,"
                    f" {lane.reopened} approvals asked again, {took:.0f} s",
                    flush=True,
                )

        async with anyio.create_task_group() as tasks:
            for lane in lanes:
                tasks.start_soon(prove, lane)
        print(f"{sum(lane.kills for lane in lanes)} kills, seed {args.seed}, {len(failures)} failures")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main))
