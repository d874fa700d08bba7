"""Threads that went with their directory are told of where people look: in the terminal and on the page."""

import os
import shutil
from pathlib import Path

import anyio
import httpx2

from hames.app import open_engine, serve_engine, thread_store
from hames.app.missing_threads import missing_notice
from hames.config.load import Options, load
from hames.domain.commands import CreateThread, StartTurn
from hames.domain.items import TextInput
from hames.domain.state import ThreadState
from hames.server.listener import Address
from hames.store.restoring import restore_thread

DELETED = "1 thread was deleted with its directory and can be brought back: hames threads restore"


def options(tmp_path: Path) -> Options:
    (tmp_path / "work").mkdir(exist_ok=True)
    flags = {"cwd": str(tmp_path / "work"), "model": "scripted/hello"}
    home = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "HAMES_STATE": str(tmp_path / "state")}
    return load(flags, home)


async def lose_a_thread(given: Options) -> None:
    async with open_engine(given) as engine:
        made = await engine.execute(CreateThread(title="lost"))
        assert isinstance(made, ThreadState)
        await engine.execute(StartTurn(thread_id=made.id, content=(TextInput(text="go"),)))
        await engine.wait(made.id)
    shutil.rmtree(given.data_dir)


async def test_the_status_of_a_server_says_that_threads_can_be_restored_until_they_are(tmp_path: Path) -> None:
    given = options(tmp_path)
    assert await missing_notice(given) == ""
    await lose_a_thread(given)
    made = thread_store(given)
    made.prepare()  # as `hames serve` does
    await made.close()
    async with (
        open_engine(given) as engine,
        serve_engine(engine, given, Address(port=0)) as server,
        httpx2.AsyncClient(base_url=server.url, trust_env=False) as client,
    ):
        with anyio.fail_after(60):
            assert (await client.get("/status")).json()["notice"] == DELETED
            store = thread_store(given)
            for lost in await store.missing():
                await restore_thread(store, lost)
            await store.close()
            assert (await client.get("/status")).json()["notice"] == ""
