"""What an MCP server asks, on the screen: shown whole, accepted, filled in field by field, or put aside."""

import json
from typing import Any

import pytest
from msgspec.structs import replace
from stagehand import staged

from hames.domain.approvals import CallMcp, Elicit
from hames.domain.items import McpToolCall, ToolResult
from hames.domain.json import Json
from hames.domain.policy import SandboxPolicy
from hames.domain.request import ResultBlock
from hames.ports import Job, Tell, ToolSpec
from hames.testing.fakes.model import ScriptedModel, call, say

FORM = {
    "properties": {
        "name": {"type": "string"},
        "size": {"enum": ["s", "m"], "default": "m"},
        "count": {"type": "integer", "minimum": 1},
    },
    "required": ["name"],
}


class AskingServer:
    """A tool that asks and answers with what it heard."""

    def __init__(self, **question: Any) -> None:
        self.question = Elicit(server="shop", **question)
        self.spec = ToolSpec(name="order", description="Orders.", schema={"type": "object"})

    async def prepare(self, job: Job) -> "AskingCall":
        return AskingCall(self, job)


class AskingCall:
    def __init__(self, server: AskingServer, job: Job) -> None:
        self.intent = CallMcp(server="shop", tool="order")
        self.item = McpToolCall(id=job.item_id, step=job.step, call_id=job.call.id, server="shop", tool="order")
        self._question = server.question
        self._ask = job.ask

    async def run(self, tell: Tell, policy: SandboxPolicy) -> McpToolCall:
        assert self._ask is not None
        answer = await self._ask(self._question)
        text = f"{answer.decision} {json.dumps(answer.content)}"
        await tell(text)
        return replace(self.item, status="completed", result=ToolResult(text=text))


async def answered(question: dict[str, Json], shown: list[str], *keys: str) -> str:
    """What the tool heard after these keys."""
    model = ScriptedModel([call("order")], [say("Done.")])
    async with staged(model, AskingServer(**question), size=(100, 30)) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses("y")
        await stage.shows("The MCP server 'shop' asks")
        await stage.asked()
        await stage.shows(*shown)
        await stage.presses(*keys)
        await stage.shows("Done.")
    return heard_by(model)


def heard_by(model: ScriptedModel) -> str:
    blocks = [block for message in model.requests[-1].messages for block in message.blocks]
    (result,) = [block for block in blocks if isinstance(block, ResultBlock)]
    return result.text


@pytest.mark.parametrize(
    ("keys", "heard"),
    [
        (["f", *"Ada", "enter", *"s", "enter", *"2", "enter"], 'once {"size": "s", "name": "Ada", "count": 2}'),
        (["f", *"Ada", "enter", "enter", "enter"], 'once {"size": "m", "name": "Ada"}'),
        (["y", "n"], "reject null"),
        (["escape"], "void null"),
    ],
)
async def test_a_form_is_filled_in_field_by_field(keys: list[str], heard: str) -> None:
    shown = ["Who for?", "name: text, required", "size: one of s, m", "f fill in", "n decline", "esc cancel"]
    assert await answered({"message": "Who for?", "schema": FORM}, shown, *keys) == heard


@pytest.mark.parametrize(
    ("key", "words"), [("escape", "You left the question unanswered"), ("n", "You declined to answer")]
)
async def test_a_question_that_got_no_answer_says_what_happened(key: str, words: str) -> None:
    model = ScriptedModel([call("order")], [say("Done.")])
    async with staged(model, AskingServer(message="Who for?", schema=FORM), size=(100, 30)) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses("y")
        await stage.shows("The MCP server 'shop' asks")
        await stage.asked()
        await stage.presses(key)
        await stage.shows("Done.", words)
        assert "the user declined it" not in stage.screen()


async def test_a_form_that_does_not_fit_says_why_and_begins_again() -> None:
    model = ScriptedModel([call("order")], [say("Done.")])
    async with staged(model, AskingServer(message="Who for?", schema=FORM), size=(100, 30)) as stage:
        await stage.says("go")
        await stage.asked()
        await stage.presses("y")
        await stage.shows("asks")
        await stage.asked()
        await stage.presses("f")
        await stage.until(lambda: stage.app.query_one("#word").has_focus, "the first field")
        await stage.presses(*"Ada", "enter", "enter", *"0", "enter")
        await stage.shows("`count` must be at least 1, not 0", "name: text, required")
        await stage.presses(*"Bo", "enter", "enter", "enter")
        await stage.shows("Done.")
    assert heard_by(model) == 'once {"size": "m", "name": "Bo"}'


async def test_a_plain_confirmation_takes_one_key() -> None:
    assert await answered({"message": "Sure?", "schema": {"type": "object"}}, ["Sure?", "y accept"], "y") == "once {}"


async def test_an_address_is_shown_as_text() -> None:
    asked = {"message": "Sign in.", "url": "https://example.com/in"}
    assert await answered(asked, ["https://example.com/in", "y accept"], "y") == "once null"
