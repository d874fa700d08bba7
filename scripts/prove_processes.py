"""Runs conversations against several processes on one directory, which must look like one server to their client.

    python scripts/prove_processes.py VECTORS [--count 2 3] [--protocol bootstrap flint]

VECTORS is a directory with `run_vectors.py`, `rig.py` (a model behind a loopback port) and `PROTOCOL.jsonl`, one
conversation per line. Threads are created in one process and driven from another (`scripts/route_processes.py`).
The random kills are tests: `pytest tests/integration/test_shared_processes.py`. So are SSE, sync and ACP on several
processes: `pytest tests/integration/test_protocols_shared.py`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVERS = {"bootstrap": "harness", "flint": "app-server"}
ENDS_AFTER_CRASH = {"persist/kill9-mid-turn"}
"""These expect that a turn is over when its process was killed. It goes on by default, so these set `end`
(decisions/0041)."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--count", type=int, nargs="+", default=[2, 3], help="how many processes")
    parser.add_argument("--protocol", nargs="+", choices=SERVERS, default=list(SERVERS))
    args = parser.parse_args()
    vectors, failed = args.vectors.resolve(), False
    with tempfile.TemporaryDirectory(prefix="hames-vectors-") as folder:
        for protocol in args.protocol:
            for count in args.count:
                for option, rows in divided(vectors / f"{protocol}.jsonl", Path(folder)).items():
                    failed |= not run(vectors, protocol, rows, count, option)
    return int(failed)


def divided(path: Path, folder: Path) -> dict[str, Path]:
    """The rows, by the `after_crash` that they need; an empty one is the default.

    All are `slow`, so that each step has 90 seconds and not 10: several processes start where the rows expect one."""
    rows: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.strip():
            row = json.loads(line)
            ends = row.get("name") in ENDS_AFTER_CRASH
            rows.setdefault("end" if ends else "", []).append(json.dumps({**row, "slow": True}))
    found: dict[str, Path] = {}
    for option, lines in rows.items():
        found[option] = folder / f"{path.stem}-{option or 'default'}.jsonl"
        found[option].write_text("\n".join(lines) + "\n")
    return found


def run(vectors: Path, protocol: str, rows: Path, count: int, after_crash: str) -> bool:
    config = rows.with_suffix(".toml")
    config.write_text(f'after_crash = "{after_crash}"\n' if after_crash else "")
    hames = str(Path(sys.executable).parent / "hames")
    route = [sys.executable, str(HERE / "route_processes.py"), str(count), "--", hames, SERVERS[protocol]]
    rig = [str(vectors / "rig.py"), "--", *route]
    command = [str(vectors / "run_vectors.py"), protocol, str(rows), "--slow", "--", *rig]
    environment = {**os.environ, "HAMES_CONFIG": str(config)}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    summary = done.stdout.strip().rpartition("\n")[2]
    option = f', after_crash = "{after_crash}"' if after_crash else ""
    print(f"{protocol}, {count} processes{option}: {summary}", flush=True)
    held = not done.returncode and " failed 0 " in f" {summary} "
    if not held:
        print(done.stdout)
    return held


if __name__ == "__main__":
    sys.exit(main())
