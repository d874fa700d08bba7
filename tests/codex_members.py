"""Every member of Codex's `thread/start` and `turn/start`: where its value arrives, or the sentence that refuses it.

`tests/clients/test_codex_schema.py` compares the names with the schema that Codex writes of its own protocol.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.domain.state import ThreadState


class Reaches(NamedTuple):
    """`find` looks at the thread after the request; it must find the value of the row."""

    value: Any
    found: Any
    find: Callable[[ThreadState], Any]
    beside: dict[str, Any] = {}


class Refused(NamedTuple):
    value: Any
    sentence: str
    harmless: tuple[Any, ...] = ()
    """Values that ask for what happens anyway: they are accepted."""


ELSEWHERE = "tests/integration/test_client_instructions.py and its neighbours"
"""Instructions, schemas, servers and tools have tests of their own."""


def settings(name: str) -> Callable[[ThreadState], Any]:
    return lambda state: getattr(state.settings, name)


def thread_note(name: str) -> Callable[[ThreadState], Any]:
    return lambda state: state.meta[name]


def turn_note(name: str) -> Callable[[ThreadState], Any]:
    return lambda state: state.turns[-1].meta[name]


def said(state: ThreadState) -> Any:
    return [getattr(part, "text", "") for part in state.turns[-1].items[0].content]  # type: ignore[union-attr]


OTHER = "/tmp"

CHOSEN: dict[str, Any] = {
    "approvalPolicy": Reaches("on-request", "onRequest", settings("approval_policy")),
    "cwd": Reaches(OTHER, OTHER, settings("cwd")),
    "environments": Refused([], "a thread runs on the machine of its server"),
    "model": Reaches("scripted/test", "scripted/test", settings("model")),
    "multiAgentMode": Refused("proactive", "there are no other agents", ("explicitRequestOnly",)),
    "permissions": Reaches(":read-only", ReadOnly(), settings("sandbox")),
    "personality": ELSEWHERE,
    "serviceTier": Refused("fast", "there are no service tiers", ("default",)),
}

THREAD_START: dict[str, Any] = {
    **CHOSEN,
    "approvalsReviewer": Reaches("auto_review", "auto_review", thread_note("approvalsReviewer")),
    "allowProviderModelFallback": Reaches(
        True, "scripted/test", settings("model"), {"model": "nowhere/model-of-another-service"}
    ),
    "baseInstructions": ELSEWHERE,
    "config": ELSEWHERE,
    "daybreakEnabled": Refused(True, "daybreakEnabled: is not supported", (False,)),
    "developerInstructions": ELSEWHERE,
    "dynamicTools": ELSEWHERE,
    "ephemeral": Reaches(True, True, lambda state: state.ephemeral),
    "experimentalRawEvents": Reaches(True, True, thread_note("experimentalRawEvents")),
    "historyMode": Refused("other", "must be 'legacy' or 'paginated'", ("legacy", "paginated")),
    "mockExperimentalField": Refused("x", "mockExperimentalField: is not supported"),
    "modelProvider": Reaches("scripted", "scripted/test", settings("model"), {"model": "test"}),
    "projectId": Refused("p1", "projects are not supported"),
    "runtimeWorkspaceRoots": Reaches(
        [OTHER], WorkspaceWrite(writable_roots=(OTHER,)), settings("sandbox"), {"sandbox": "workspace-write"}
    ),
    "sandbox": Reaches("read-only", ReadOnly(), settings("sandbox")),
    "selectedCapabilityRoots": Refused([{"id": "x"}], "selectedCapabilityRoots: are not supported", ([],)),
    "serviceName": Reaches("t3code", "t3code", thread_note("serviceName")),
    "sessionStartSource": Reaches("clear", "clear", thread_note("sessionStartSource")),
    "threadSource": Reaches("desktop", "desktop", thread_note("threadSource")),
}

TURN_START: dict[str, Any] = {
    **CHOSEN,
    "approvalsReviewer": Reaches("auto_review", "auto_review", turn_note("approvalsReviewer")),
    "additionalContext": Reaches(
        {"editor": {"kind": "application", "value": "line 7"}}, ["go", "Context from editor:\nline 7"], said
    ),
    "clientUserMessageId": Reaches("m1", "m1", lambda state: getattr(state.turns[-1].items[0], "client_id", None)),
    "collaborationMode": Reaches({"mode": "plan", "settings": {"model": "scripted/test"}}, "plan", settings("agent")),
    "cyberAccessProgram": Refused("daybreakRed", "access programs are not supported", ("standard",)),
    "disabledPluginIds": Refused(["p"], "there are no plugins", ([],)),
    "effort": Reaches("high", {"reasoning_effort": "high"}, settings("options")),
    "input": Reaches([{"type": "text", "text": "hello", "text_elements": []}], ["hello"], said),
    "outputSchema": ELSEWHERE,
    "parentTurnId": Reaches("t0", "t0", turn_note("parentTurnId")),
    "responsesapiClientMetadata": Reaches({"a": "b"}, {"a": "b"}, turn_note("responsesapiClientMetadata")),
    "responsesapiClientMetadataPatch": Reaches({"a": "b"}, {"a": "b"}, turn_note("responsesapiClientMetadataPatch")),
    "rootTurnId": Reaches("t0", "t0", turn_note("rootTurnId")),
    "runtimeWorkspaceRoots": Reaches(
        [OTHER],
        WorkspaceWrite(writable_roots=(OTHER,)),
        settings("sandbox"),
        {"sandboxPolicy": {"type": "workspaceWrite"}},
    ),
    "sandboxPolicy": Reaches({"type": "readOnly"}, ReadOnly(), settings("sandbox")),
    "serviceTierForTurn": Refused("fast", "there are no service tiers", ("default",)),
    "summary": Reaches("detailed", "detailed", turn_note("summary")),
    "threadId": Reaches(None, 1, lambda state: len(state.turns)),
    "toolOutput": Refused({"name": "x", "output": "y"}, "tools are called by the agent"),
    "turnTrigger": Reaches("schedule", "schedule", turn_note("turnTrigger")),
}
