"""A database that is restored to an earlier moment, and an asynchronous standby that lacks the last records."""

from collections.abc import Iterator
from contextlib import suppress

import anyio
import pytest

from flint_support import talking
from hames.cli.main import main
from hames.core.engine import Engine
from hames.domain.errors import HarnessError
from hames.domain.events import Event, ItemCompleted, ItemDelta, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import ToolCall
from hames.domain.state import ThreadState
from hames.ports import Tell
from hames.store.postgres.store import PostgresStore
from hames.testing.fakes.model import ScriptedModel, call, say, wait_for
from hames.testing.services.postgres import SUPERUSER, Cluster, joined
from node_support import node
from support import PlainTool, created, started, turn_end, until


@pytest.fixture
def primary() -> Iterator[Cluster]:
    found = Cluster(fsync=True)
    found.settings = {
        "archive_mode": "on",
        "archive_command": f"test ! -f {found.home}/wal/%f && cp %p {found.home}/wal/%f",
    }
    wal = found.home / "wal"
    wal.mkdir()
    wal.chmod(0o777)
    found.start()
    found.psql("create database hames")
    yield found
    found.stop()


def is_text(event: Event) -> bool:
    return isinstance(event, ItemDelta)


def check_store(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As an operator checks every log after a restore."""
    capsys.readouterr()
    main(["store", "check", address])
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if line.startswith("problem")] == []


async def completed(engine: Engine, thread_id: ThreadId) -> ThreadState:
    """The thread once its turn is over, however often its watcher has to begin again."""
    with anyio.fail_after(60):
        while True:
            with suppress(HarnessError):
                watcher = await engine.watch(thread_id, answers=False)
                state = watcher.state
                while state.running is not None and (changes := await watcher.next()):
                    state = changes[-1].after
                watcher.close()
                if state.running is None and state.turns:
                    return state
            await anyio.sleep(0.05)


# -- point-in-time recovery


@pytest.mark.slow
async def test_a_database_is_restored_to_a_moment_and_its_turns_go_on_from_there(
    primary: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    restored = Cluster(fsync=True, programs=primary.bin)
    source = f"host={primary.home} port={primary.port} user={SUPERUSER}"
    go = anyio.Event()
    model = ScriptedModel(
        [say("ready")], [say("half", cut=True), wait_for(go), say(" whole")], [say("too late")], name="scripted"
    )
    try:
        async with node(primary.address("hames"), model, name="a") as a:
            ready, running = await created(a), await created(a)
            watcher = await a.watch(ready.id)
            await started(a, ready.id)
            await turn_end(watcher)
            backup = ("-D", str(restored.data), "-X", "none", "-c", "fast", "-d", source)
            await anyio.to_thread.run_sync(lambda: restored.run_program("pg_basebackup", *backup))
            watcher = await a.watch(running.id)
            await started(a, running.id)
            await until(watcher, is_text)
            primary.psql("select pg_create_restore_point('before')")
            go.set()
            await turn_end(watcher)
            late = await created(a)
            watcher = await a.watch(late.id)
            await started(a, late.id)
            await turn_end(watcher)
            primary.psql("select pg_switch_wal()")
        await anyio.to_thread.run_sync(primary.stop_server)
        (restored.data / "recovery.signal").touch()
        restored.settings = {
            "restore_command": f"cp {primary.home}/wal/%f %p",
            "recovery_target_name": "before",
            "recovery_target_action": "promote",
            "hot_standby": "off",
        }
        await anyio.to_thread.run_sync(restored.start)
        address = restored.address("hames")
        await anyio.to_thread.run_sync(check_store, address, capsys)
        store = PostgresStore(address)
        assert await store.running() == [running.id]
        kept = [one.event for one in await store.read(running.id)]
        assert "".join(one.text for one in kept if isinstance(one, ItemDelta)) == "half"
        with pytest.raises(HarnessError, match="no thread"):
            await store.read(late.id)
        # The node that wrote them is in the backup, and its lease has not ended: an operator waits as long.
        await store.connections.execute("update hames.node set until = now() - interval '1 s'")
        await store.close()
        async with node(address, ScriptedModel([say("gone on")]), name="b") as b:
            state = await completed(b, running.id)
            assert [turn.status for turn in state.turns] == ["completed"]
            assert (await completed(b, ready.id)).turns[0].status == "completed"
        await anyio.to_thread.run_sync(check_store, address, capsys)
    finally:
        restored.stop()


# -- an asynchronous standby


@pytest.mark.slow
async def test_an_asynchronous_standby_takes_over_and_turns_go_on_from_what_it_has(
    primary: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    standby = await anyio.to_thread.run_sync(primary.standby)
    standby.settings = {"hot_standby": "on"}  # without `primary_conninfo`, so that it can be changed while it runs
    runs: list[str] = []
    go, on = anyio.Event(), anyio.Event()

    async def run(arguments: dict[str, object], tell: Tell) -> str:
        runs.append(str(arguments["text"]))
        return "counted"

    first = [say("Let me look."), call("count", text="x")]
    model = ScriptedModel(
        [say("One", cut=True), wait_for(go), *first], [say("Two", cut=True), wait_for(on)], first, [say("Done.")]
    )
    try:
        await anyio.to_thread.run_sync(standby.start)
        with anyio.fail_after(60):
            while primary.psql("select sync_state from pg_stat_replication") != "async":
                await anyio.sleep(0.05)
        address = joined(primary, standby, database="hames")
        async with node(address, model, PlainTool("count", run), name="a") as a, talking(a) as flint:
            thread = await created(a)
            await flint.call("thread/resume", threadId=thread.id)
            watcher = await a.watch(thread.id)
            await started(a, thread.id)
            await until(watcher, is_text)
            with anyio.fail_after(60):
                while standby.psql("select count(*) from hames.live", database="hames") == "0":
                    await anyio.sleep(0.05)
            standby.psql("alter system set primary_conninfo = ''", "select pg_reload_conf()")
            with anyio.fail_after(60):
                while primary.psql("select count(*) from pg_stat_replication") != "0":
                    await anyio.sleep(0.05)
            go.set()  # from here on it is written to the primary alone, and told to people
            await until(watcher, lambda event: isinstance(event, ItemCompleted) and isinstance(event.item, ToolCall))
            await until(watcher, is_text)
            await anyio.to_thread.run_sync(primary.kill)
            standby.psql("select pg_promote()")
            on.set()
            with anyio.fail_after(60):
                while await watcher.next():
                    pass
            assert watcher.cut_off, "it was told an ending"
            state = await completed(a, thread.id)
            assert [turn.status for turn in state.turns] == ["completed"], state.turns[0].error
            assert len(runs) == 2, "what the tool did is not in the log any more, so the model asks again"
        store = PostgresStore(standby.address("hames"))
        kept = await store.read(thread.id)
        assert [one.seq for one in kept] == list(range(1, len(kept) + 1))
        assert sum(isinstance(one.event, TurnStarted) for one in kept) == 1
        await store.close()
        await anyio.to_thread.run_sync(check_store, standby.address("hames"), capsys)
    finally:
        standby.stop()
