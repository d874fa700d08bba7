"""Servers that share a store in PostgreSQL: what is put at one of them is used at another, or on a worker."""

import base64
import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import connect

from hames.cli.main import main
from hames.core.engine import Engine
from hames.domain.budgets import Spending
from hames.domain.commands import DeleteThread
from hames.domain.errors import HarnessError, StorageFailed, ThreadNotFound
from hames.domain.events import ItemStarted
from hames.domain.items import UserMessage
from hames.server.app import Server
from hames.server.guard.token import WRONG_CODES
from hames.store.postgres.server_state import PostgresDaySpending, PostgresServerState
from hames.store.postgres.store import PostgresStore
from hames.store.postgres.upkeep import migrate_database, pack_old
from hames.testing.fakes.model import ScriptedModel, say
from hames.testing.services.postgres import Cluster
from node_support import LEASE_SECONDS, node
from server_support import http, running
from support import created, started, turn_end

OWNER = "the-owner-token-0123456789"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def state_of(engine: Engine) -> PostgresServerState:
    store = engine.node.nodes._store  # type: ignore[union-attr]
    return PostgresServerState(store)


@asynccontextmanager
async def gateway(address: str, directory: Path, name: str) -> AsyncGenerator[Server]:
    async with (
        node(address, slots=0, name=name) as engine,
        running(engine, directory / name, token=OWNER, shared=state_of(engine)) as server,
    ):
        yield server


@asynccontextmanager
async def two_gateways(address: str, directory: Path) -> AsyncGenerator[tuple[Server, Server]]:
    async with gateway(address, directory, "a") as a, gateway(address, directory, "b") as b:
        yield a, b


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_a_picture_uploaded_to_one_server_is_seen_at_another_and_read_by_the_worker(
    database: str, tmp_path: Path
) -> None:
    async with two_gateways(database, tmp_path) as (a, b):
        async with http(a, **bearer(OWNER)) as client:
            put = await client.post("/uploads?name=cat.png", content=PNG, headers={"content-type": "image/png"})
            refused = await client.post("/uploads", content=b"no", headers={"content-type": "image/png"})
        assert (put.status_code, refused.status_code) == (201, 400)
        upload: Any = put.json()
        async with http(b, **bearer(OWNER)) as client:
            got = await client.get(f"/uploads/{upload['id']}")
            missing = [await client.get(f"/uploads/{one}") for one in ("up_" + "0" * 32, "up_x", "%2e%2e")]
        assert (got.status_code, got.content) == (200, PNG)
        assert [one.status_code for one in missing] == [404, 404, 404]
        thread = await created(b.service.engine)
        watcher = await b.service.engine.watch(thread.id)
        async with node(database, ScriptedModel([say("a cat")]), name="worker"):
            url = b.url.replace("http", "ws", 1) + f"/ws?thread={thread.id}"
            async with connect(url, additional_headers=bearer(OWNER), proxy=None) as socket:
                prompt = {"type": "submit", "id": "1", "prompt": "look", "attachments": [image(upload["id"])]}
                await socket.send(json.dumps({"type": "commands", "commands": [prompt]}))
                changes = await turn_end(watcher)
        events = [one.record.event for one in changes]
        [sent] = [one.item for one in events if isinstance(one, ItemStarted) and isinstance(one.item, UserMessage)]
        assert [base64.b64decode(one.base64) for one in sent.pictures] == [PNG]


def image(upload_id: str) -> dict[str, str]:
    return {"type": "image", "id": upload_id}


@pytest.mark.slow
async def test_an_upload_that_is_too_old_is_deleted_for_all(database: str) -> None:
    store = PostgresStore(database)
    state = PostgresServerState(store)
    await state.put_upload("up_" + "1" * 32, "old.png", PNG)
    await state.put_upload("up_" + "2" * 32, "new.png", PNG)
    await store.connections.execute(
        "update hames.blob set created_at = now() - interval '8 days' where name = 'old.png'"
    )
    await state.delete_old_uploads(7 * 24 * 3600.0)
    found = [await state.find_upload("up_" + one * 32) for one in "12"]
    assert found == [None, PNG]
    await store.close()


async def test_a_token_made_with_the_command_is_good_at_every_server_until_it_is_revoked(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HAMES_STORE", database)

    async def tokens(*words: str) -> str:
        assert await anyio.to_thread.run_sync(main, ["tokens", *words]) == 0
        return capsys.readouterr().out.strip()

    async def role(server: Server, token: str) -> str:
        async with http(server, **bearer(token)) as client:
            answer = await client.get("/status")
            return answer.json()["role"] if answer.status_code == 200 else str(answer.status_code)

    async with two_gateways(database, tmp_path) as servers:
        made = await tokens("add", "alice", "--role", "driver")
        assert [await role(one, made) for one in servers] == ["driver", "driver"], "at once"
        assert [await role(one, "hames_guess") for one in servers] == ["401", "401"]
        assert await anyio.to_thread.run_sync(main, ["tokens", "add", "alice", "--role", "observer"]) == 2
        assert "there is a token 'alice' already" in capsys.readouterr().err
        assert (await tokens("list", "--store", database)).split()[:2] == ["alice", "driver"]
        async with http(servers[0], **bearer(made)) as client:
            signed_in = await client.post("/sign-in", json={"code": made})
            cookie = signed_in.headers["set-cookie"].partition(";")[0]
        assert [await by_cookie(one, cookie) for one in servers] == [200, 200]
        assert await tokens("revoke", "alice") == "revoked alice"
        with anyio.fail_after(60):
            while [await role(one, made) for one in servers] != ["401", "401"]:
                await anyio.sleep(0.05)
        assert [await by_cookie(one, cookie) for one in servers] == [401, 401]
        assert await anyio.to_thread.run_sync(main, ["tokens", "revoke", "alice"]) == 2


async def by_cookie(server: Server, cookie: str) -> int:
    async with http(server, cookie=cookie) as client:
        return (await client.get("/status")).status_code


@pytest.mark.slow
async def test_an_expired_token_makes_room_for_a_new_one_of_its_name(database: str) -> None:
    from hames.server.guard.named_tokens import make_token

    store = PostgresStore(database)
    state = PostgresServerState(store)
    _, old = make_token("ci", "driver", now_ms=1000, lasts_ms=500)
    _, new = make_token("ci", "observer", now_ms=2000)
    assert await state.add_token(old, now_ms=1000)
    assert await state.add_token(old, now_ms=1000), "a second try of the same"
    assert not await state.add_token(new, now_ms=1400)
    assert await state.add_token(new, now_ms=2000)
    assert list(await state.tokens()) == [new]
    await store.close()


@pytest.mark.slow
async def test_a_sign_in_link_or_code_of_one_server_works_once_at_any(database: str, tmp_path: Path) -> None:
    async with two_gateways(database, tmp_path) as (a, b):

        async def invite(server: Server) -> Any:
            async with http(server, **bearer(OWNER)) as client:
                return (await client.post("/links", json={})).json()

        async def opened(server: Server, path: str) -> bool:
            async with http(server) as client:
                answer = await client.get(path)
                return "set-cookie" in answer.headers

        async def typed(server: Server, code: str) -> int:
            async with http(server) as client:
                return (await client.post("/sign-in", json={"code": code})).status_code

        first = await invite(a)
        assert await opened(b, first["path"])
        assert not await opened(a, first["path"])
        assert await typed(a, first["code"]) == 401, "using the link used up the code"
        second, third = await invite(a), await invite(b)
        assert await typed(b, second["code"]) == 401, "only the newest code is valid"
        assert await typed(a, third["code"]) == 200
        assert await opened(a, second["path"])
        assert not await opened(b, "/?token=" + "x" * 43)
        link = await a.link()
        assert await opened(b, link.removeprefix(a.url))


async def test_wrong_codes_are_counted_for_all_servers_together(database: str) -> None:
    from hames.clock_and_ids import SystemClock
    from hames.server.guard.token import Keyring

    stores = [PostgresStore(database) for _ in range(2)]
    rings = [Keyring(OWNER, SystemClock(), shared=PostgresServerState(one)) for one in stores]
    made = await rings[0].make_invitation()
    for number in range(WRONG_CODES):
        assert await rings[number % 2].use_code("WRONGONE") is None
    assert await rings[0].use_code(made.code) is None
    assert await rings[1].use_link(made.word) == rings[0].cookie, "a link cannot be guessed, and stays valid"
    late = await rings[0].make_invitation()
    await stores[0].connections.execute("update hames.link set word_until = now(), code_until = now()")
    assert (await rings[1].use_code(late.code), await rings[1].use_link(late.word)) == (None, None)
    for one in stores:
        await one.close()


async def test_the_budget_of_a_day_counts_what_all_nodes_spent(database: str) -> None:
    stores = [PostgresStore(database) for _ in range(2)]
    a, b = (PostgresDaySpending(one, lambda: "2999-01-02") for one in stores)

    async def add(day: PostgresDaySpending, tokens: int) -> int:
        total = await anyio.to_thread.run_sync(day.add, Spending(tokens=tokens, usd=0.5))
        return total.spent.tokens

    assert [await add(a, 10), await add(b, 5), await add(a, 1)] == [10, 15, 16]
    raised = await anyio.to_thread.run_sync(b.raise_limit, "tokens", 100.0)
    assert (raised.raised, raised.spent.usd) == ({"tokens": 100.0}, 1.5)
    assert (await anyio.to_thread.run_sync(a.raise_limit, "tokens", 1.0)).raised == {"tokens": 101.0}
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(add, a, 1)
    assert await add(b, 0) == 36
    tomorrow = PostgresDaySpending(stores[0], lambda: "2999-01-03")
    assert await add(tomorrow, 7) == 7
    for one in stores:
        await one.close()
    assert await add(a, 1) == 37, "a store that is gone: counted here, with what is known of others"


@pytest.mark.slow
async def test_the_metrics_of_a_server_and_the_list_of_nodes_tell_about_every_node(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with (
        gateway(database, tmp_path, "gate") as gate,
        node(database, ScriptedModel([say("done")]), name="w1", lease_s=LEASE_SECONDS, labels=("gpu",)) as worker,
    ):
        engine = gate.service.engine
        thread = await created(engine)
        watcher = await engine.watch(thread.id)
        await started(engine, thread.id)
        await turn_end(watcher)
        for one in (worker, engine):
            assert one.node is not None
            await one.node.nodes.renew(lag_ms=7)
        async with http(gate, **bearer(OWNER)) as client:
            text = (await client.get("/metrics")).text
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

        def value(name: str, of: str) -> float:
            [found] = [float(v) for key, v in values.items() if key.startswith(name + "{") and f'node="{of}"' in key]
            return found

        assert values["hames_store_up"] == "1"
        assert (value("hames_node_claimed_total", "w1"), value("hames_node_claimed_total", "gate")) == (1, 0)
        assert (value("hames_node_followers", "w1"), value("hames_node_followers", "gate")) == (0, 1)
        assert value("hames_node_facts_total", "w1") > 3
        assert value("hames_node_slots", "w1") == 20
        assert 0 < value("hames_node_lease_seconds", "w1") <= LEASE_SECONDS
        assert value("hames_node_renewal_seconds", "w1") == 0.007
        assert value("hames_node_inbox", "w1") == value("hames_node_fenced_total", "w1") == 0
        slow = [float(v) for key, v in values.items() if "append_seconds" in key and '"w1"' in key and '"0.99"' in key]
        assert slow[0] > 0
        assert await anyio.to_thread.run_sync(main, ["nodes", "--store", database]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [one.split()[:3] for one in lines[1:]] == [["gate", "gateway", "-"], ["w1", "works", "0/20"]]
        assert "gpu" in lines[2]
        assert await anyio.to_thread.run_sync(main, ["nodes", "--store", database, "--json"]) == 0
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(one["name"], one["claimed"], one["fenced"]) for one in told] == [("gate", 0, 0), ("w1", 1, 0)]


@pytest.fixture
def roles(database: str, postgres: Cluster) -> Iterator[tuple[str, str]]:
    """The addresses of a gateway and of a worker, each with a database role of its own."""
    postgres.psql("create role gate login", "create role work login")
    anyio.run(partial(migrate_database, database, gateways=["gate"], workers=["work"]))
    gate, work = (database.replace("//hames@", f"//{role}@") for role in ("gate", "work"))
    yield gate, work
    name = database.split("@/")[1].split("?", maxsplit=1)[0]
    postgres.psql("drop owned by gate", "drop owned by work", database=name)
    postgres.psql("drop role gate", "drop role work")


async def test_a_gateway_with_a_role_of_its_own_serves_and_cannot_append(
    roles: tuple[str, str], tmp_path: Path
) -> None:
    gate_address, work_address = roles
    async with (
        gateway(gate_address, tmp_path, "gate") as gate,
        node(work_address, ScriptedModel([say("done")], [say("again")]), name="w1"),
    ):
        engine = gate.service.engine
        thread = await created(engine)
        watcher = await engine.watch(thread.id)
        await started(engine, thread.id)
        await turn_end(watcher)
        async with http(gate, **bearer(OWNER)) as client:
            assert (await client.post("/links", json={})).status_code == 201
            put = await client.post("/uploads", content=PNG, headers={"content-type": "image/png"})
            assert put.status_code == 201
        [store] = [one.node.nodes._store for one in (engine,) if one.node is not None]  # type: ignore[attr-defined]
        before = await store.read(thread.id)
        denied = "permission denied|row-level security"
        for statement in (
            f"insert into hames.ev values ('{thread.id}', 99, 'x')",
            f"insert into hames.live values ('{thread.id}', 99, 1, 'x')",
            f"insert into hames.words values ('{thread.id}', 99, 'x', '')",
            f"insert into hames.blob (id, thread, kind, body) values ('{thread.id}.log', '{thread.id}', 'log', '')",
            "update hames.ev set body = ''",
            "insert into hames.token values ('me', 'approver', 'x', 0, 0)",
            "insert into hames.spending values (current_date, 'me', -9, 0, 0, 0)",
            "insert into hames.migration values (99)",
            "alter table hames.ev disable row level security",
        ):
            with pytest.raises(StorageFailed, match=f"{denied}|must be owner"):
                await store.connections.execute(statement)
        for statement in (  # these change no row that is not theirs
            "update hames.thread set epoch = 1, owner = null",
            "update hames.thread set head = 0",
            "update hames.listed set title = 'x'",
            "delete from hames.ev",
            "delete from hames.thread",
        ):
            await store.connections.execute(statement)
        assert await store.read(thread.id) == before
        row = await store.connections.fetch_row("select epoch, head from hames.thread")
        assert row[0] > 1 and row[1] == len(before)
        with pytest.raises(HarnessError):
            await store.open(thread.id)
        await started(engine, thread.id)
        await turn_end(watcher)
        watcher.close()
        await engine.execute(DeleteThread(thread_id=thread.id))
        with pytest.raises(ThreadNotFound):
            await engine.watch(thread.id)


@pytest.mark.slow
async def test_a_packed_thread_is_watched_through_a_gateway_and_goes_on(
    roles: tuple[str, str], database: str, tmp_path: Path
) -> None:
    gate_address, work_address = roles
    async with node(work_address, ScriptedModel([say("first")]), name="w1") as worker:
        thread = await created(worker)
        watcher = await worker.watch(thread.id)
        await started(worker, thread.id)
        await turn_end(watcher)
        watcher.close()
    store = PostgresStore(database)
    await store.connections.execute("update hames.listed set updated_at_ms = 0")
    assert await pack_old(store.connections, 1) == 1
    async with gateway(gate_address, tmp_path, "gate") as gate:
        engine = gate.service.engine
        watcher = await engine.watch(thread.id)
        assert len(watcher.state.turns) == 1
        rows = await store.connections.fetch_row("select count(*) from hames.ev")
        assert rows[0] == 0, "looking at it does not unpack it"
        async with node(work_address, ScriptedModel([say("second")]), name="w2"):
            await started(engine, thread.id)
            changes = await turn_end(watcher)
        assert len(changes[-1].after.turns) == 2
    await store.close()
