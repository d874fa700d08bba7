"""A process that has imported everything and forks a harness on request: a kill every few milliseconds is cheap.

Each line on stdin is `{"directory": …, "script": …}`. The child runs one turn there and writes every change a
watcher is told to the FIFO `told` in that directory, one line each; its pid is printed. The child is killed
from outside, at any moment.
"""

import gc
import json
import os
import sys
from pathlib import Path

import anyio
import msgspec

from hames.app import open_engine
from hames.config.load import load
from hames.domain.commands import CreateThread, ListThreads, StartTurn, ThreadPage
from hames.domain.events import TurnEnded
from hames.domain.items import TextInput
from hames.domain.state import ThreadState


async def turn(directory: Path, script: str, out: int) -> None:
    flags = {
        "cwd": str(directory / "work"),
        "model": f"scripted/{script}",
        "approval_policy": "never",
        "sandbox": "dangerFullAccess",
    }
    options = load(flags, {"HOME": str(directory), "PATH": os.environ["PATH"]})
    async with open_engine(options) as engine:
        page = await engine.execute(ListThreads())
        assert isinstance(page, ThreadPage)
        if page.threads:
            thread_id = page.threads[0].id
        else:
            made = await engine.execute(CreateThread(title="crash"))
            assert isinstance(made, ThreadState)
            thread_id = made.id
        watcher = await engine.watch(thread_id)
        os.write(out, json.dumps({"thread": thread_id}).encode() + b"\n")
        await engine.execute(StartTurn(thread_id=thread_id, content=(TextInput(text="go"),)))
        while changes := await watcher.next():
            for change in changes:
                os.write(out, msgspec.json.encode(change.record) + b"\n")
                if isinstance(change.record.event, TurnEnded):
                    return


def main() -> None:
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            out = os.open(request["told"], os.O_WRONLY)
            anyio.run(turn, Path(request["directory"]), request["script"], out)
            os._exit(0)
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("gone", flush=True)


main()
