"""The key table that the terminal shares with the page: every row of it is pressed, and the names are the same."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from stagehand import Stage, staged

from hames.domain.approvals import CallMcp
from hames.domain.policy import ApprovalPolicy
from hames.testing.scripts import ScriptedModel, call, say, wait_for
from hames.tui.approval import KEYS as APPROVAL_KEYS
from hames.tui.approval import ApprovalPanel
from hames.tui.commands import KEYS
from hames.tui.modes import MODE_DETAILS, POLICIES, POLICY_DETAILS
from support import ECHO, PlainTool, echo

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


async def did_stop(stage: Stage, key: str) -> None:
    await stage.presses(key)
    await stage.shows("■ interrupted")


async def did_change_mode(stage: Stage, key: str) -> None:
    before = stage.app.talk.policy
    await stage.presses(key)
    await stage.until(lambda: stage.app.talk.policy != before, "another approval mode")


async def did_break_the_line(stage: Stage, key: str) -> None:
    await stage.presses("a", key, "b")
    assert stage.app.composer.text == "a\nb"


async def did_approve(stage: Stage, key: str) -> None:
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
    "stop": did_stop,
    "next-mode": did_change_mode,
    "newline": did_break_the_line,
    "approve-once": did_approve,
    "approve-always": did_approve,
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
    async with staged(scripts[row["when"]], SERVED, ECHO, size=(100, 40)) as stage:
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


def test_the_help_has_the_words_of_the_table() -> None:
    said = {name: words.casefold() for name, words in KEYS.items()}
    for row in TABLE["keys"]:
        if row["when"] == "approval":
            name = row["key"].lower()
            assert APPROVAL_KEYS[name] == row["words"].lower()
        elif row["words"]:
            name = next(name for name in said if NAMES[row["key"]].replace("escape", "esc") in name.split(", "))
            words = row["words"].casefold().replace("send to", "send it to")
            assert words in said[name], row


def test_the_modes_have_the_names_of_the_table() -> None:
    modes = {mode["set"].get("approvalPolicy"): mode for mode in TABLE["modes"]}
    plan = modes.pop(None)
    assert MODE_DETAILS["plan"] == plan["words"]
    policies: dict[ApprovalPolicy, Any] = dict(modes)
    assert {policy: mode["name"] for policy, mode in policies.items()} == POLICIES
    assert {policy: mode["words"] for policy, mode in policies.items()} == POLICY_DETAILS
