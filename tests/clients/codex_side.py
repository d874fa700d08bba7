"""The real Codex as the model's side of a cell: its own binary, its own tools, a model on the loopback interface."""

import shlex
import shutil
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec

from hames.domain.json import Json
from hames.testing.services.openai import OPENAI, ResponseEvents
from hames.testing.services.server import Answer, ProviderServer, ServerReply, ServerTalk, Thoughts, Words, talk
from matrix_clients import Place
from matrix_support import COMMAND, Side, Story, home, last_request, mcp_servers

HOMES = Path(__file__).resolve().parents[2] / ".tools" / "clients"
MODEL = "gpt-5.5"
PATCH = "*** Begin Patch\n*** Add File: notes.txt\n+a note\n*** End Patch\n"
CONFIG = """\
model = "{model}"
model_provider = "loopback"
check_for_update_on_startup = false

[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false

[feedback]
enabled = false

"""
WAITED_FOR = "required = true\nstartup_timeout_sec = 60\n"
"""Codex goes on without a server that takes long to start, unless it is told to wait."""


def called(call_id: str, name: str, *, namespace: str = "", **arguments: Json) -> ServerReply:
    """A function call as Codex's models make it: tools of MCP servers have a namespace of their own."""
    given = msgspec.json.encode(arguments).decode()
    item = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id, "name": name, "arguments": given}
    return _one({**item, **({"namespace": namespace} if namespace else {})})


def searched(call_id: str, query: str) -> ServerReply:
    """The model looks for tools that Codex has not told it."""
    item = {"id": f"tsc_{call_id}", "type": "tool_search_call", "call_id": call_id, "execution": "client"}
    return _one({**item, "arguments": {"query": query, "limit": 8}})


def patched(call_id: str, patch: str) -> ServerReply:
    """`apply_patch` takes its text as it is, not as JSON."""
    item = {"id": f"ctc_{call_id}", "type": "custom_tool_call", "call_id": call_id, "name": "apply_patch"}
    return _one({**item, "input": patch})


def ran(call_id: str, command: str) -> ServerReply:
    return called(call_id, "exec_command", cmd=command)


def _one(item: dict[str, Json]) -> ServerReply:
    told = ResponseEvents()
    told.begin()
    told.added({**item, "status": "in_progress"})
    told.done({**item, "status": "completed"})
    told.end()
    return ServerReply(parts=tuple(told.events))


def script(story: Story) -> list[Answer]:
    """The matrix's scenario in the words of Codex's own tools."""
    return [
        ServerTalk(parts=(Thoughts(text="A greeting is in order."), Words(text="Hello there."))),
        ran("call_1", COMMAND),
        talk("The command has run."),
        patched("call_2", PATCH),
        talk("The note is written."),
        called("call_3", "add", namespace="mcp__test", a=40, b=2),
        talk("It is forty-two."),
        story,
        talk("We go on."),
    ]


class Live(NamedTuple):
    """A real Codex, and the model it asks."""

    side: Side
    model: ProviderServer
    home: Path


@contextmanager
def _home() -> Generator[Path]:
    """Codex makes no helper programs in a temporary directory, and runs no command without them."""
    folder = HOMES / f"home-{uuid4().hex}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def codex(
    folder: Path,
    *binary: str,
    answers: Sequence[Answer] | None = None,
    then: Answer | None = None,
    mcp: str = "",
) -> AsyncGenerator[Live]:
    """`binary` is Codex, and what stands before it. Without `answers` the model plays the matrix's scenario.

    `mcp` is the table of an MCP server; the scenario has its own.
    """
    story = Story(OPENAI)
    said = script(story) if answers is None else answers
    with _home() as theirs:
        async with ProviderServer(OPENAI, *said, then=then, strict=False) as model:
            tools = mcp or (mcp_servers() if answers is None else "")
            tools += WAITED_FOR if tools else ""
            (theirs / "config.toml").write_text(CONFIG.format(model=MODEL, url=model.url) + tools)
            program = folder / "codex"
            program.write_text(f'#!/bin/sh\nexec {shlex.join(binary)} "$@"\n')
            program.chmod(0o755)
            environment = home(folder, HAMES_CODEX=str(program), CODEX_HOME=str(theirs))
            place = Place(folder / "work", environment, ["--agent", "codex"])
            yield Live(Side("codex", place, True, lambda: last_request(model), story), model, theirs)
