"""How long a stop takes: from the interrupt to the end of the turn, and until nothing of the command is left.

python bench/cancel.py [TIMES]
"""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio

from hames.app import open_engine
from hames.config.load import load
from hames.domain.commands import CreateThread, InterruptTurn, StartTurn
from hames.domain.events import ItemStarted, TurnEnded
from hames.domain.items import CommandExecution, TextInput
from hames.domain.state import ThreadState
from hames.testing.fakes.model import OneModel, ScriptedModel, call

COMMANDS = ("sleep 60", "trap '' TERM; sleep 60; sleep 60", "(setsid sleep 60 &) ; sleep 60", "yes > /dev/null")


def left(directory: str) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "cwd").readlink()) == directory:
                    return True
            except OSError:
                pass
    return False


async def measure(sandbox: str, times: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        work = str(Path(directory, "work"))
        Path(work).mkdir()
        model = ScriptedModel(*[[call("shell", command=COMMANDS[n % len(COMMANDS)])] for n in range(times)])
        flags = {"cwd": work, "approval_policy": "never", "sandbox": sandbox}
        options = load(flags, {"HOME": directory, "PATH": os.environ["PATH"]})
        ended: list[float] = []
        gone: list[float] = []
        async with open_engine(options, models=OneModel(model)) as engine:
            thread = await engine.execute(CreateThread())
            assert isinstance(thread, ThreadState)
            watcher = await engine.watch(thread.id)
            for _ in range(times):
                await engine.execute(StartTurn(thread_id=thread.id, content=(TextInput(text="go"),)))
                begun = False
                while not begun:
                    for change in await watcher.next():
                        event = change.record.event
                        begun = begun or (isinstance(event, ItemStarted) and isinstance(event.item, CommandExecution))
                await anyio.sleep(0.15)
                start = time.perf_counter()
                await engine.execute(InterruptTurn(thread_id=thread.id))
                over = False
                while not over:
                    for change in await watcher.next():
                        over = over or isinstance(change.record.event, TurnEnded)
                ended.append(time.perf_counter() - start)
                while left(work):
                    await anyio.sleep(0.005)
                gone.append(time.perf_counter() - start)
        for name, values in (("turn ended", ended), ("nothing left", gone)):
            told = {"p50_ms": round(statistics.median(values) * 1000), "max_ms": round(max(values) * 1000)}
            print(json.dumps({"sandbox": sandbox, "what": name, "n": times, **told}))


times = int(sys.argv[1]) if len(sys.argv) > 1 else 100
for policy in ("dangerFullAccess", "workspaceWrite"):
    anyio.run(measure, policy, times)
