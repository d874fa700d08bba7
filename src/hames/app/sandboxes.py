"""What the sandbox of this machine can do, for people and for the page."""

import os
from typing import TYPE_CHECKING

from hames.app.toolbox import sandbox_settings
from hames.config.load import Options
from hames.executables import find_program

if TYPE_CHECKING:
    from hames.protocols.sync.pages import SandboxReport


async def describe_sandbox() -> tuple[bool, str]:
    """Whether this machine can keep commands in, and how, in words for people."""
    from hames.sandbox.local import LocalSandbox

    walls = await LocalSandbox().walls()
    return walls.kind != "none", walls.sentence


def find_system_program(name: str) -> str:
    """A program as commands in the sandbox find it."""
    from hames.sandbox.processes.environment import SYSTEM_PATH

    return find_program(name, path=os.pathsep.join(SYSTEM_PATH))


async def sandbox_report(options: Options, *, runs_here: bool = True) -> "SandboxReport":
    from hames.protocols.sync.pages import SandboxReport
    from hames.sandbox.local import LocalSandbox

    if not runs_here:
        return SandboxReport(ok=True, message="")
    walls = await LocalSandbox(sandbox_settings(options), environ=options.environment).walls()
    return SandboxReport(ok=walls.kind != "none", message="" if walls.kind != "none" else walls.sentence)
