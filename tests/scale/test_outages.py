"""A database that is slow, cut off, silent, or replaced by its standby: nothing that was kept is lost, turns go on."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from database_proxy import DatabaseProxy, database_proxy

from hames.core.engine import Engine
from hames.domain.errors import Misconfigured
from hames.domain.events import ItemDelta, Record, TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.store.postgres.store import PostgresStore
from hames.testing.checks.store import check_store
from hames.testing.fakes.model import ScriptedModel, say, wait_for
from hames.testing.services.postgres import SUPERUSER, Cluster, joined
from node_support import cluster, database, end_lease, node
from support import created, started, until

__all__ = ["cluster", "database"]


def through(proxy: DatabaseProxy, address: str) -> str:
    name = address.partition("?")[0].rpartition("/")[2]
    return f"postgresql://{SUPERUSER}@127.0.0.1:{proxy.port}/{name}"


async def ended(engine: Engine, thread_id: ThreadId) -> None:
    watcher = await engine.watch(thread_id, answers=False)
    state = watcher.state
    with anyio.fail_after(60):
        while state.running is not None or not state.turns:
            state = (await watcher.next())[-1].after
    watcher.close()


def check_log(records: list[Record], *texts: str) -> None:
    """It has no gap, one beginning and one end, and says it all once."""
    assert [one.seq for one in records] == list(range(1, len(records) + 1))
    events = [one.event for one in records]
    assert sum(isinstance(one, TurnStarted) for one in events) == 1
    assert [one.status for one in events if isinstance(one, TurnEnded)] == ["completed"]
    said = "".join(one.text for one in events if isinstance(one, ItemDelta))
    assert [said.count(text) for text in texts] == [1] * len(texts)


async def play_outage(
    address: str, proxy: DatabaseProxy, begin: Callable[[], None], end: Callable[[], None], *, seconds: float
) -> None:
    """A turn on a node behind the proxy: the trouble begins in the middle of its text, and ends some time later."""
    go = anyio.Event()
    model = ScriptedModel([say("before;", cut=True), wait_for(go), say("during;"), say("after.")])
    async with node(through(proxy, address), model, name="a") as a:
        thread = await created(a)
        watcher = await a.watch(thread.id)
        await started(a, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        begin()
        go.set()
        with anyio.fail_after(60):
            await anyio.sleep(seconds)  # the trouble itself: nothing can be waited for
            end()
        await ended(a, thread.id)
        store = PostgresStore(address)
        check_log(await store.read(thread.id), "before;", "during;", "after.")
        await store.close()


def trouble(proxy: DatabaseProxy, kind: str) -> tuple[Callable[[], None], float]:
    def slow() -> None:
        proxy.delay_s = 0.05

    def thin() -> None:
        proxy.bytes_per_s = 20_000

    def gone() -> None:
        proxy.refuses = True
        proxy.reset()

    kinds: dict[str, tuple[Callable[[], None], float]] = {
        "delay": (slow, 0.3),
        "throttle": (thin, 0.3),
        "reset": (proxy.reset, 0.0),
        "half-close": (proxy.half_close, 0.0),
        "refuse": (gone, 2.0),
        "silence": (proxy.be_silent, 3.0),
        "silence past every timeout": (proxy.be_silent, 12.0),
        "loss": (proxy.forget, 0.0),
    }
    return kinds[kind]


QUICK = ("reset",)
KINDS = ("delay", "throttle", "reset", "half-close", "refuse", "silence", "silence past every timeout", "loss")


@pytest.mark.parametrize("kind", [pytest.param(one, marks=[] if one in QUICK else [pytest.mark.slow]) for one in KINDS])
async def test_a_turn_outlives_trouble_between_its_node_and_the_database(
    kind: str, cluster: Cluster, database: str
) -> None:
    async with database_proxy(cluster) as proxy:
        begin, seconds = trouble(proxy, kind)
        await play_outage(database, proxy, begin, proxy.heal, seconds=seconds)


@pytest.mark.slow
async def test_a_node_that_was_cut_off_while_another_took_over_writes_nothing_when_it_is_back(
    cluster: Cluster, database: str
) -> None:
    go = anyio.Event()
    first = ScriptedModel([say("One,", cut=True), wait_for(go), say(" never.")])
    async with database_proxy(cluster) as proxy, AsyncExitStack() as stack:
        a = await stack.enter_async_context(node(through(proxy, database), first, name="a"))
        thread = await created(a)
        watcher = await a.watch(thread.id)
        await started(a, thread.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        proxy.be_silent()
        go.set()  # its text waits in the node, and is told to nobody
        end_lease(cluster, database, "a")
        b = await stack.enter_async_context(node(database, ScriptedModel([say("Done.")]), name="b"))
        await ended(b, thread.id)
        proxy.heal()
        with anyio.fail_after(60):
            while changes := await watcher.next():
                assert not any("never" in str(one.record.event) for one in changes)
        store = PostgresStore(database)
        check_log(await store.read(thread.id), "Done.")
        await store.close()


# -- a standby


@pytest.fixture
def primary() -> Iterator[Cluster]:
    found = Cluster(fsync=True).start()
    yield found
    found.stop()


@pytest.mark.slow
@pytest.mark.parametrize("turns", [50])
async def test_running_turns_complete_on_a_synchronous_standby_and_no_kept_fact_is_lost(
    primary: Cluster, turns: int
) -> None:
    primary.psql("create database hames")
    second = await anyio.to_thread.run_sync(primary.standby)
    try:
        await anyio.to_thread.run_sync(second.start)
        primary.psql("alter system set synchronous_standby_names = 'standby'", "select pg_reload_conf()")
        with anyio.fail_after(60):
            while primary.psql("select sync_state from pg_stat_replication") != "sync":
                await anyio.sleep(0.05)
        address = joined(primary, second, database="hames")
        go = anyio.Event()
        model = ScriptedModel(*([say("before;", cut=True), wait_for(go), say("after.")] for _ in range(turns)))
        async with node(address, model, name="a", slots=turns) as a:
            seen: dict[ThreadId, list[Record]] = {}
            for _ in range(turns):
                thread = await created(a)
                watcher = await a.watch(thread.id)
                await started(a, thread.id)
                changes = await until(watcher, lambda event: isinstance(event, ItemDelta))
                seen[thread.id] = [one.record for one in changes]
                watcher.close()
            await anyio.to_thread.run_sync(primary.kill)
            go.set()  # records are handed over while there is no database
            second.psql("select pg_promote()")
            for thread_id in seen:
                await ended(a, thread_id)
        store = PostgresStore(second.address("hames"))
        for thread_id, told in seen.items():
            kept = await store.read(thread_id)
            check_log(kept, "before;", "after.")
            facts = [one for one in told if not isinstance(one.event, ItemDelta)]
            assert facts
            assert all(one in kept for one in facts)
        await store.close()
    finally:
        second.stop()


# -- TLS


def certificates(directory: Path, user: str | None) -> None:
    """A private authority, and a certificate of it for `localhost` alone."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("ca", "other"):
        openssl(
            "req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "2"
        )
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", "-days", "2", *signing)
    (directory / "server.key").chmod(0o600)
    if user is not None:
        subprocess.run(["chown", user, directory / "server.key", directory / "server.pem"], check=True)


@pytest.mark.slow
@pytest.mark.needs("openssl")
async def test_the_database_is_known_by_its_certificate() -> None:
    server = Cluster()
    try:
        certificates(server.home, server.user)
        files = {
            name: str(server.home / f"server.{end}")
            for name, end in (("ssl_cert_file", "pem"), ("ssl_key_file", "key"))
        }
        server.settings = {"ssl": "on", **files}
        port = server.listen()
        server.start()
        server.psql("create database hames")

        def address(host: str, ca: str) -> str:
            about = f"sslmode=verify-full&sslrootcert={server.home}/{ca}.pem"
            return f"postgresql://{SUPERUSER}@{host}:{port}/hames?{about}"

        store = PostgresStore(address("localhost", "ca"))
        await check_store(store)
        row = await store.connections.fetch_row("select ssl from pg_stat_ssl where pid = pg_backend_pid()")
        assert row[0] is True
        await store.close()
        for wrong in (address("localhost", "other"), address("127.0.0.1", "ca")):
            store = PostgresStore(wrong)
            with pytest.raises(Misconfigured, match="is not trusted"):
                await store.read(ThreadId("ses_here"))
            await store.close()
    finally:
        server.stop()
