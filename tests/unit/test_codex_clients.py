"""Clients that were written for Codex's app server: under any name, with the values of either dialect."""

from typing import Any

import pytest

from flint_support import talking
from hames.domain.state import ThreadState
from hames.testing.fakes.model import ScriptedModel, say
from support import engine

TEXT = [{"type": "text", "text": "go"}]
NAMES = ["t3code_desktop", "imzen", "JetBrains.IntelliJ IDEA", "flint-tui", "codex-tui"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("params", "policy", "sandbox"),
    [
        ({"approvalPolicy": "on-request"}, "onRequest", "WorkspaceWrite"),
        ({"approvalPolicy": "untrusted"}, "unlessTrusted", "WorkspaceWrite"),
        ({"approvalPolicy": {"granular": {"mcp_elicitations": True}}}, "onRequest", "WorkspaceWrite"),
        ({"approvalPolicy": "unlessTrusted"}, "unlessTrusted", "WorkspaceWrite"),
        ({"approvalPolicy": "onRequest"}, "onRequest", "WorkspaceWrite"),
        ({"approvalPolicy": "always"}, "always", "WorkspaceWrite"),
        ({"approvalPolicy": "never"}, "never", "WorkspaceWrite"),
        ({"sandbox": "read-only"}, "unlessTrusted", "ReadOnly"),
        ({"sandbox": "workspace-write"}, "unlessTrusted", "WorkspaceWrite"),
        ({"sandbox": "danger-full-access"}, "unlessTrusted", "DangerFullAccess"),
        ({"permissions": ":read-only"}, "unlessTrusted", "ReadOnly"),
        ({"sandbox": {"type": "readOnly"}}, "unlessTrusted", "ReadOnly"),
        ({"sandbox": {"type": "externalSandbox"}}, "unlessTrusted", "ExternalSandbox"),
        ({"approvalPolicy": "on-request", "sandbox": {"type": "readOnly"}}, "onRequest", "ReadOnly"),
        ({"approvalPolicy": "always", "sandbox": "read-only"}, "always", "ReadOnly"),
    ],
)
async def test_any_client_may_use_the_policy_words_of_either_dialect(
    name: str, params: dict[str, Any], policy: str, sandbox: str
) -> None:
    async with engine(ScriptedModel()) as the_engine, talking(the_engine, name, experimentalApi=True) as talk:
        await talk.start(**params)
        (state,) = _states(the_engine)
        assert (state.settings.approval_policy, type(state.settings.sandbox).__name__) == (policy, sandbox)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("params", "policy", "sandbox", "options"),
    [
        ({"approvalPolicy": "on-request", "sandboxPolicy": {"type": "readOnly"}}, "onRequest", "ReadOnly", {}),
        ({"approvalPolicy": "untrusted", "sandboxPolicy": "read-only"}, "unlessTrusted", "ReadOnly", {}),
        ({"approvalPolicy": "always", "permissions": ":read-only"}, "always", "ReadOnly", {}),
        ({"sandboxPolicy": "danger-full-access"}, "unlessTrusted", "DangerFullAccess", {}),
    ],
)
async def test_a_turn_takes_the_policy_words_of_either_dialect(
    name: str, params: dict[str, Any], policy: str, sandbox: str, options: dict[str, str]
) -> None:
    model = ScriptedModel([say("Hello.")])
    async with engine(model) as the_engine, talking(the_engine, name) as talk:
        await talk.prompt(await talk.start(), **params)
        (state,) = _states(the_engine)
        settings = state.settings
        assert (settings.approval_policy, type(settings.sandbox).__name__) == (policy, sandbox)
        assert settings.options == options


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "params",
    [
        {"approvalPolicy": "sometimes"},
        {"approvalPolicy": 7},
        {"approvalPolicy": {"sandbox": True}},
        {"sandbox": "no-walls"},
        {"sandbox": {"type": "noWalls"}},
        {"sandbox": 3},
        {"permissions": ":everything"},
        {"permissions": ":workspace", "sandbox": "read-only"},
    ],
)
async def test_a_policy_that_no_dialect_has_is_refused_under_any_name(name: str, params: dict[str, Any]) -> None:
    async with engine(ScriptedModel()) as the_engine, talking(the_engine, name) as talk:
        answer = await talk.answer("thread/start", **params)
        assert any(member in answer["error"]["message"] for member in params)
        assert _states(the_engine) == []


@pytest.mark.parametrize(
    "params",
    [
        {"approvalPolicy": "on-request"},
        {"sandbox": "workspace-write"},
        {"ephemeral": None},
        {"modelProvider": None},
        {"serviceName": "t3code"},
    ],
)
async def test_who_uses_a_word_of_codexs_is_answered_in_codexs_format(params: dict[str, Any]) -> None:
    model = ScriptedModel([say("Hello.")])
    async with engine(model) as the_engine, talking(the_engine, "t3code_desktop", experimentalApi=True) as talk:
        opened = await talk.call("thread/start", **params)
        assert opened["thread"]["historyMode"] == "legacy"
        assert opened["approvalPolicy"] in ("on-request", "untrusted")
        await talk.prompt(opened["thread"]["id"])
        assert await talk.refused("thread/resume", threadId="nobody") == -32600


async def test_who_uses_no_word_of_codexs_is_answered_in_flints_format() -> None:
    async with engine(ScriptedModel()) as the_engine, talking(the_engine, "imzen", experimentalApi=True) as talk:
        opened = await talk.call("thread/start", approvalPolicy="onRequest", sandbox={"type": "readOnly"})
        assert "historyMode" not in opened["thread"]
        assert (opened["approvalPolicy"], opened["approvalMode"]) == ("unlessTrusted", "onRequest")
        assert await talk.refused("thread/resume", threadId="nobody") == -32001


@pytest.mark.parametrize("name", NAMES)
async def test_input_of_either_dialect_is_understood(name: str, tmp_path: Any) -> None:
    file = tmp_path / "a.txt"
    file.write_text("inside")
    parts = [
        {"type": "text", "text": "look", "text_elements": []},
        {"type": "mention", "name": "a.txt", "path": str(file)},
        {"type": "file", "path": str(file)},
    ]
    model = ScriptedModel([say("Seen.")])
    async with engine(model) as the_engine, talking(the_engine, name) as talk:
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=parts)
        await talk.until("turn/completed")
    assert str(model.requests[0].messages).count("inside") == 2


def _states(the_engine: Any) -> list[ThreadState]:
    return [loaded.thread.state for loaded in the_engine._threads.loaded.values()]
