"""The key table that the terminal shares with the page: every row of it is pressed, and the names are the same."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from stagehand import Stage, staged
from textual.events import Key

from flint_support import SELECTORS
from hames.domain.approvals import CallMcp
from hames.domain.rules import Rule
from hames.sandbox.trust.rules.book import FileRuleBook
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say, wait_for
from hames.tui.approval import KEYS as APPROVAL_KEYS
from hames.tui.approval import ApprovalPanel
from hames.tui.help import KEYS
from hames.tui.modes import APPROVAL_MODES
from support import ECHO, PlainTool, echo, engine

TABLE = json.loads((Path(__file__).parents[2] / "specs" / "keys.json").read_text())
SERVED = PlainTool("served", echo, intent=CallMcp(server="s", tool="t", arguments={}))
"""Can be allowed for good."""

NAMES = {"Enter": "enter", "Tab": "tab", "Esc": "escape", "Shift+Tab": "shift+tab", "Shift+Enter": "shift+enter"}


def key_id(row: dict[str, Any]) -> str:
    return "-".join([row["key"], row["when"], row.get("if", ""), row["meaning"]])


async def did_send(stage: Stage, key: str) -> None:
    await stage.presses(*"words", key)
    await stage.shows("› words", "Answered.")


async def did_steer(stage: Stage, key: str) -> None:
    await stage.presses(*"words", key)
    await stage.shows("› words")
    assert stage.app.talk.running
    assert not stage.app.talk.waiting


async def did_queue(stage: Stage, key: str) -> None:
    await stage.presses(*"words", key)
    await stage.shows("1. queued: words")


async def did_nothing(stage: Stage, key: str) -> None:
    before = stage.app.composer.text, stage.app.talk.running
    await stage.presses(key)
    assert (stage.app.composer.text, stage.app.talk.running) == before
    await stage.presses("x")
    assert stage.app.composer.text == f"{before[0]}x", "the message box still has the keyboard"


async def did_keep_asking(stage: Stage, key: str) -> None:
    """It answers nothing, and the keys of the question still count."""
    mode = mode_of(stage)
    await stage.presses(key)
    assert stage.app.query_one(ApprovalPanel).asked is not None
    if key == "shift+tab":
        await stage.until(lambda: mode_of(stage) == CYCLE[(CYCLE.index(mode) + 1) % len(CYCLE)], "the next mode")
    await stage.presses("y")
    await stage.shows("Answered.", "x=1 ✓")


async def did_stop(stage: Stage, key: str) -> None:
    await stage.presses(key)
    await stage.shows("■ interrupted")


CYCLE = [mode["id"] for mode in TABLE["modes"] if mode["shiftTab"]]


def mode_of(stage: Stage) -> str:
    """The id that the table has for what is set."""
    now = {"agent": stage.app.talk.config.get("agent", "code"), "approvalPolicy": stage.app.talk.policy}
    return next(mode["id"] for mode in TABLE["modes"] if mode["set"].items() <= now.items())


async def did_change_mode(stage: Stage, key: str) -> None:
    """All the way round, in the order of the table, and one step more."""
    first = CYCLE.index(mode_of(stage))
    for number in range(first + 1, first + len(CYCLE) + 2):
        following = CYCLE[number % len(CYCLE)]
        await stage.presses(key)
        await stage.until(lambda: mode_of(stage) == following, f"the mode {following!r}")  # noqa: B023
    now = CYCLE.index(mode_of(stage))
    for _ in range(2):  # two quick presses are two steps
        stage.app.post_message(Key(key, None))
    await stage.until(lambda: mode_of(stage) == CYCLE[(now + 2) % len(CYCLE)], "two steps")
    for name in ("never", "always", "plan"):
        await stage.says(f"/approvals {name}")
        await stage.until(lambda: name in (stage.app.talk.policy, stage.app.talk.config.get("agent")))  # noqa: B023
        await stage.presses(key)
        await stage.until(lambda: mode_of(stage) == "ask", f"the mode after {name!r}")  # and none that asks less


async def did_break_the_line(stage: Stage, key: str) -> None:
    await stage.presses("a", key, "b")
    assert stage.app.composer.text == "a\nb"


async def did_approve(stage: Stage, key: str) -> None:
    await stage.presses(key)
    await stage.shows("Answered.", "x=1 ✓")


async def did_approve_in_project(stage: Stage, key: str) -> None:
    await stage.shows("p keeps this rule: allow calls of `s/t` in this project")
    await stage.presses(key)
    await stage.shows("Answered.", "x=1 ✓")


async def did_reject(stage: Stage, key: str) -> None:
    await stage.presses(key)
    await stage.shows("Answered.", "x=1 ⊘")


async def did_reject_with_message(stage: Stage, key: str) -> None:
    await stage.presses(key)
    await stage.until(lambda: stage.app.query_one("#word").has_focus, "a line to type in")
    await stage.presses(*"not so", "enter")
    await stage.shows("Answered.", "› not so", "x=1 ⊘")


MEANINGS: dict[str, Callable[[Stage, str], Awaitable[None]]] = {
    "send": did_send,
    "steer": did_steer,
    "queue": did_queue,
    "none": did_nothing,
    "keep-asking": did_keep_asking,
    "stop": did_stop,
    "next-mode": did_change_mode,
    "newline": did_break_the_line,
    "approve-once": did_approve,
    "approve-always": did_approve,
    "approve-project": did_approve_in_project,
    "reject": did_reject,
    "reject-with-message": did_reject_with_message,
}


@pytest.mark.parametrize("row", TABLE["keys"], ids=key_id)
async def test_a_key_means_what_the_table_says(row: dict[str, Any]) -> None:
    key, gate = NAMES.get(row["key"], row["key"]), anyio.Event()
    scripts = {
        "idle": ScriptedModel([say("Answered.")]),
        "running": ScriptedModel([call("echo", x=1), wait_for(gate)], [say("Answered.")], [say("Answered.")]),
        "approval": ScriptedModel([call("served", x=1)], [say("Answered.")]),
    }
    kept: list[Rule] = []
    book = FileRuleBook(lambda _: (), lambda rule: kept.append(rule) or rule) if row.get("if") == "offer" else None
    models = OneModel(scripts[row["when"]], selectors=SELECTORS)
    async with (
        engine(models, SERVED, ECHO, rulebook=book) as the_engine,
        staged(the_engine, size=(100, 40)) as stage,
    ):
        if row["when"] == "running":
            await stage.says("go")
            await stage.until(lambda: stage.app.talk.running, "a turn")
        elif row["when"] == "approval":
            await stage.says("go")
            await stage.asked()
            words = stage.app.query_one(ApprovalPanel)._keys().plain
            assert row["words"].lower() in words
        await MEANINGS[row["meaning"]](stage, key)
        gate.set()
    assert len(kept) == (row["meaning"] == "approve-project")


def test_the_help_has_the_words_of_the_table() -> None:
    said = {name: words.casefold() for name, words in KEYS.items()}
    for row in TABLE["keys"]:
        if row["when"] == "approval" and row["words"]:
            name = row["key"].lower()
            assert APPROVAL_KEYS[name] == row["words"].lower()
        elif row["words"]:
            name = next(name for name in said if NAMES[row["key"]].replace("escape", "esc") in name.split(", "))
            words = row["words"].casefold().replace("send to", "send it to")
            assert words in said[name], row


async def test_the_modes_have_the_names_of_the_table_in_its_order() -> None:
    named = [mode["id"] for mode in TABLE["modes"]]
    assert list(APPROVAL_MODES) == named
    assert list(APPROVAL_MODES.values()) == [(mode["name"], mode["words"]) for mode in TABLE["modes"]]
    async with staged(ScriptedModel([say("x")]), size=(120, 30)) as stage:
        await stage.says("/approvals")
        await stage.shows(*(mode["name"] for mode in TABLE["modes"]))
        await stage.presses(*["up"] * (named.index("ask") - named.index("plan")), "enter")
        await stage.until(lambda: mode_of(stage) == "plan", "plan mode")
        await stage.shows("Mode: plan (changes nothing)")
