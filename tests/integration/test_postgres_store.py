"""Threads in PostgreSQL, with real servers that are killed, cut off and migrated."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import anyio
import pytest

from hames.cli.main import main
from hames.clock_and_ids import RandomIds, SystemClock
from hames.core.engine import Engine
from hames.domain.commands import DeleteThread, ListThreads, ThreadPage, ThreadSummary
from hames.domain.errors import Fenced, Misconfigured, StorageFailed, ThreadInUse, ThreadNotFound
from hames.domain.events import ItemCompleted, ItemDelta, Noticed, Record
from hames.domain.ids import ItemId, ThreadId, TurnId
from hames.domain.items import AgentMessage, TextInput, UserMessage
from hames.store.jsonl import JsonlStore
from hames.store.places import Places
from hames.store.postgres.connection import connect
from hames.store.postgres.letters import PostgresLetters
from hames.store.postgres.nodes import PostgresNodes
from hames.store.postgres.store import PostgresStore
from hames.store.postgres.tables import VERSION, migrate
from hames.store.postgres.upkeep import migrate_database, pack_old
from hames.testing.checks.store import check_store, jot
from hames.testing.fakes.model import ScriptedModel, call, say
from hames.testing.services.postgres import Cluster
from support import check_continuous, created, engine, turn_end, until, whole_turn
from support import started as start_turn

HERE = ThreadId("ses_here")
Open = Callable[..., PostgresStore]
WITHOUT_CLIENT_TOOLS = "alter table hames.presence drop column tools, drop column since"
"""Takes back the third migration."""


def note(seq: int, thread_id: ThreadId = HERE, text: str = "") -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=Noticed(source="test", name="n", message=text))


def piece(seq: int, text: str) -> Record:
    event = ItemDelta(turn_id=TurnId("turn_1"), item_id=ItemId("item_1"), stream="text", text=text)
    return Record(seq=seq, at_ms=seq, thread_id=HERE, event=event)


@pytest.fixture
async def stores(database: str) -> AsyncIterator[Open]:
    """Makes stores on one database: each is a node."""
    async with AsyncExitStack() as stack:

        def make(address: str = database, **options: object) -> PostgresStore:
            made = PostgresStore(address, **options)  # type: ignore[arg-type]
            stack.push_async_callback(made.close)
            return made

        yield make


async def forget_node(store: PostgresStore) -> None:
    """As if its lease had ended."""
    await store.connections.execute("update hames.node set until = now() - interval '1 s' where id = $1", store.node_id)


# -- a database that crashed


async def forget_records(store: PostgresStore, after: int) -> None:
    """As if the database had crashed before they were on its disk."""
    await store.connections.execute("delete from hames.ev where seq > $1", after)
    await store.connections.execute("update hames.thread set head = $1", after)


@pytest.mark.parametrize("sync", [True, False])
async def test_records_that_a_crash_of_the_database_lost_are_written_again(stores: Open, *, sync: bool) -> None:
    store = stores()
    log = await store.create(HERE)
    await log.append([note(1)], sync=True)
    for seq in (2, 3, 4):
        await log.append([note(seq)])
    await forget_records(store, after=2)
    await log.append([note(5)], sync=sync)
    await forget_records(store, after=5 if sync else 1)
    await log.append([note(6)])
    assert await store.read(HERE) == [note(seq) for seq in range(1, 7)]


async def test_a_database_that_lost_what_it_had_confirmed_gets_no_record_after_the_gap(stores: Open) -> None:
    store = stores()
    log = await store.create(HERE)
    for seq in (1, 2, 3):
        await log.append([note(seq)], sync=True)
    await forget_records(store, after=1)
    for seq in (4, 5):
        with pytest.raises(StorageFailed, match="the database has lost records 2 to 3, which it had confirmed"):
            await log.append([note(seq)], sync=True)
    assert await store.read(HERE) == [note(1)]


# -- the fence


async def test_a_log_that_another_node_took_over_writes_nothing(stores: Open) -> None:
    ours, theirs = stores(), stores()
    log = await ours.create(HERE)
    await log.append([note(1)], sync=True)
    with pytest.raises(ThreadInUse, match="is being written by node"):
        await theirs.open(HERE)
    await forget_node(ours)
    fenced: list[ThreadId] = []
    ours.fenced_listeners.append(fenced.append)
    taken = await theirs.open(HERE)
    told: list[str] = []
    log.jot(piece(2, "late"), lambda: told.append("late"))
    with pytest.raises(Fenced, match="was taken over by another node"):
        await log.append([piece(2, "late"), note(3)], sync=True)
    for write in (log.append([note(2)]), log.append([])):
        with pytest.raises(Fenced):
            await write
    with pytest.raises(Fenced):
        log.jot(piece(2, "later"))
    assert (told, fenced) == ([], [HERE])
    await taken.append([note(2, text="theirs")], sync=True)
    assert await ours.read(HERE) == [note(1), note(2, text="theirs")]
    await log.close()  # and gives nothing back that it does not have
    with pytest.raises(ThreadInUse):
        await ours.open(HERE)


async def test_a_delta_of_a_fenced_node_is_never_seen(stores: Open) -> None:
    ours, theirs = stores(), stores()
    log = await ours.create(HERE)
    await log.append([note(1)])
    await jot(log, piece(2, "he"))
    await forget_node(ours)
    taken = await theirs.open(HERE)
    assert await taken.read() == [note(1), piece(2, "he")], "what was told before is taken over"
    log.jot(piece(2, "llo"), pytest.fail)
    with pytest.raises(Fenced):
        await log.append([])
    assert await theirs.read(HERE) == [note(1), piece(2, "he")]


async def test_deltas_count_as_kept_in_order_and_before_their_bundle(stores: Open) -> None:
    log = await stores().create(HERE)
    told: list[str] = []
    for text in "abc":
        log.jot(piece(1, text), lambda text=text: told.append(text))
    await log.append([piece(1, "abc"), note(2)], sync=True)
    told.append("appended")
    log.jot(piece(3, "d"), lambda: told.append("d"))
    await log.append([])
    assert told == ["a", "b", "c", "appended", "d"]


# -- connections that are lost


@pytest.mark.slow
async def test_records_are_kept_once_though_connections_are_lost_all_the_time(stores: Open, database: str) -> None:
    store = stores()
    log = await store.create(HERE)
    killer = await connect(database, "killer")
    told: list[int] = []
    cut = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'hames %'"
    for seq in range(1, 41, 2):
        log.jot(piece(seq, "text"), lambda seq=seq: told.append(seq))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(killer.execute, cut)
            await log.append([piece(seq, "text"), note(seq + 1)], sync=seq % 3 == 0)
    await killer.close()
    assert [one.seq for one in await store.read(HERE)] == list(range(1, 41))
    assert told == list(range(1, 41, 2))


@pytest.mark.slow
async def test_facts_outlive_a_killed_server_and_appends_wait_for_it() -> None:
    await kill_the_server(kills=1)


@pytest.mark.slow
async def test_facts_outlive_a_server_that_is_killed_again_and_again() -> None:
    await kill_the_server(kills=8)


async def kill_the_server(*, kills: int) -> None:
    """Four threads write facts and text as fast as they can. What was acknowledged is there at the end, once."""
    cluster = Cluster(fsync=True).start()
    kept: dict[ThreadId, list[int]] = {ThreadId(f"ses_{number}"): [] for number in range(4)}
    try:
        store = PostgresStore(cluster.new_database())
        stop = anyio.Event()

        async def write(thread_id: ThreadId) -> None:
            log = await store.create(thread_id)
            seq = 0
            while not stop.is_set():
                seq += 1
                await log.append([note(seq, thread_id)], sync=True)
                kept[thread_id].append(seq)

        with anyio.fail_after(200):
            async with anyio.create_task_group() as tasks:
                for thread_id in kept:
                    tasks.start_soon(write, thread_id)
                for _ in range(kills):
                    before = sum(map(len, kept.values()))
                    while sum(map(len, kept.values())) < before + 40:
                        await anyio.sleep(0.01)
                    await anyio.to_thread.run_sync(cluster.kill)
                    await anyio.to_thread.run_sync(cluster.start)
                before = sum(map(len, kept.values()))
                while sum(map(len, kept.values())) < before + 40:  # everybody goes on
                    await anyio.sleep(0.01)
                stop.set()
            for thread_id, numbers in kept.items():
                found = [one.seq for one in await store.read(thread_id)]
                assert found == list(range(1, len(found) + 1))
                assert numbers == found
        await store.close()
    finally:
        cluster.stop()


# -- following


@pytest.mark.slow
async def test_without_hints_a_follower_hears_everything_all_the_same(stores: Open) -> None:
    writer, reader = stores(notifies=False), stores(notifies=False)
    log = await writer.create(HERE)
    with anyio.fail_after(60):
        async with aclosing(reader.follow(HERE)) as news:
            assert (await anext(news)).whole
            await jot(log, piece(1, "he"))
            assert (await anext(news)).records == [piece(1, "he")]
            await log.append([piece(1, "hello"), note(2)])
            assert (await anext(news)).records == [piece(1, "llo"), note(2)]
            await log.close()
            await writer.delete(HERE)
            async for _ in news:
                pytest.fail("a deleted thread has news")


async def test_another_node_sees_a_turn_as_its_own_watchers_do(stores: Open, tmp_path: Path) -> None:
    model = ScriptedModel([say("let me look", pieces=5), call("echo", x=1)], [say("that was it", pieces=7)])
    async with node(stores(), model) as ours, node(stores(), ScriptedModel()) as theirs:
        thread = await created(ours)
        near, far = await ours.watch(thread.id), await theirs.watch(thread.id)
        snapshot = far.state
        await start_turn(ours, thread.id)
        await turn_end(near)
        heard = await turn_end(far)
        check_continuous(snapshot, heard)
        final = ours.loaded(thread.id)
        assert final is not None
        assert heard[-1].after == final
        page = await theirs.execute(ListThreads(search="echo"))
        assert isinstance(page, ThreadPage)
        near.close()
        far.close()
        await until_free(ours, thread.id)
        await ours.execute(DeleteThread(thread_id=thread.id))
        with pytest.raises(ThreadNotFound):
            await ours.watch(thread.id)


async def until_free(engine: Engine, thread_id: ThreadId) -> None:
    with anyio.fail_after(60):
        assert await engine.wait(thread_id) is None


def node(store: PostgresStore, model: ScriptedModel) -> Engine:
    return engine(model, store=store, clock=SystemClock(), ids=RandomIds())


async def test_a_turn_that_a_dead_node_left_goes_on_at_the_next(stores: Open) -> None:
    model = ScriptedModel([say("first"), call("stuck")])
    first = stores()
    async with node(first, model) as ours:
        thread = await created(ours)
        watcher = await ours.watch(thread.id)
        await start_turn(ours, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta) and event.text == "begun")
        await forget_node(first)
        second = stores()
        assert await second.running() == [thread.id]
        async with node(second, ScriptedModel([say("I go on")])) as theirs:
            await theirs.continue_turns()
            await until_free(theirs, thread.id)
            state = theirs.loaded(thread.id)
            assert state is not None
            assert state.turns[-1].status == "completed"
            with anyio.fail_after(60):
                while await second.running():
                    await anyio.sleep(0.01)
        kept = await first.read(thread.id)
        assert [one.seq for one in kept] == list(range(1, len(kept) + 1))


# -- lists and search


def said(seq: int, thread_id: ThreadId, item: UserMessage | AgentMessage) -> Record:
    return Record(seq=seq, at_ms=seq, thread_id=thread_id, event=ItemCompleted(turn_id=TurnId("t"), item=item))


SEARCHES = ("plumage", "plum", "pl", "ÜBER", "uber", "foo_bar", "src/hames", "hames py", "的", "中文")
ODD_SEARCHES = ("it's", "100%", "'", "zzz", "\\", "a & b", "x:*", "!")


async def test_a_search_finds_the_same_threads_as_on_files(stores: Open, tmp_path: Path) -> None:
    texts = {
        "ses_a": "beautiful Plumage, über all",
        "ses_b": "look at src/hames/foo_bar.py, it's 100% sure\0",
        "ses_c": "我说中文的时候",
        "ses_d": "nothing " * 3000 + "plum",
    }
    postgres, files = stores(), JsonlStore(tmp_path / ".harness", places=Places(tmp_path / "state"))
    found: list[list[list[str]]] = []
    for store in (postgres, files):
        for at_ms, (name, text) in enumerate(texts.items()):
            thread_id = ThreadId(name)
            log = await store.create(thread_id)
            item = UserMessage(id=ItemId("i"), step=0, content=(TextInput(text=text),))
            await log.append([said(1, thread_id, item)])
            await log.summarize(listed(thread_id, at_ms))
            await log.close()
        found.append([await ids(store, search) for search in (*SEARCHES, *ODD_SEARCHES)])
    assert found[0] == found[1]
    assert await ids(postgres, "plumage") == ["ses_a"]
    page = await postgres.page(limit=None, cursor=None, archived=None, search="plum")
    assert all("plum" in one.match.lower() for one in page.threads)


def listed(thread_id: ThreadId, at_ms: int) -> ThreadSummary:
    return ThreadSummary(
        id=thread_id, title="", preview="", cwd="/", model="a/b", created_at_ms=at_ms, updated_at_ms=at_ms
    )


async def ids(store: PostgresStore | JsonlStore, search: str) -> list[str]:
    page = await store.page(limit=None, cursor=None, archived=None, search=search)
    return [str(one.id) for one in page.threads]


# -- operating it


async def test_the_database_of_a_newer_version_is_refused_in_words(stores: Open, database: str) -> None:
    connection = await connect(database, "test")
    await connection.execute("insert into hames.migration (number) values (99)")
    await connection.close()
    with pytest.raises(Misconfigured, match="made by a newer version of hames"):
        await stores().create(HERE)


async def test_the_tables_of_an_older_version_are_brought_to_this_one_and_keep_what_is_in_them(
    stores: Open, database: str
) -> None:
    """As a node of version 1 left it."""
    older = stores()
    log = await older.create(HERE)
    await log.append([note(1)], sync=True)
    await older.close()
    connection = await connect(database, "test")
    await connection.execute("drop table hames.token, hames.link, hames.spending; drop index hames.blob_uploads")
    await connection.execute("alter table hames.migration drop column usable_by")
    await connection.execute(WITHOUT_CLIENT_TOOLS)
    await connection.execute("delete from hames.migration where number > 1")
    with pytest.raises(Misconfigured, match="run `hames store migrate`"):
        await stores().read(HERE)
    assert await migrate(connection) == VERSION - 1
    assert await migrate(connection) == 0
    await connection.close()
    store = stores()
    assert await store.read(HERE) == [note(1)]
    await (await store.open(HERE)).append([note(2)], sync=True)


async def test_the_tables_of_a_newer_version_are_used_if_it_only_added_to_them(stores: Open, database: str) -> None:
    """So nodes of two versions work side by side while they are upgraded one after the other."""
    connection = await connect(database, "test")
    await connection.execute("alter table hames.thread add column region text")
    await connection.execute("alter table hames.ev add column size integer; create table hames.more (id text)")
    await connection.execute("insert into hames.migration (number, usable_by) values ($1, $2)", VERSION + 1, VERSION)
    await check_store(stores())
    assert await migrate(connection) == 0
    await connection.execute("update hames.migration set usable_by = number where number = $1", VERSION + 1)
    await connection.close()
    with pytest.raises(Misconfigured, match="Upgrade hames on this node"):
        await stores().read(HERE)


async def test_a_worker_role_does_all_and_a_gateway_role_cannot_change_a_log(
    stores: Open, database: str, postgres: Cluster
) -> None:
    postgres.psql("create role w login", "create role g login")
    try:
        await migrate_database(database, gateways=["g"], workers=["w"])
        worker, gateway = (stores(database.replace("//hames@", f"//{role}@")) for role in "wg")
        await check_store(worker)
        assert await gateway.read(ThreadId("ses_here"))
        await gateway.inbox.send(ThreadId("ses_here"), b"command", client_id="1")
        for statement in ("delete from hames.token", "update hames.ev set body = ''", "drop table hames.ev"):
            with pytest.raises(StorageFailed, match=r"permission denied|must be owner"):
                await gateway.connections.execute(statement)
        with pytest.raises(Misconfigured, match="no role"):
            await migrate_database(database, gateways=["nobody_here"], workers=[])
        for one in (worker, gateway):
            await one.close()
    finally:
        name = database.split("@/")[1].split("?", maxsplit=1)[0]
        postgres.psql("drop owned by w", "drop owned by g", database=name)
        postgres.psql("drop role w", "drop role g")


async def test_packed_threads_are_read_as_before_and_unpacked_when_they_are_used(stores: Open) -> None:
    store = stores()
    async with node(stores(), ScriptedModel([say("hello")])) as ours:
        thread = await created(ours)
        await whole_turn(ours, thread.id)
        await until_free(ours, thread.id)
    before = await store.examine(thread.id)
    await store.connections.execute("update hames.listed set updated_at_ms = 0")
    assert await pack_old(store.connections, 30) == 1
    count = await store.connections.fetch_row("select count(*) from hames.ev")
    assert count[0] == 0
    assert await store.examine(thread.id) == before
    log = await store.open(thread.id)
    assert await log.read() == before.records
    await log.append([note(before.records[-1].seq + 1, thread.id)])
    assert len(await store.read(thread.id)) == len(before.records) + 1


async def test_a_command_is_received_once_and_its_answer_reaches_the_sender(stores: Open) -> None:
    asker, owner = stores(), stores()
    await (await owner.create(HERE)).append([note(1)])
    letters = PostgresLetters(owner, PostgresNodes(owner, name="owner", slots=1))
    for _ in range(2):  # a second try after a lost connection
        await asker.inbox.send(HERE, b"do it", client_id="command_1")
    stranger = PostgresLetters(asker, PostgresNodes(asker, name="asker", slots=1))
    assert await stranger.receive([HERE], []) == [], "the thread is another node's"
    [letter] = await letters.receive([HERE, ThreadId("ses_other")], [])
    assert (letter.key, letter.thread_id, letter.body, letter.repeated) == ("command_1", HERE, b"do it", False)
    assert await letters.receive([HERE], ["command_1"]) == []
    [again] = await letters.receive([HERE], [])
    assert again == letter, "it was taken, and the answer of the database was lost"
    assert await asker.inbox.wait(HERE, "command_1", 0.01) is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(letters.answer, letter.key, b"done")
        assert await asker.inbox.wait(HERE, "command_1", 60) == b"done"


@pytest.mark.slow
def test_threads_are_copied_between_files_and_a_database(
    database: str, postgres: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = postgres.new_database()
    name = other.split("@/")[1].split("?")[0]

    async def fill() -> None:
        store = PostgresStore(database)
        async with node(store, ScriptedModel([say("hello")])) as ours:
            thread = await created(ours)
            await whole_turn(ours, thread.id)
            await until_free(ours, thread.id)

    anyio.run(fill)
    files = str(tmp_path / "files")
    assert main(["store", "copy", database, files]) == 0
    assert main(["store", "copy", files, other]) == 0
    assert main(["store", "copy", files, other]) == 0
    assert main(["store", "migrate", other]) == 0
    postgres.psql("update hames.ev set body = body || 'x' where seq = 2", database=name)
    assert main(["store", "check", other]) == 1
    told = capsys.readouterr().out
    assert told.count("1 thread copied") == 2
    assert "0 threads copied" in told
    assert "1 records are damaged" in told
    assert postgres.psql("select count(*) from hames.thread", database=name) == "1"


def test_without_a_database_nothing_of_it_is_imported() -> None:
    code = (
        "import sys, hames.app, hames.cli.serve, hames.cli.doctor, hames.server.app;"
        "print([n for n in sys.modules if n.startswith(('asyncpg', 'hames.store.postgres'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_driver_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(Misconfigured, match=r"pip install 'hames\[postgres\]'"):
        PostgresStore("postgresql://localhost/x")


@pytest.mark.parametrize("address", ["db/hames", "mysql://db/hames", "postgres"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Misconfigured, match="is not an address of a PostgreSQL database"):
        PostgresStore(address)
