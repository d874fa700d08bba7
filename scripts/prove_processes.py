"""Runs conversations against several processes on one directory, which must look like one server to their client.

    python scripts/prove_processes.py VECTORS [--count 2 3] [--protocol bootstrap flint]

VECTORS is a directory with `run_vectors.py`, `rig.py` (a model behind a loopback port) and `PROTOCOL.jsonl`, one
conversation per line. Threads are created in one process and driven from another (`scripts/route_processes.py`).
The random kills are tests: `pytest tests/integration/test_shared_processes.py`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVERS = {"bootstrap": "harness", "flint": "app-server"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("vectors", type=Path)
    parser.add_argument("--count", type=int, nargs="+", default=[2, 3], help="how many processes")
    parser.add_argument("--protocol", nargs="+", choices=SERVERS, default=list(SERVERS))
    args = parser.parse_args()
    vectors, failed = args.vectors.resolve(), False
    hames = str(Path(sys.executable).parent / "hames")
    for protocol in args.protocol:
        for count in args.count:
            route = [sys.executable, str(HERE / "route_processes.py"), str(count), "--", hames, SERVERS[protocol]]
            rig = [str(vectors / "rig.py"), "--", *route]
            rows = [str(vectors / "run_vectors.py"), protocol, str(vectors / f"{protocol}.jsonl"), "--", *rig]
            done = subprocess.run(rows, stdout=subprocess.PIPE, text=True, check=False)
            summary = done.stdout.strip().rpartition("\n")[2]
            print(f"{protocol}, {count} processes: {summary}", flush=True)
            if done.returncode or " failed 0 " not in f" {summary} ":
                print(done.stdout)
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
