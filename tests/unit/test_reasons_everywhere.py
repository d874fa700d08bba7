"""Why something did not happen reaches every face: each reason in a row, each protocol and command line in a column."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from acp_support import Desk
from flint_support import wired
from hames.cli.output.json_lines import JsonLinesView
from hames.cli.output.terminal import Ending, TerminalView
from hames.cli.paint import Paint
from hames.client.appserver import events as agent_events
from hames.client.appserver.client import AppServerClient
from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.state import Change
from hames.protocols.bootstrap import outbound as bootstrap
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.dialect import About, FlintDialect
from hames.protocols.flint.items import TextInput
from hames.protocols.flint.outbound import project as flint
from hames.protocols.runner import outbound as runner
from hames.protocols.sse import outbound as sse
from hames.protocols.sync.view import Offer, view
from hames.testing.fakes.model import OneModel, ScriptedModel
from reason_rows import ROWS
from support import turn_end

ABOUT = About(version="1", provider="p", home="/h")
SEED, CODEX = FlintDialect(ABOUT, lambda _: None), CodexDialect(ABOUT, lambda _: None)
SHORT = {("codex", "skipped call"): "not executed: an earlier call of the same reply failed"}
"""Where a protocol says it in other words."""
SILENT = {
    ("runner", "dead MCP server"),
    ("runner", "slow MCP server"),
    ("runner", "ignored configuration"),  # a runner has no servers and no project of its own
    ("codex", "slow MCP server"),  # Codex tells it as a status, and has no words for it
}


def encoded(told: object) -> str:
    return msgspec.json.encode(told).decode().replace('\\"', '"')


PROTOCOLS: dict[str, Callable[[Change], object]] = {
    "flint": lambda change: flint(change, SEED),
    "codex": lambda change: flint(change, CODEX),
    "bootstrap": bootstrap.project,
    "sse": sse.project,
    "runner": runner.project,
    "sync": lambda change: view(change.after, Offer(OneModel(ScriptedModel()))),
}


async def lived(the_engine: Engine) -> tuple[list[Change], str, str]:
    """One turn through a client: its changes, what `run` prints, and what `run --json` prints."""
    aside, lines = io.StringIO(), io.StringIO()
    views: list[Any] = [TerminalView(aside, aside, paint=Paint(colour=False), asks=False), JsonLinesView(lines)]
    with anyio.fail_after(60):
        async with the_engine, wired(the_engine) as wire, AppServerClient.connect(wire) as client:
            opened = await client.start_thread()
            watcher: Watcher = await the_engine.watch(opened.thread.id)  # type: ignore[arg-type]
            for shown in views:
                shown.opened(opened)
            with client.events(opened.thread.id) as events:
                await client.start_turn(opened.thread.id, [TextInput(text="go")])
                async for event in events:
                    for shown in views:
                        shown.handle_event(event)
                    if isinstance(event, agent_events.TurnCompleted):
                        why = event.turn.error.message if event.turn.error else ""
                        for shown in views:
                            shown.ended(Ending(code=1 if why else 0, why=why, said=""))
                        break
            changes = await turn_end(watcher)
    return changes, aside.getvalue(), lines.getvalue()


@pytest.mark.parametrize("row", ROWS)
async def test_a_reason_reaches_every_face(row: str, capfd: pytest.CaptureFixture[str]) -> None:
    make, words = ROWS[row]
    changes, printed, lines = await lived(make())
    printed += "".join(capfd.readouterr())
    missing: list[str] = []
    for name, project in PROTOCOLS.items():
        said = "\n".join(encoded(project(change)) for change in changes)
        if (SHORT.get((name, row)) or words) not in said and (name, row) not in SILENT:
            missing.append(name)
    if words not in " ".join(printed.split()):
        missing.append("run")
    if words not in lines.replace('\\"', '"'):
        missing.append("run --json")
    assert missing == []


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("row", ROWS)
async def test_a_reason_reaches_editors(row: str, version: int, tmp_path: Path) -> None:
    """ACP, in both versions: the updates of the session, or the error that the prompt is answered with."""
    (make, words), told = ROWS[row], ""
    with anyio.fail_after(60):
        async with make() as made, anyio.create_task_group() as tasks:
            client = await Desk(made, tasks, tmp_path, version).client()
            session = await client.new(tmp_path)
            number = await client.prompt(session, "go")
            if version == 1:
                await client.reply(number)
            else:
                await client.ended(session, number)
            told = "\n".join(map(encoded, client.messages))
            tasks.cancel_scope.cancel()
    assert words in told
