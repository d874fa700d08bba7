"""The scenario that every cell of the matrix passes, and the models it is played against."""

import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import anyio
import anyio.abc
import msgspec

from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import (
    Answer,
    Dialect,
    Hang,
    ProviderServer,
    SeenRequest,
    ServerReply,
    ServerTalk,
    Thoughts,
    Use,
    Words,
    talk,
)
from matrix_clients import CLIENTS, PATIENCE_SECONDS, Client, Place, Shown
from matrix_table import MODELS, PROTOCOLS

INTEGRATION = Path(__file__).parent / "integration"
MCP_SERVER = INTEGRATION / "mcp_server.py"
PLAYER = INTEGRATION / "codex" / "player.py"
RECORDINGS = INTEGRATION / "codex" / "matrix"

COMMAND = "echo made > made.txt && echo the output"
EARLIER = ("Say hello", "Hello there.", "made.txt", "the output", "notes.txt", "42", "Tell a story", "Go on")
"""What the model reads when the thread goes on."""
STORY = "Once upon a time there was a harness."


class Side(NamedTuple):
    """The model's side of a cell. `last_request` is all that the model was last sent, as text."""

    model: str
    place: Place
    acts: bool
    """What is approved really happens, and a model is really asked. A recording only says so."""
    last_request: Callable[[], str]
    story: "Story"


class Story:
    """The reply that is interrupted: its beginning, and silence. `begun` is set when somebody has asked for it."""

    def __init__(self, dialect: Dialect) -> None:
        self.begun = anyio.Event()
        self._reply = ServerReply(parts=(*dialect.events(talk(STORY))[: dialect.opening + 2], Hang()))

    def __call__(self, request: SeenRequest) -> ServerReply:
        self.begun.set()
        return self._reply


def home(folder: Path, **environment: str) -> dict[str, str]:
    """The environment of a user who has nothing but what is named."""
    (folder / "work").mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "HAMES_STATE": str(folder / "state"),
        "HAMES_CONFIG": str(folder / "config.toml"),
        **environment,
    }


def mcp_servers() -> str:
    """A real MCP server over stdio, as a table of a configuration: ours and Codex's have the same form."""
    return f'[mcp_servers.test]\ncommand = "{sys.executable}"\nargs = ["{MCP_SERVER}"]\n'


def script(story: Story) -> list[Answer]:
    """What the model says, request by request."""
    return [
        ServerTalk(parts=(Thoughts(text="A greeting is in order."), Words(text="Hello there."))),
        _use("shell", "call_1", command=COMMAND),
        talk("The command has run."),
        _use("write", "call_2", path="notes.txt", content="a note\n"),
        talk("The note is written."),
        _use("mcp__test__add", "call_3", a=40, b=2),
        talk("It is forty-two."),
        story,
        talk("We go on."),
    ]


def _use(name: str, call_id: str, /, **arguments: str | int) -> ServerTalk:
    return ServerTalk(
        parts=(Use(name=name, arguments=msgspec.json.encode(arguments).decode(), id=call_id),), stop="tools"
    )


@asynccontextmanager
async def _service(dialect: Dialect, folder: Path, model: str, base: str) -> AsyncGenerator[Side]:
    story = Story(dialect)
    async with ProviderServer(dialect, *script(story)) as server:
        name = model.partition("/")[0].upper()
        environment = home(folder, **{f"{name}_BASE_URL": server.url + base, f"{name}_API_KEY": "test"})
        (folder / "config.toml").write_text(mcp_servers())
        place = Place(folder / "work", environment, ["--model", model])
        yield Side(model.partition("/")[0], place, True, lambda: last_request(server), story)


def last_request(server: ProviderServer) -> str:
    return [seen.raw for seen in server.seen if seen.method == "POST"][-1].decode()


@asynccontextmanager
async def _recorded_codex(folder: Path) -> AsyncGenerator[Side]:
    story = Story(OPENAI)

    async def heard(line: anyio.abc.SocketStream) -> None:
        async with line:
            if "interrupt" in (await line.receive()).decode():
                story.begun.set()

    with TemporaryDirectory() as short:  # the path of a socket may not be long
        environment = home(
            folder,
            HAMES_CODEX=str(PLAYER),
            CODEX_PLAYER=str(folder / "played"),
            CODEX_RECORDINGS=str(RECORDINGS),
            CODEX_LISTENER=f"{short}/listener",
        )
        async with (
            await anyio.create_unix_listener(f"{short}/listener") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, heard)
            yield Side("codex", Place(folder / "work", environment, ["--agent", "codex"]), False, str, story)
            tasks.cancel_scope.cancel()


SIDES: dict[str, Callable[[Path], AbstractAsyncContextManager[Side]]] = {
    "anthropic": lambda folder: _service(ANTHROPIC, folder, "anthropic/claude-opus-5", ""),
    "openai": lambda folder: _service(OPENAI, folder, "openai/gpt-5.5", "/v1"),
    "compatible": lambda folder: _service(CHAT, folder, "compatible/test", "/v1"),
    "codex": _recorded_codex,
}


async def play(protocol: str, side: Side) -> None:
    """The whole scenario. It raises `AssertionError` where a cell does not hold."""
    work = side.place.work
    async with CLIENTS[protocol](side.place) as client:
        await client.start()
        greeting = await turn(client, "Say hello")
        assert kinds(greeting) == ["user", "reasoning", "text"]
        assert [one.text for one in greeting] == ["Say hello", "A greeting is in order.", "Hello there."]

        ran = await turn(client, "Run a command", asked=COMMAND)
        assert kinds(ran) == ["user", "command", "text"]
        assert ran[1].outcome == "completed", ran[1].text
        assert "the output" in ran[1].text
        assert ran[2].text == "The command has run."

        changed = await turn(client, "Write a note", asked="notes.txt")
        assert kinds(changed) == ["user", "file", "text"]
        assert changed[1].outcome == "completed", changed[1]
        assert "notes.txt" in changed[1].text

        called = await turn(client, "Add two numbers", asked="add")
        assert kinds(called) == ["user", "mcp", "text"]
        assert called[1].outcome == "completed", called[1]
        assert "42" in called[1].text
        if side.acts:
            assert (work / "made.txt").read_text() == "made\n"
            assert (work / "notes.txt").read_text() == "a note\n"

        stopped = await interrupted(client, "Tell a story", side.story)
        half = "".join(one.text for one in stopped[1:])
        assert STORY.startswith(half)
        assert half or not PROTOCOLS[protocol].streams
        told, thread = client.shown(), client.thread

    # The MCP server is configured no more: what it was called for stays in the thread all the same.
    Path(side.place.environment["HAMES_CONFIG"]).write_text("")
    async with CLIENTS[protocol](side.place) as client:
        await client.resume(thread)
        assert client.shown() == told
        assert [one.text for one in await turn(client, "Go on")] == ["Go on", "We go on."]
        if side.acts:
            sent = side.last_request()
            assert [words for words in EARLIER if words not in sent] == []
            assert ("A greeting is in order." in sent) == MODELS[side.model].rereads


async def turn(client: Client, prompt: str, *, asked: str = "", decision: str = "once") -> list[Shown]:
    """What a whole turn showed. `asked`: words of the question that is answered in it."""
    before = len(client.shown())
    await client.prompt(prompt)
    if asked:
        question = await client.question()
        assert asked in question.about
        await client.answer(question, "once" if decision == "once" else "reject")
    assert (await client.ended(), client.failure) == ("completed", "")
    return client.shown()[before:]


async def interrupted(client: Client, prompt: str, story: Story) -> list[Shown]:
    before = len(client.shown())
    await client.prompt(prompt)
    await client.begun()
    with anyio.fail_after(PATIENCE_SECONDS):
        await story.begun.wait()
    await client.interrupt()
    assert await client.ended() == "interrupted"
    return client.shown()[before:]


def kinds(shown: list[Shown]) -> list[str]:
    return [one.kind for one in shown]
