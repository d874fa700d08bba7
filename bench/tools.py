"""What the built-in tools cost, next to doing the same thing bare.

    python bench/tools.py [ROUNDS]

A call is `prepare` and `run`, as the engine makes it. `bare` is the least it could be: `read_text` for reading, write
and `fsync` for changing, the program alone for commands. Median and best of ROUNDS, in milliseconds; what counts is the
ratio of the best.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from hames.clock_and_ids import SystemClock
from hames.domain.ids import CallId, ItemId, ThreadId, TurnId
from hames.domain.items import Call, Stream
from hames.domain.json import Json
from hames.domain.policy import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.ports import Job, Place, Tool
from hames.sandbox.local import LocalSandbox
from hames.tools.files.workspace import LocalWorkspace
from hames.tools.registry import BuiltinTools
from hames.tools.ripgrep import find_ripgrep

FILES, LINES = 500, 200


async def tell(text: str, stream: Stream = "output") -> None:
    pass


async def no_report(_status: object) -> None:
    pass


class Caller:
    def __init__(self, root: Path, tools: dict[str, Tool], policy: SandboxPolicy) -> None:
        self._tools = tools
        self._place = Place(
            files=LocalWorkspace(),
            thread_id=ThreadId("t"),
            turn_id=TurnId("u"),
            workspace=str(root),
            cwd=str(root),
            sandbox=policy,
        )

    async def call(self, name: str, **arguments: Json) -> None:
        call = Call(id=CallId("c"), name=name, arguments="")
        job = Job(call=call, arguments=arguments, item_id=ItemId("i"), step=1, place=self._place)
        item = await (await self._tools[name].prepare(job)).run(tell, self._place.sandbox)
        assert item.result is not None
        assert not item.result.failed, item.result.text


async def measure(name: str, rounds: int, ours: Callable[[int], Awaitable[None]], bare: Callable[[int], None]) -> None:
    """Turn about, so that a busy moment hits both."""
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(rounds):
        begin = time.perf_counter()
        await ours(number)
        middle = time.perf_counter()
        bare(number)
        times["ours"].append((middle - begin) * 1000)
        times["bare"].append((time.perf_counter() - middle) * 1000)
    figures = {
        f"{who}_{what}": round(of(values), 3)
        for who, values in times.items()
        for what, of in (("median", statistics.median), ("best", min))
    }
    ratio = round(figures["ours_best"] / figures["bare_best"], 1)
    print(json.dumps({"bench": name, "unit": "ms", **figures, "ratio": ratio}), flush=True)


def fill(root: Path) -> None:
    for number in range(FILES):
        path = root / f"d{number % 20}/f{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"value_{line} = compute({line}, {number})\n" for line in range(LINES)))
    (root / "target.py").write_text("".join(f"line {line} of a file\n" for line in range(2_000)))


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text().replace(old, new)
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


async def main(rounds: int) -> None:
    sandbox = LocalSandbox()
    walls = await sandbox.walls()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        fill(root)
        target = root / "target.py"
        place = Place(
            files=LocalWorkspace(),
            thread_id=ThreadId("t"),
            turn_id=TurnId("u"),
            workspace=name,
            cwd=name,
            sandbox=ReadOnly(),
        )
        async with BuiltinTools(sandbox, SystemClock()).open(place, no_report) as opened:
            tools = {tool.spec.name: tool for tool in opened}
            free = Caller(root, tools, DangerFullAccess())
            await measure(
                "read 2,000 lines", rounds, lambda _: free.call("read", path="target.py"), lambda _: _read(target)
            )
            await measure(
                "edit one line of 2,000",
                rounds,
                lambda n: free.call("edit", path="target.py", old_string=f"line {n} of", new_string=f"line {n} in"),
                lambda n: replaced(target, f"line {n} in", f"line {n} at"),
            )
            await measure(
                "write a new file",
                rounds,
                lambda n: free.call("write", path=f"new/{n}", content="x\n" * 100),
                lambda n: _synced(root / f"bare{n}", "x\n" * 100),
            )
            program = find_ripgrep()
            for title, caller in (("no sandbox", free), ("sandboxed", Caller(root, tools, WorkspaceWrite()))):
                if title == "sandboxed" and walls.kind == "none":
                    continue
                await measure(
                    f"grep {FILES * LINES:,} lines, {title}",
                    rounds,
                    lambda _, caller=caller: caller.call("grep", pattern="compute.7, 7."),
                    lambda _: _run([program, "--no-config", "--sort=path", "-n", "compute.7, 7.", name]),
                )
                await measure(
                    f"glob {FILES} files, {title}",
                    rounds,
                    lambda _, caller=caller: caller.call("glob", pattern="*7.py"),
                    lambda _: _run([program, "--no-config", "--sort=path", "--files", "-g", "*7.py", name]),
                )
                await measure(
                    f"shell true, {title}",
                    rounds,
                    lambda _, caller=caller: caller.call("shell", command="true"),
                    lambda _: _run(["/bin/bash", "--noprofile", "--norc", "-c", "true"]),
                )
    sandbox.close()


def _read(path: Path) -> None:
    path.read_text()


def _synced(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _run(words: list[str]) -> None:
    subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
