"""Clients that were written for Codex's app server: under any name, with the values of either dialect."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flint_support import Talk, real_engine, talking, wired
from hames.app import catalogue
from hames.config.load import load
from hames.domain.items import FileUpdate
from hames.domain.options import Settings
from hames.domain.state import ThreadState
from hames.protocols.flint import parts
from hames.protocols.flint.codex.diffs import codex_diff
from hames.protocols.flint.session import FlintSession
from hames.testing.fakes.model import ScriptedModel, call, hang, say, wait_for
from hames.tools import diffs
from support import ECHO, engine

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


# --- turns, diffs, steering, reviews ------------------------------------------


async def test_a_completed_turn_has_the_agents_words_alone_and_history_has_everything() -> None:
    model = ScriptedModel([say("Looking."), call("echo", x=1)], [say("Done.")])
    async with engine(model, ECHO) as the_engine, talking(the_engine, "codex") as talk:
        thread_id = await talk.start()
        begun = await talk.call("turn/start", threadId=thread_id, input=TEXT)
        assert (begun["turn"]["items"], begun["turn"]["itemsView"]) == ([], "notLoaded")
        ended = (await talk.until("turn/completed"))["params"]["turn"]
        assert [item["text"] for item in ended["items"]] == ["Looking.", "Done."]
        assert ended["itemsView"] == "summary"
        (started,) = talk.params("turn/started")
        assert (started["turn"]["items"], started["turn"]["itemsView"]) == ([], "notLoaded")
        read = await talk.call("thread/read", threadId=thread_id, includeTurns=True)
        (turn,) = read["thread"]["turns"]
        types = ["userMessage", "agentMessage", "dynamicToolCall", "agentMessage"]
        assert ([item["type"] for item in turn["items"]], turn["itemsView"]) == (types, "full")


async def test_a_turn_that_said_nothing_is_completed_without_items() -> None:
    async with engine(ScriptedModel([hang()])) as the_engine, talking(the_engine, "codex") as talk:
        thread_id = await talk.start()
        begun = await talk.call("turn/start", threadId=thread_id, input=TEXT)
        await talk.call("turn/interrupt", threadId=thread_id, turnId=begun["turn"]["id"])
        ended = (await talk.until("turn/completed"))["params"]["turn"]
        assert (ended["status"], ended["items"], ended["itemsView"]) == ("interrupted", [], "notLoaded")


async def test_flints_clients_still_get_every_item_of_a_completed_turn() -> None:
    model = ScriptedModel([call("echo", x=1)], [say("Done.")])
    async with engine(model, ECHO) as the_engine, talking(the_engine, "flint-tui") as talk:
        ended = await talk.prompt(await talk.start())
    assert [item["type"] for item in ended["turn"]["items"]] == ["userMessage", "toolCall", "agentMessage"]


UNIFIED = [
    ("add", "--- /dev/null\n+++ b/w.txt\n@@ -0,0 +1 @@\n+hello\n", "hello\n"),
    ("add", "--- /dev/null\n+++ b/w\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n", "a\nb"),
    ("add", "new file mode 100755\n--- /dev/null\n+++ b/w\n@@ -0,0 +1 @@\n+#!/bin/sh\n", "#!/bin/sh\n"),
    ("add", "new file mode 100755\n", ""),
    ("add", "", ""),
    ("add", "--- /dev/null\n+++ b/w\n@@ -0,0 +1,3 @@\n+--- x\n++++ y\n+@@ z\n", "--- x\n+++ y\n@@ z\n"),
    ("add", "--- /dev/null\n+++ b/w\n@@ -0,0 +1 @@\n+a\u2028b\r\n", "a\u2028b\r\n"),
    ("delete", "--- a/w.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n--two\n", "one\n-two\n"),
    ("modify", "--- a/w\n+++ b/w\n@@ -1 +1 @@\n-x\n+y\n", "@@ -1 +1 @@\n-x\n+y\n"),
    ("modify", "new mode 100755\n--- a/w\n+++ b/w\n@@ -1 +1 @@\n-x\n+y\n", "@@ -1 +1 @@\n-x\n+y\n"),
    ("modify", "Binary files a/w and b/w differ\n", "Binary files a/w and b/w differ\n"),
    ("add", "text that another agent sent\n--- x\n", "text that another agent sent\n--- x\n"),
    ("modify", "@@ -1 +1 @@\n-x\n+y\n", "@@ -1 +1 @@\n-x\n+y\n"),
]


@pytest.mark.parametrize(("kind", "diff", "shown"), UNIFIED)
def test_a_diff_has_codexs_form_for_codexs_clients_and_ours_for_the_others(kind: Any, diff: str, shown: str) -> None:
    change = FileUpdate(path="/w/w.txt", kind=kind, diff=diff)
    assert codex_diff(change) == shown
    assert parts.file_update(change).diff == diff


@given(before=st.none() | st.text(), after=st.none() | st.text())
def test_the_text_of_any_added_or_deleted_file_is_what_codexs_clients_get(before: Any, after: Any) -> None:
    sides = [None if text is None else text.encode(errors="replace") for text in (before, after)]
    change = diffs.update("/w/f", "f", *sides)
    text = after if before is None else before
    if change.kind == "modify" or text is None or "Binary files" in change.diff or "\r" in text or "\ufeff" in text:
        return
    assert codex_diff(change) == text.encode(errors="replace").decode()


async def test_a_turn_tells_the_diff_of_everything_it_has_changed(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws" / "old.txt").write_text("one\n")
    model = ScriptedModel(
        [call("write", path="new.txt", content="hello\n")],
        [call("read", path="old.txt")],
        [call("edit", path="old.txt", old_string="one", new_string="two")],
        [say("Done.")],
    )
    async with real_engine(model, tmp_path) as the_engine, talking(the_engine, "codex") as talk:
        thread_id = await talk.start(approvalPolicy="never", sandbox="danger-full-access")
        await talk.prompt(thread_id)
        changed = [message["params"] for message in talk.heard if message.get("method") == "item/completed"]
        files = [one["item"]["changes"][0] for one in changed if one["item"]["type"] == "fileChange"]
        told = [one["diff"] for one in talk.params("turn/diff/updated")]
    assert [(file["kind"]["type"], file["diff"]) for file in files] == [
        ("add", "hello\n"),
        ("update", "@@ -1 +1 @@\n-one\n+two\n"),
    ]
    assert told[0] == (
        "diff --git a/new.txt b/new.txt\nnew file mode 100644\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+hello\n"
    )
    assert told[1].startswith(told[0])
    assert "diff --git a/old.txt b/old.txt\n--- a/old.txt\n+++ b/old.txt\n@@ -1 +1 @@\n-one\n+two\n" in told[1]


async def test_a_turn_that_is_started_while_one_runs_steers_it() -> None:
    gate = anyio.Event()
    model = ScriptedModel([say("Working."), wait_for(gate), call("echo", x=1)], [say("As you wish.")])
    async with engine(model, ECHO) as the_engine, talking(the_engine, "codex") as talk:
        thread_id = await talk.start(approvalPolicy="never")
        begun = await talk.call("turn/start", threadId=thread_id, input=TEXT)
        await talk.until("item/agentMessage/delta")
        more = [{"type": "text", "text": "rather this"}]
        again = await talk.call(
            "turn/start", threadId=thread_id, input=more, clientUserMessageId="m2", approvalPolicy="on-request"
        )
        assert again["turn"]["id"] == begun["turn"]["id"]
        gate.set()
        ended = (await talk.until("turn/completed"))["params"]["turn"]
        assert (ended["id"], ended["items"][-1]["text"]) == (begun["turn"]["id"], "As you wish.")
        (state,) = _states(the_engine)
        assert (len(state.turns), state.settings.approval_policy) == (1, "onRequest")
    assert "rather this" in str(model.requests[1].messages)


async def test_flints_clients_are_still_told_that_a_turn_runs() -> None:
    async with engine(ScriptedModel([hang()])) as the_engine, talking(the_engine, "flint-tui") as talk:
        thread_id = await talk.start()
        await talk.call("turn/start", threadId=thread_id, input=TEXT)
        assert await talk.refused("turn/start", threadId=thread_id, input=TEXT) == -32002


async def test_a_review_begins_and_ends_with_an_item_of_its_own() -> None:
    async with engine(ScriptedModel([say("Nothing is wrong.")])) as the_engine, talking(the_engine, "codex") as talk:
        thread_id = await talk.start()
        target = {"type": "custom", "instructions": "Look for mistakes"}
        await talk.call("review/start", threadId=thread_id, target=target)
        await talk.until("turn/completed")
        for method in ("item/started", "item/completed"):
            items = [told["item"] for told in talk.params(method)]
            assert [(item["type"], item["review"]) for item in items if "review" in item] == [
                ("enteredReviewMode", "Look for mistakes"),
                ("exitedReviewMode", "Nothing is wrong."),
            ]
        assert talk.params("item/started")[0]["item"]["type"] == "enteredReviewMode"
        read = await talk.call("thread/read", threadId=thread_id, includeTurns=True)
        types = ["enteredReviewMode", "userMessage", "agentMessage", "exitedReviewMode"]
        assert [item["type"] for item in read["thread"]["turns"][0]["items"]] == types
        listed = await talk.call("thread/items/list", threadId=thread_id, sortDirection="asc")
        assert [entry["item"]["type"] for entry in listed["data"]] == types


async def test_flints_clients_hear_of_a_review_as_before() -> None:
    async with engine(ScriptedModel([say("Fine.")])) as the_engine, talking(the_engine, "flint-tui") as talk:
        thread_id = await talk.start()
        await talk.call("review/start", threadId=thread_id, target={"type": "uncommittedChanges"})
        ended = (await talk.until("turn/completed"))["params"]["turn"]
    assert [item["type"] for item in ended["items"]] == ["userMessage", "agentMessage"]


@pytest.mark.parametrize(
    ("name", "chosen", "expected"),
    [("codex", False, "onRequest"), ("codex", True, "unlessTrusted"), ("flint-tui", False, "unlessTrusted")],
)
async def test_a_client_of_codex_that_names_no_policy_gets_codexs_unless_somebody_chose_one(
    name: str, *, chosen: bool, expected: str
) -> None:
    async with engine(ScriptedModel()) as the_engine:
        session = FlintSession(the_engine.models, the_engine.rules.defaults, policy_chosen=chosen)
        async with wired(the_engine, session) as wire:
            talk = Talk(wire)
            await talk.meet(name)
            await talk.start()
            (state,) = _states(the_engine)
            assert state.settings.approval_policy == expected


# --- models -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["codex", "flint-tui"])
@pytest.mark.parametrize("model", ["anthropic/claude-opus-4-5", "anthropic/claude-of-tomorrow", "scripted/hello"])
async def test_the_default_model_in_the_list_is_the_servers_own(name: str, model: str) -> None:
    models = catalogue(load({"model": model}, {"HOME": "/nowhere", "HAMES_CONFIG": "/nowhere/c"}))
    defaults = Settings(model=models.find(model).id, cwd="/")
    listed = _listed(FlintSession(models, defaults), name)
    assert [model["id"] for model in listed if model["isDefault"]] == [defaults.model]


@pytest.mark.parametrize("name", ["codex", "flint-tui"])
async def test_efforts_in_the_list_of_models_are_words_that_clients_know(name: str) -> None:
    models = catalogue(load({}, {"HOME": "/nowhere", "HAMES_CONFIG": "/nowhere/c"}))
    listed = _listed(FlintSession(models, Settings(model=models.find(models.default).id, cwd="/")), name)
    known = {"none", "minimal", "low", "medium", "high", "xhigh", "max"}
    for model in listed:
        efforts = [one["reasoningEffort"] for one in model["supportedReasoningEfforts"]]
        assert set(efforts) <= known
        assert model["defaultReasoningEffort"] in (efforts or ["none" if name == "flint-tui" else "medium"])
    assert any(model["supportedReasoningEfforts"] for model in listed)


def _listed(session: FlintSession, name: str) -> list[dict[str, Any]]:
    for number, (method, params) in enumerate(
        [("initialize", {"clientInfo": {"name": name, "version": "1"}}), ("model/list", {"includeHidden": True})]
    ):
        (waiting,) = session.receive(json.dumps({"id": number, "method": method, "params": params}).encode(), 0)
        assert not session.resume(waiting, 0)
    return json.loads(session.take_output().splitlines()[-1])["result"]["data"]
