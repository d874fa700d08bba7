"""`hames serve --runner` and `hames runner` as two processes: whatever a client asks, nothing runs on the server."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import httpx2
import msgspec
import pytest
from websockets.asyncio.client import connect

from hames.domain.json import Json
from server_support import SyncFollower

SECONDS = 60
HERE, THERE = "server", "runner"
MAIN = "import sys; from hames.cli.main import main; sys.exit(main())"
SCRIPT = {
    "conversations": [
        {"when": "where", "replies": [[{"call": "shell", "with": {"command": "pwd > where.txt"}}], "Done."]},
        {"when": "hold", "replies": [[{"say": "Holding."}, {"hang": True}]]},
        {"when": "", "replies": ["Hello."]},
    ],
}
HTTP = {"content-type": "application/json"}

pytestmark = pytest.mark.needs("bwrap")


class Machine(NamedTuple):
    """One of the two sides: a home, a workspace and a model of its own."""

    folder: Path

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def model(self) -> str:
        return f"scripted/{self.folder / 'script.json'}"

    @property
    def ran(self) -> bool:
        return (self.work / "where.txt").exists()

    def environment(self, **more: str) -> dict[str, str]:
        folder = str(self.folder)
        named = {"HOME": folder, "HAMES_STATE": f"{folder}/state", "HAMES_CONFIG": f"{folder}/config.toml"}
        return {"PATH": os.environ["PATH"], **named, **more}

    @asynccontextmanager
    async def hames(self, *words: str, **environment: str) -> AsyncGenerator[str]:
        """The address that the program prints."""
        command = [sys.executable, "-c", MAIN, *words, "--port", "0", "--cwd", str(self.work)]
        async with await anyio.open_process(command, env=self.environment(**environment), stderr=None) as process:
            assert process.stdout is not None
            said = b""
            try:
                with anyio.fail_after(SECONDS):
                    while b"Ctrl+C" not in said:
                        said += await process.stdout.receive()
                (self.folder / "banner").write_bytes(said)
                yield said.split()[3].decode()
            finally:
                if process.returncode is None:
                    process.terminate()
                with anyio.move_on_after(15, shield=True):
                    await process.wait()
                if process.returncode is None:
                    process.kill()

    async def refused(self, *words: str, **environment: str) -> str:
        """What it says when it does not start."""
        command = [sys.executable, "-c", MAIN, *words, "--port", "0", "--cwd", str(self.work)]
        with anyio.fail_after(SECONDS):
            done = await anyio.run_process(command, env=self.environment(**environment), check=False)
        assert done.returncode == 2, done.stdout
        return done.stderr.decode()


def machine(folder: Path) -> Machine:
    made = Machine(folder)
    made.work.mkdir(parents=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return made


class Pair(NamedTuple):
    here: Machine
    there: Machine
    url: str

    def check(self) -> None:
        """The command ran, and not on the server."""
        assert self.there.ran
        assert not self.here.ran


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return machine(tmp_path / HERE)


@pytest.fixture
def there(tmp_path: Path) -> Machine:
    return machine(tmp_path / THERE)


@asynccontextmanager
async def pair(here: Machine, there: Machine, *flags: str, **environment: str) -> AsyncGenerator[Pair]:
    async with (
        there.hames("runner", "--model", there.model) as runner,
        here.hames("serve", "--runner", runner, "--approval-policy", "never", *flags, **environment) as url,
    ):
        yield Pair(here, there, url)


@asynccontextmanager
async def sync(url: str, thread: str = "") -> AsyncGenerator[SyncFollower]:
    address = url.replace("http", "ws", 1) + "/ws" + (f"?thread={thread}" if thread else "")
    async with connect(address, max_size=None, compression=None, proxy=None) as socket:
        client = SyncFollower(socket)
        await client.hear()
        yield client


def over(state: Json) -> bool:
    return state["status"] != "running" and bool(state["messages"])


async def submit(client: SyncFollower, prompt: str) -> Json:
    before = len(client.state["messages"])
    await client.send({"type": "submit", "prompt": prompt})
    with anyio.fail_after(SECONDS):
        while True:
            try:
                return await client.until(lambda state: over(state) and len(state["messages"]) > before)
            except TimeoutError:  # the machine is busy
                continue


class Rpc:
    """A JSON-RPC client over a WebSocket."""

    def __init__(self, socket: Json) -> None:
        self._socket = socket
        self._number = 0
        self.heard: list[Json] = []

    async def call(self, method: str, **params: Json) -> Json:
        """The whole answer: with `result` or `error`."""
        self._number += 1
        number = self._number
        await self._socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def until(self, wanted: Json) -> Json:
        for message in self.heard:
            if wanted(message):
                return message
        with anyio.fail_after(SECONDS):
            while True:
                message = msgspec.json.decode(await self._socket.recv())
                self.heard.append(message)
                if wanted(message):
                    return message


@asynccontextmanager
async def rpc(url: str, path: str, *, name: str = "test") -> AsyncGenerator[Rpc]:
    async with connect(url.replace("http", "ws", 1) + path, max_size=None, compression=None, proxy=None) as socket:
        client = Rpc(socket)
        info = {"name": name, "version": "1"}
        hello = {"clientInfo": info} if path == "/flint" else {"protocolVersion": "0.1.0", "clientInfo": info}
        answer = await client.call("initialize", **hello)
        assert "result" in answer, answer
        await socket.send(json.dumps({"jsonrpc": "2.0", "method": "initialized", "params": {}}))
        yield client


def text(words: str) -> list[Json]:
    return [{"type": "text", "text": words}]


async def old_thread(here: Machine) -> str:
    """A thread that was made before there was a runner: its model is one of the serving machine."""
    async with (
        here.hames("serve", "--model", here.model, "--approval-policy", "never") as url,
        httpx2.AsyncClient(base_url=url) as client,
    ):
        started = await client.post("/prompt", json={"content": "My number is 4711"})
        thread: str = started.json()["threadId"]
        async with sync(url, thread) as follower:
            await follower.until(over)
    return thread


@pytest.mark.parametrize("way", ["nothing", "environment", "config"])
async def test_a_runner_comes_before_a_configured_model(here: Machine, there: Machine, way: str) -> None:
    environment = {"HAMES_MODEL": here.model} if way == "environment" else {}
    if way == "config":
        (here.folder / "config.toml").write_text(f'model = "{here.model}"\n')
    async with pair(here, there, **environment) as both, sync(both.url) as client:
        state = await submit(client, "where")
        assert state["settings"]["model"] == "runner/default"
        both.check()
    if way != "nothing":
        assert "ignored" in (here.folder / "banner").read_text()


async def test_a_model_that_the_runner_does_not_have_cannot_be_the_servers_default(
    here: Machine, there: Machine
) -> None:
    async with there.hames("runner", "--model", there.model) as runner:
        said = await here.refused("serve", "--runner", runner, "--model", here.model)
        assert "runner" in said
        assert here.model in said
        said = await here.refused("serve", "--runner", runner, "--agent", "codex", HAMES_CODEX="/bin/true")
        assert "--agent" in said
        assert "--runner" in said


@pytest.mark.parametrize("address", ["", "host:4900", "ftp://host", "http://", "/tmp/socket", "http://host:port"])
async def test_an_address_that_is_none_does_not_mean_this_machine(here: Machine, address: str) -> None:
    assert "--runner" in await here.refused("serve", "--runner", address, "--model", here.model)


async def test_a_model_of_the_runner_can_be_the_servers_default(here: Machine, there: Machine) -> None:
    async with pair(here, there, "--model", "scripted/hello") as both, sync(both.url) as client:
        state = await submit(client, "hi")
        assert state["settings"]["model"] == "runner/scripted/hello"
        assert "I am a script" in str(state["messages"])


async def test_an_old_thread_goes_on_at_the_runner_with_its_history(here: Machine, there: Machine) -> None:
    thread = await old_thread(here)
    async with pair(here, there) as both, sync(both.url, thread) as client:
        state = await submit(client, "where")
        assert state["settings"]["model"] == "runner/default"
        assert any("runner" in notice["message"] for notice in state["notices"])
        both.check()
    logs = b"".join(path.read_bytes() for path in there.work.rglob("*.jsonl"))
    assert b"My number is 4711" in logs, "the runner was told what came before"


@pytest.mark.parametrize("way", ["sse", "queue", "flint", "fork", "bootstrap", "review", "compact"])
async def test_an_old_thread_never_runs_on_the_server(here: Machine, there: Machine, way: str) -> None:
    thread = await old_thread(here)
    async with pair(here, there) as both:
        match way:
            case "sse":
                async with httpx2.AsyncClient(base_url=both.url) as client, sync(both.url, thread) as follower:
                    answer = await client.post(f"/prompt?thread={thread}", json={"content": "where"})
                    assert answer.status_code == 200
                    with anyio.fail_after(SECONDS):
                        await follower.until(lambda state: over(state) and len(state["messages"]) > 2)
            case "queue":
                async with sync(both.url, thread) as follower:
                    await follower.send({"type": "submit", "prompt": "hi"}, {"type": "submit", "prompt": "where"})
                    await follower.until(lambda state: over(state) and len(state["messages"]) >= 6)
            case "flint":
                async with rpc(both.url, "/flint") as client:
                    assert "result" in await client.call("thread/resume", threadId=thread)
                    client.heard.clear()  # the history, with the ends of earlier turns
                    assert "result" in await client.call("turn/start", threadId=thread, input=text("where"))
                    await client.until(lambda message: message.get("method") == "turn/completed")
            case "fork":
                async with rpc(both.url, "/flint") as client:
                    fork = await client.call("thread/fork", threadId=thread)
                    forked = fork["result"]["thread"]["id"]
                    assert "result" in await client.call("turn/start", threadId=forked, input=text("where"))
                    await client.until(lambda message: message.get("method") == "turn/completed")
            case "bootstrap":
                async with rpc(both.url, "/bootstrap") as client:
                    started = await client.call("turn.start", threadId=thread, input=text("where"))
                    assert "result" in started, started
                    with anyio.fail_after(SECONDS):
                        while not there.ran:
                            await anyio.sleep(0.05)
            case "review":
                async with sync(both.url, thread) as follower:
                    target = {"kind": "custom", "text": "where"}
                    await follower.send({"type": "review", "target": target})
                    state = await follower.until(lambda state: over(state) and len(state["messages"]) > 2)
                    assert state["settings"]["model"] == "runner/default"
                    assert not here.ran
                    assert not there.ran, "a review writes nothing"
                return
            case _:
                async with sync(both.url, thread) as follower:
                    await follower.send({"type": "compact"})
                    state = await follower.until(lambda state: state["settings"]["model"] == "runner/default")
                    await follower.until(lambda state: state["status"] != "running")
                return
        both.check()


@pytest.mark.parametrize(
    "way", ["configure", "thread/start", "turn/start", "thread/resume", "thread/fork", "bootstrap"]
)
async def test_a_model_of_the_server_is_refused_in_words(here: Machine, there: Machine, way: str) -> None:
    async with pair(here, there) as both:
        if way == "configure":
            async with sync(both.url) as client:
                await client.send({"type": "configure", "model": here.model})
                while not client.errors:
                    await client.hear()
                said = client.errors[0]["message"]
                await submit(client, "where")
        elif way == "bootstrap":
            async with rpc(both.url, "/bootstrap") as client:
                made = await client.call("thread.create")
                thread = made["result"]["thread"]["threadId"]
                model = {"providerID": "scripted", "modelID": here.model.partition("/")[2]}
                answer = await client.call("turn.start", threadId=thread, input=text("where"), model=model)
                said = answer["error"]["message"]
        else:
            async with rpc(both.url, "/flint") as client:
                made = await client.call("thread/start")
                thread = made["result"]["thread"]["id"]
                params: dict[str, Json] = {"model": here.model}
                if way != "thread/start":
                    params["threadId"] = thread
                if way == "turn/start":
                    params["input"] = text("where")
                said = (await client.call(way, **params))["error"]["message"]
        assert "runner" in said
        assert here.model in said
        assert not here.ran


async def test_the_models_on_offer_are_the_runners(here: Machine, there: Machine) -> None:
    async with pair(here, there) as both:
        async with httpx2.AsyncClient(base_url=both.url) as client:
            status = (await client.get("/status")).json()
        assert {model["id"].partition("/")[0] for model in status["models"]} == {"runner"}
        assert "runner/scripted/hello" in {model["id"] for model in status["models"]}
        assert status["demoModel"] == ""
        async with rpc(both.url, "/flint") as client:
            listed = (await client.call("model/list"))["result"]["data"]
        assert {model["model"].partition("/")[0] for model in listed} == {"runner"}


async def test_a_program_of_a_client_does_not_run_on_the_server(here: Machine, there: Machine) -> None:
    made = here.work / "where.txt"
    async with pair(here, there) as both, rpc(both.url, "/flint", name="codex-test") as client:
        exec_ = await client.call("command/exec", command=["touch", str(made)], cwd=str(here.work))
        assert "error" in exec_
        write = await client.call("fs/writeFile", path=str(made), dataBase64="YQ==")
        assert "error" in write
    assert not here.ran


async def test_the_servers_own_mcp_servers_do_not_start(here: Machine, there: Machine) -> None:
    proof = here.folder / "started"
    (here.folder / "config.toml").write_text(
        f'[mcp_servers.local]\ncommand = "/bin/sh"\nargs = ["-c", "touch {proof}; sleep 1"]\n'
    )
    async with pair(here, there) as both, sync(both.url) as client:
        await submit(client, "where")
        async with httpx2.AsyncClient(base_url=both.url) as asking:
            await asking.get("/status")
        both.check()
    assert not proof.exists()


async def test_the_page_does_not_show_the_servers_own_changes_as_the_runners(here: Machine, there: Machine) -> None:
    async with pair(here, there) as both, sync(both.url) as client:
        await submit(client, "where")
        thread = client.state["thread"]["id"]
        async with httpx2.AsyncClient(base_url=both.url) as asking:
            answer = (await asking.get(f"/threads/{thread}/git-diff")).json()
        assert "runner" in json.dumps(answer)


async def flint_turn(client: Rpc, prompt: Sequence[Json], **settings: Json) -> Json:
    """The turn as it ended."""
    made = await client.call("thread/start", **settings)
    thread = made["result"]["thread"]["id"]
    await client.call("turn/start", threadId=thread, input=list(prompt))
    ended = await client.until(lambda message: message.get("method") == "turn/completed")
    return ended["params"]["turn"]


async def test_a_thread_that_may_only_read_writes_nothing_at_the_runner(here: Machine, there: Machine) -> None:
    async with pair(here, there) as both, rpc(both.url, "/flint") as client:
        await flint_turn(client, text("where"), sandbox={"type": "readOnly"})
    assert not there.ran
    assert not here.ran


async def test_a_runner_refuses_more_freedom_than_it_was_given(here: Machine, there: Machine) -> None:
    async with pair(here, there) as both, rpc(both.url, "/flint") as client:
        turn = await flint_turn(client, text("where"), sandbox={"type": "dangerFullAccess"})
    assert turn["status"] == "failed"
    assert "workspaceWrite" in turn["error"]["message"]
    assert not there.ran
    assert not here.ran


SEED_RUNNER = """
import http.server, json, sys

class Runner(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        print(json.dumps(body), file=open(sys.argv[1], "a"), flush=True)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for name, data in (("run.started", {}), ("assistant.delta", {"text": "Done there."}), ("run.completed", {})):
            self.wfile.write(f"event: {name}\\ndata: {json.dumps(data)}\\n\\n".encode())

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Runner)
print(server.server_port, flush=True)
server.serve_forever()
"""


@asynccontextmanager
async def seed_runner(there: Machine) -> AsyncGenerator[tuple[str, Path]]:
    """A runner that knows the specification and nothing else, and the file of the requests that it got."""
    asked = there.folder / "asked.jsonl"
    asked.touch()
    async with await anyio.open_process([sys.executable, "-c", SEED_RUNNER, str(asked)], stderr=None) as process:
        assert process.stdout is not None
        with anyio.fail_after(SECONDS):
            port = (await process.stdout.receive()).decode().strip()
        try:
            yield f"http://127.0.0.1:{port}", asked
        finally:
            process.kill()


async def test_a_runner_of_the_specification_runs_prompts_and_is_asked_nothing_else(
    here: Machine, there: Machine
) -> None:
    async with (
        seed_runner(there) as (runner, asked),
        here.hames("serve", "--runner", runner) as url,
        rpc(url, "/flint") as client,
    ):
        turn = await flint_turn(client, text("hello"))
        assert turn["status"] == "completed"
        [request] = [json.loads(line) for line in asked.read_text().splitlines()]
        assert request["prompt"] == "hello"
    async with (
        seed_runner(there) as (runner, asked),
        here.hames("serve", "--runner", runner) as url,
        rpc(url, "/flint") as client,
    ):
        turn = await flint_turn(client, text("hello"), sandbox={"type": "readOnly"})
        assert turn["status"] == "failed"
        assert "sandbox policy" in turn["error"]["message"]
        assert len(asked.read_text().splitlines()) == 1


async def test_a_server_whose_runner_is_not_there_says_so_and_runs_nothing(here: Machine) -> None:
    async with (
        here.hames("serve", "--runner", "http://127.0.0.1:9", HAMES_MODEL=here.model) as url,
        sync(url) as client,
    ):
        state = await submit(client, "where")
        assert "cannot be reached" in state["error"]
    assert not here.ran
