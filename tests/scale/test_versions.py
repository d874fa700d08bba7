"""Two real versions of Hames on one database: the one from before the tables changed last, and this one."""

import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from hames.app.nodes import NodeOptions, open_node
from hames.cli.main import main
from hames.config.load import load
from hames.core.engine import Engine
from hames.domain.commands import CreateThread, SubmitPrompt
from hames.domain.errors import Misconfigured
from hames.domain.events import ItemDelta, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
from hames.domain.options import Overrides
from hames.domain.state import ThreadState
from hames.store.postgres.store import PostgresStore
from hames.store.postgres.tables import VERSION
from hames.testing.services.postgres import Cluster
from node_support import cluster, database
from support import events, until

__all__ = ["cluster", "database"]
ROOT = Path(__file__).parents[2]
TABLES = "src/hames/store/postgres/tables.py"
RUN = "import sys; from hames.cli.main import main; sys.exit(main())"


def git(*words: str) -> bytes:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("the history of this repository is not here")
    return done.stdout


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the last commit whose tables have a lower version."""
    for commit in git("log", "--format=%H", "--", TABLES).decode().split():
        found = git("show", f"{commit}^:{TABLES}").decode()
        if "(_FIRST, 1)" in found and len(re.findall(r"\(_[A-Z]+, \d\)", found)) < VERSION:
            place = tmp_path_factory.mktemp("before")
            subprocess.run(["tar", "x", "-C", place], input=git("archive", f"{commit}^", "src"), check=True)
            return place / "src"
    pytest.skip("no earlier version has tables")


@asynccontextmanager
async def old(before: Path, home: Path, *words: str) -> AsyncGenerator[anyio.abc.Process]:
    """A command of the version before, until it is stopped."""
    home.mkdir(exist_ok=True)
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(before)}
    given |= {"HAMES_STATE": str(home / "state"), "HAMES_CONFIG": str(home / "none")}
    async with await anyio.open_process(
        [sys.executable, "-c", RUN, *words], env=given, stderr=None, cwd=home
    ) as process:
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()


async def ready(process: anyio.abc.Process) -> None:
    assert process.stdout is not None
    said = b""
    with anyio.fail_after(60):
        while b"Ctrl+C" not in said:
            said += await process.stdout.receive()


async def begun(gate: Engine, script: Path) -> tuple[ThreadId, Any]:
    """A thread of this version's gateway, with a turn that a worker runs, and its watcher."""
    made = await gate.execute(CreateThread(overrides=Overrides(cwd=str(script.parent), model=f"scripted/{script}")))
    assert isinstance(made, ThreadState)
    watcher = await gate.watch(made.id)
    await gate.execute(SubmitPrompt(thread_id=made.id, content=(TextInput(text="go"),)))
    return made.id, watcher


@pytest.mark.slow
async def test_nodes_of_the_version_before_work_beside_this_one_once_the_tables_are_migrated(
    cluster: Cluster, database: str, before: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with old(before, tmp_path / "owner", "store", "migrate", database) as process:
        assert await process.wait() == 0
    new = PostgresStore(database)
    with pytest.raises(Misconfigured, match=rf"are of version \d+, and this hames needs version {VERSION}: run `hames"):
        await new.running()
    await new.close()
    script = tmp_path / "script.json"
    slowly = {"say": "One two three four five six seven eight nine ten.", "pace_ms": 300}
    script.write_bytes(msgspec.json.encode({"conversations": [{"when": "", "replies": [slowly] * 3}]}))
    work = ("worker", "--store", database, "--name", "old", "--cwd", str(tmp_path), "--model", f"scripted/{script}")
    async with old(before, tmp_path / "old", *work) as worker:
        await ready(worker)
        assert await anyio.to_thread.run_sync(main, ["store", "migrate", database]) == 0
        assert "ran" in capsys.readouterr().out
        options = load({"cwd": str(tmp_path), "model": "scripted/hello"}, {"HOME": str(tmp_path)})
        async with open_node(options, NodeOptions(store=database, name="gate", slots=0)) as gate:
            first, watcher = await begun(gate, script)  # a command of this version, carried out by the one before
            changes = await until(watcher, lambda event: isinstance(event, TurnEnded))
            assert changes[-1].after.turns[0].status == "completed", changes[-1].after.turns[0].error
            assert "One two three" in "".join(one.text for one in events(changes) if isinstance(one, ItemDelta))
            # A worker that is stopped hands its turn to the other version, which goes on with it.
            second, watcher = await begun(gate, script)
            await until(watcher, lambda event: isinstance(event, ItemDelta))
            worker.terminate()
            with anyio.fail_after(60):
                assert await worker.wait() == 0
            ours = (
                "worker",
                "--store",
                database,
                "--name",
                "new",
                "--cwd",
                str(tmp_path),
                "--model",
                f"scripted/{script}",
            )
            async with old(ROOT / "src", tmp_path / "new", *ours) as newer:
                await ready(newer)
                changes = await until(watcher, lambda event: isinstance(event, TurnEnded))
                assert changes[-1].after.turns[0].status == "completed", changes[-1].after.turns[0].error
    async with old(before, tmp_path / "owner", "store", "check", database) as process:  # reads what this version wrote
        assert process.stdout is not None
        told = b"".join([chunk async for chunk in process.stdout]).decode()
        assert "2 threads" in told
        problems = [line for line in told.splitlines() if line.startswith("problem") and "fsync" not in line]
        assert problems == []
    assert first != second
