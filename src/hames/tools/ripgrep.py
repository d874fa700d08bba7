"""ripgrep, run once: its arguments are ours, its time and its output are bounded.

Its engine takes linear time whatever the pattern. It reads no configuration, follows no link
and starts no program; it runs read-only behind the sandbox wherever there is one.
"""

from collections.abc import Sequence

import anyio

from hames.domain.errors import SandboxUnavailable
from hames.domain.policy import DangerFullAccess, ExternalSandbox, ReadOnly, SandboxPolicy
from hames.domain.value import Value
from hames.executables import find_ripgrep
from hames.ports import Launch, Limits, Place, Process, Sandbox, ToolFailed

MAX_OUTPUT_BYTES = 1 << 20
ALWAYS = (
    *("--no-config", "--no-messages", "--color=never", "--no-follow", "--hidden", "--sort=path"),
    *("--no-require-git", "--regex-size-limit=16M"),
)

LEFT_OUT = ("--glob=!.git", "--glob=!.harness")
"""After every other pattern: the last one that matches decides."""

NOTHING_FOUND = 1


class SearchLimits(Value):
    seconds: float = 20.0
    results: int = 500
    line_chars: int = 400
    told_chars: int = 30_000


class Found(Value):
    """What ripgrep printed. `cut`: there was more. `troubled`: not everything could be read."""

    output: bytes
    cut: bool = False
    troubled: bool = False


class Ripgrep:
    def __init__(self, sandbox: Sandbox, limits: SearchLimits, program: str | None = None) -> None:
        self._sandbox = sandbox
        self._program = program
        self.limits = limits

    async def run(self, place: Place, policy: SandboxPolicy, arguments: Sequence[str], *, cwd: str) -> Found:
        """Raises `ToolFailed` when it cannot be started, is wrong about the pattern, or takes too long."""
        program = self._program if self._program is not None else find_ripgrep(place.workspace)
        if not program:
            raise ToolFailed("ripgrep (`rg`) is not installed here; use the shell, or ask the user to install it")
        unwalled = isinstance(policy, DangerFullAccess | ExternalSandbox)
        denied = tuple(rule.read for rule in place.denied if rule.read)
        end = arguments.index("--") if "--" in arguments else len(arguments)
        launch = Launch(
            argv=(program, *ALWAYS, *arguments[:end], *_left_out(denied, cwd), *arguments[end:]),
            cwd=cwd,
            workspace=place.workspace,
            policy=policy if unwalled else ReadOnly(),
            limits=Limits(seconds=self.limits.seconds),
            hidden=denied,
        )
        try:
            process = await self._sandbox.spawn(launch)
        except (OSError, SandboxUnavailable) as error:
            raise ToolFailed(f"the search was not started: {error}") from error
        try:
            with anyio.fail_after(self.limits.seconds):
                found = await _collected(process)
        except TimeoutError:
            raise ToolFailed(
                f"the search took longer than {self.limits.seconds:g} s; search in a smaller directory"
            ) from None
        finally:
            with anyio.CancelScope(shield=True):
                await process.kill()
        if found.troubled and found.output.startswith(b"rg: "):
            raise ToolFailed(found.output.decode("utf-8", "replace").strip())
        return found


def _left_out(denied: Sequence[str], cwd: str) -> list[str]:
    """Patterns that leave out what rules deny, seen from `cwd`: where there is no sandbox, nothing else does."""
    below = cwd.rstrip("/") + "/"
    names = [pattern.removesuffix("/**") for pattern in denied]
    return [f"--glob=!/{name.removeprefix(below)}" for name in names if name.startswith(below)] + [
        f"--glob=!{name[name.index('**/') :]}" for name in names if "**/" in name and not name.startswith(below)
    ]


async def _collected(process: Process) -> Found:
    output = bytearray()
    async for chunk in process.output():
        output += chunk
        if len(output) > MAX_OUTPUT_BYTES:
            return Found(output=bytes(output[:MAX_OUTPUT_BYTES]), cut=True)
    return Found(output=bytes(output), troubled=await process.wait() not in (0, NOTHING_FOUND))
