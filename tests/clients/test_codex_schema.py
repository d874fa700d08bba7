"""What we say to Codex's clients, judged by the JSON Schema that Codex writes of its own protocol."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from codex_members import THREAD_START, TURN_START
from flint_support import talking
from hames.domain.events import ItemCompleted, Record, ToolCalled
from hames.protocols.flint.codex.dialect import CodexDialect
from hames.protocols.flint.codex.raw_items import raw_call, raw_item
from hames.protocols.flint.dialect import About
from hames.protocols.flint.outbound import project
from hames.protocols.rpc_session import Ask, Notify
from hames.testing.fakes.model import ScriptedModel, say
from hames.testing.generators.histories import changes, histories
from support import engine

SHAPE = CodexDialect(About(version="1", provider="anthropic", home="/h"), lambda _: 200_000)

RESULTS = {
    "initialize": "v1/InitializeResponse",
    "thread/start": "v2/ThreadStartResponse",
    "thread/resume": "v2/ThreadResumeResponse",
    "thread/fork": "v2/ThreadForkResponse",
    "thread/list": "v2/ThreadListResponse",
    "thread/read": "v2/ThreadReadResponse",
    "thread/turns/list": "v2/ThreadTurnsListResponse",
    "thread/items/list": "v2/ThreadItemsListResponse",
    "thread/loaded/list": "v2/ThreadLoadedListResponse",
    "thread/unsubscribe": "v2/ThreadUnsubscribeResponse",
    "thread/goal/get": "v2/ThreadGoalGetResponse",
    "thread/unarchive": "v2/ThreadUnarchiveResponse",
    "turn/start": "v2/TurnStartResponse",
    "model/list": "v2/ModelListResponse",
    "config/read": "v2/ConfigReadResponse",
    "configRequirements/read": "v2/ConfigRequirementsReadResponse",
    "account/read": "v2/GetAccountResponse",
    "account/rateLimits/read": "v2/GetAccountRateLimitsResponse",
    "hooks/list": "v2/HooksListResponse",
    "skills/list": "v2/SkillsListResponse",
    "plugin/list": "v2/PluginListResponse",
    "collaborationMode/list": "v2/CollaborationModeListResponse",
    "permissionProfile/list": "v2/PermissionProfileListResponse",
    "mcpServerStatus/list": "v2/ListMcpServerStatusResponse",
}


class Schemas:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said = self._by_method("ServerNotification") | self._by_method("ServerRequest")

    def _by_method(self, name: str) -> dict[str, Draft7Validator]:
        whole = json.loads((self._folder / f"{name}.json").read_text())
        found: dict[str, Draft7Validator] = {}
        for variant in whole["oneOf"]:
            schema = {"definitions": whole["definitions"], **variant}
            found[variant["properties"]["method"]["enum"][0]] = Draft7Validator(schema)
        return found

    def check_said(self, message: Any) -> None:
        assert message["method"] in self._said, f"Codex says nothing like {message['method']}"
        self._check(self._said[message["method"]], message)

    def check_result(self, method: str, result: Any) -> None:
        self.check_form(RESULTS[method], result)

    def check_form(self, name: str, value: Any) -> None:
        self._check(Draft7Validator(json.loads((self._folder / f"{name}.json").read_text())), value)

    def members(self, name: str) -> set[str]:
        return set(json.loads((self._folder / "v2" / f"{name}.json").read_text())["properties"])

    @staticmethod
    def _check(validator: Draft7Validator, value: Any) -> None:
        wrong = sorted(validator.iter_errors(value), key=lambda error: len(error.path))
        assert not wrong, f"{wrong[0].json_path}: {wrong[0].message[:300]}\n{json.dumps(value)[:2000]}"


@pytest.fixture(scope="session")
def schemas(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Schemas:
    folder = tmp_path_factory.mktemp("schema")
    codex = [str(node_modules / ".bin" / "codex"), "app-server", "generate-json-schema", "--experimental"]
    subprocess.run([*codex, "--out", str(folder)], check=True, capture_output=True, timeout=60)
    return Schemas(folder)


@pytest.mark.parametrize(("name", "rows"), [("ThreadStartParams", THREAD_START), ("TurnStartParams", TURN_START)])
def test_every_member_that_codex_knows_has_its_row(name: str, rows: dict[str, Any], schemas: Schemas) -> None:
    assert schemas.members(name) == rows.keys()


@settings(max_examples=40)
@given(history=st.shared(histories(), key="history"))
def test_whatever_happens_is_told_as_codex_would_tell_it(history: list[Record], schemas: Schemas) -> None:
    for change in changes(history):
        for message in project(change, SHAPE):
            if isinstance(message, Notify | Ask):
                also = {"id": message.approval_id} if isinstance(message, Ask) else {}
                told = {"method": message.method, "params": message.params, **also}
                schemas.check_said(msgspec.json.decode(msgspec.json.encode(told)))


@settings(max_examples=40)
@given(history=st.shared(histories(), key="history"))
def test_raw_items_have_the_form_of_codexs(history: list[Record], schemas: Schemas) -> None:
    for record in history:
        match record.event:
            case ItemCompleted(item=item):
                raw = raw_item(item)
            case ToolCalled() as event:
                raw = raw_call(event)
            case _:
                continue
        if raw is not None:
            params = {"threadId": "t", "turnId": "u", "item": raw}
            schemas.check_form(
                "v2/RawResponseItemCompletedNotification", msgspec.json.decode(msgspec.json.encode(params))
            )


async def test_every_answer_has_the_form_of_codexs(schemas: Schemas) -> None:
    async with engine(ScriptedModel([say("Hello.")])) as the_engine, talking(the_engine, None) as talk:

        async def check(method: str, **params: Any) -> Any:
            result = await talk.call(method, **params)
            schemas.check_result(method, result)
            return result

        client = {"name": "codex-tui", "title": None, "version": "0.166.0"}
        await check("initialize", clientInfo=client, capabilities={"experimentalApi": True})
        opened = await check("thread/start", sandbox="workspace-write", approvalPolicy="on-request", config={"x": {}})
        thread_id = opened["thread"]["id"]
        text = [{"type": "text", "text": "go", "text_elements": []}]
        await check("turn/start", threadId=thread_id, input=text, effort="medium", summary="auto")
        await talk.until("turn/completed")
        of_thread = ("thread/resume", "thread/fork", "thread/turns/list", "thread/items/list", "thread/unarchive")
        for method in (*of_thread, "thread/goal/get", "thread/unsubscribe"):
            await check(method, threadId=thread_id)
        await check("thread/read", threadId=thread_id, includeTurns=True)
        await check("thread/list", limit=10, sortKey="recency_at", sourceKinds=[])
        for method in ("hooks/list", "skills/list"):
            await check(method, cwds=["/w"])
        plain = RESULTS.keys() - {*of_thread, "initialize", "thread/start", "turn/start", "thread/read", "thread/list"}
        for method in sorted(plain - {"hooks/list", "skills/list", "thread/goal/get", "thread/unsubscribe"}):
            await check(method)
