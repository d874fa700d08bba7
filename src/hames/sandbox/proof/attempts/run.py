"""Attempts to get out of a sandbox. This folder runs inside one, alone, and imports the standard library only.

Each attempt is harmless where it succeeds: it touches only what `targets` put up for it. An attempt that returns
claims to have succeeded; where the effect shows outside, the judge in `escape_test` believes that instead.
"""

import json
import os
import sys
import time
from types import ModuleType

if __name__ == "__main__":  # the rest of the package does not exist inside the sandbox
    for _name in ("hames", "hames.sandbox", "hames.sandbox.proof.escape_test", "hames.sandbox.proof.attempts"):
        sys.modules[_name] = ModuleType(_name)
    sys.modules["hames.sandbox.proof.attempts"].__path__ = [os.path.dirname(__file__)]

from hames.sandbox.proof.attempts.files import FILES
from hames.sandbox.proof.attempts.helpers import Attempt, AttemptFailed
from hames.sandbox.proof.attempts.kernel import KERNEL, STAYING
from hames.sandbox.proof.attempts.network import NETWORK

ATTEMPTS: dict[str, Attempt] = {**FILES, **KERNEL, **NETWORK, **STAYING}


def say(name: str, outcome: str) -> None:
    os.write(1, f"{name} {outcome}\n".encode())


def main() -> None:
    """Runs them one by one, each in a process of its own, and prints what they claim."""
    stage = json.loads(sys.argv[1])
    for name, function in ATTEMPTS.items():
        child = os.fork()
        if child == 0:
            try:
                function(stage)
            except (OSError, AttemptFailed):
                os._exit(1)
            except BaseException as error:
                say(name, f"broken {error!r}")
                os._exit(2)
            os._exit(0)
        say(name, "claimed" if _status(child) == 0 else "refused")


def _status(child: int) -> int:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.001)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main()
