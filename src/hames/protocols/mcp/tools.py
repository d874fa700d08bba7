"""The tools that Hames offers as an MCP server, and what their arguments mean.

The first two have the names and arguments of `codex mcp-server`, with `hames` in the place of `codex`. A model fills in
the arguments, so they can make a thread stricter than the server was started, and never looser.
"""

from typing import Literal

import msgspec

from hames.domain.commands import ResolveApproval
from hames.domain.errors import InvalidCommand
from hames.domain.ids import ApprovalId
from hames.domain.json import NOTHING, Json
from hames.domain.options import Overrides, Settings
from hames.domain.policy import ApprovalPolicy, ReadOnly, SandboxPolicy
from hames.domain.roles import loosened
from hames.domain.value import Value

START, REPLY, STATUS, ANSWER = "hames", "hames-reply", "hames-status", "hames-answer"
INTERRUPT, LIST = "hames-interrupt", "hames-threads"
MOST_SECONDS = 86_400.0

_POLICIES: dict[str, ApprovalPolicy] = {
    "untrusted": "unlessTrusted",
    "on-request": "onRequest",
    "on-failure": "onRequest",
    "never": "never",
    "always": "always",
    "unlessTrusted": "unlessTrusted",
    "onRequest": "onRequest",
}
"""Codex's words and ours."""


class StartArguments(Value, rename="kebab", forbid_unknown_fields=True):
    prompt: str
    cwd: str | None = None
    model: str | None = None
    approval_policy: str | None = None
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] | None = None
    base_instructions: str | None = None
    developer_instructions: str | None = None
    title: str = ""
    output_schema: dict[str, Json] | None = None
    wait_seconds: float | None = None


class ReplyArguments(Value, forbid_unknown_fields=True):
    prompt: str
    thread_id: str = msgspec.field(name="threadId", default="")
    conversation_id: str = msgspec.field(name="conversationId", default="")
    """What older clients of `codex mcp-server` call it."""
    output_schema: dict[str, Json] | None = msgspec.field(name="output-schema", default=None)
    wait_seconds: float | None = msgspec.field(name="wait-seconds", default=None)


class ThreadArguments(Value, forbid_unknown_fields=True):
    thread_id: str = msgspec.field(name="threadId")
    wait_seconds: float | None = msgspec.field(name="wait-seconds", default=None)


class AnswerArguments(Value, forbid_unknown_fields=True):
    thread_id: str = msgspec.field(name="threadId")
    approval_id: str = msgspec.field(name="approvalId")
    decision: Literal["once", "always", "reject"]
    note: str = ""
    content: dict[str, Json] | None = None
    wait_seconds: float | None = msgspec.field(name="wait-seconds", default=None)


class ListArguments(Value, forbid_unknown_fields=True):
    search: str = ""
    limit: int = 20
    cursor: str | None = None


Arguments = StartArguments | ReplyArguments | ThreadArguments | AnswerArguments | ListArguments

_ARGUMENTS: dict[str, type[Arguments]] = {
    START: StartArguments,
    REPLY: ReplyArguments,
    STATUS: ThreadArguments,
    ANSWER: AnswerArguments,
    INTERRUPT: ThreadArguments,
    LIST: ListArguments,
}
NAMES = frozenset(_ARGUMENTS)


def read_arguments(tool: str, given: Json) -> Arguments:
    """Raises `InvalidCommand`."""
    try:
        arguments = msgspec.convert(given if given is not None else {}, _ARGUMENTS[tool])
    except msgspec.ValidationError as why:
        raise InvalidCommand(f"the arguments of {tool!r}: {why}") from None
    seconds = getattr(arguments, "wait_seconds", None)
    if seconds is not None and not 0 <= seconds <= MOST_SECONDS:
        raise InvalidCommand(f"wait-seconds must be from 0 to {MOST_SECONDS:g}")
    if isinstance(arguments, StartArguments | ReplyArguments) and not arguments.prompt.strip():
        raise InvalidCommand("the prompt is empty")
    if isinstance(arguments, ReplyArguments) and not (arguments.thread_id or arguments.conversation_id):
        raise InvalidCommand("threadId is missing: it is in the result of the call that started the thread")
    if isinstance(arguments, ListArguments) and not 1 <= arguments.limit <= 100:
        raise InvalidCommand("limit must be from 1 to 100")
    return arguments


def overrides_of(arguments: StartArguments, defaults: Settings) -> Overrides:
    """Raises `InvalidCommand` for what would loosen the defaults."""
    policy = None
    if arguments.approval_policy is not None:
        policy = _POLICIES.get(arguments.approval_policy)
        if policy is None:
            raise InvalidCommand(f"approval-policy must be one of {', '.join(_POLICIES)}")
    return Overrides(
        model=arguments.model,
        cwd=arguments.cwd,
        approval_policy=policy,
        sandbox=_sandbox(arguments.sandbox, defaults),
        base_instructions=arguments.base_instructions,
        instructions=arguments.developer_instructions,
    )


def _sandbox(word: str | None, defaults: Settings) -> SandboxPolicy | None:
    """`workspace-write` is what the server was started with: it knows the directories and hosts."""
    match word:
        case "read-only":
            return ReadOnly()
        case "danger-full-access":
            raise InvalidCommand("the sandbox is chosen where the server is started: hames mcp serve --sandbox …")
        case "workspace-write" if isinstance(defaults.sandbox, ReadOnly):
            raise InvalidCommand("this server was started with a read-only sandbox")
        case _:
            return None


def looser(defaults: Settings, settings: Settings) -> str:
    """What a model asked for that only the person who started the server may choose, in words."""
    why = loosened(defaults, settings)
    return f"{why}: only the options of the server can change that (hames mcp serve)" if why else ""


def _schema(required: list[str], **properties: Json) -> Json:
    return {
        "type": "object",
        "properties": {name.replace("__", "-"): value for name, value in properties.items()},
        "required": required,
        "additionalProperties": False,
    }


def _text(says: str) -> Json:
    return {"type": "string", "description": says}


_WAIT: Json = {
    "type": "number",
    "minimum": 0,
    "maximum": MOST_SECONDS,
    "description": "Return after so many seconds although the agent still works; by default the call returns when it"
    " has finished, or needs an approval",
}
_ANSWER_SCHEMA: Json = {
    "type": "object",
    "description": "JSON Schema that the final answer of the agent has to match",
}
RESULT_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "threadId": _text("The thread, for hames-reply and the other tools"),
        "status": {
            "type": "string",
            "enum": ["completed", "failed", "interrupted", "running", "approval_needed", "idle"],
        },
        "content": _text("The last answer of the agent"),
        "approvals": {
            "type": "array",
            "items": {"type": "object", "required": ["id", "question"]},
            "description": "Questions that wait for an answer with hames-answer",
        },
    },
    "required": ["threadId", "status", "content"],
}
TOOLS: tuple[Json, ...] = (
    {
        "name": START,
        "title": "Start a Hames thread",
        "description": "Start a coding agent on a task in a directory of this machine and wait for its answer. It reads"
        " and changes files and runs commands in a sandbox. The result has a threadId, to go on with hames-reply.",
        "inputSchema": _schema(
            ["prompt"],
            prompt=_text("What the agent should do"),
            cwd=_text("The directory to work in, inside the directory of the server (the default)"),
            model=_text("The model, as `hames models` lists it"),
            approval__policy={
                "type": "string",
                "enum": ["always", "untrusted", "on-request", "never"],
                "description": "When a person is asked; not less often than the server was started with",
            },
            sandbox={"type": "string", "enum": ["read-only", "workspace-write"], "description": "What it may write to"},
            base__instructions=_text("A system prompt in the place of the agent's own"),
            developer__instructions=_text("Added to the system prompt"),
            title=_text("A title for the thread"),
            output__schema=_ANSWER_SCHEMA,
            wait__seconds=_WAIT,
        ),
        "outputSchema": RESULT_SCHEMA,
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    },
    {
        "name": REPLY,
        "title": "Go on with a Hames thread",
        "description": "Say something more to the agent of a thread and wait for its answer.",
        "inputSchema": _schema(
            ["prompt", "threadId"],
            threadId=_text("The thread, from an earlier result"),
            prompt=_text("What to say"),
            output__schema=_ANSWER_SCHEMA,
            wait__seconds=_WAIT,
        ),
        "outputSchema": RESULT_SCHEMA,
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    },
    {
        "name": STATUS,
        "title": "Look at a Hames thread",
        "description": "What the agent of a thread does: its last answer, and approvals that it waits for.",
        "inputSchema": _schema(
            ["threadId"],
            threadId=_text("The thread"),
            wait__seconds={**_WAIT, "description": "Wait so long for the agent to finish (default: 0)"},
        ),
        "outputSchema": RESULT_SCHEMA,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": ANSWER,
        "title": "Answer an approval of a Hames thread",
        "description": "Answer a question of the agent that waits for a person. Ask the user first: it is their answer."
        " Then waits for the agent as hames-reply does.",
        "inputSchema": _schema(
            ["threadId", "approvalId", "decision"],
            threadId=_text("The thread"),
            approvalId=_text("The question, from `approvals` of a result"),
            decision={"type": "string", "enum": ["once", "always", "reject"]},
            note=_text("A word to the agent"),
            content={"type": "object", "description": "The fields of a form, where the question is one"},
            wait__seconds=_WAIT,
        ),
        "outputSchema": RESULT_SCHEMA,
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False},
    },
    {
        "name": INTERRUPT,
        "title": "Interrupt a Hames thread",
        "description": "Stop what the agent of a thread does. The thread stays, and hames-reply goes on with it.",
        "inputSchema": _schema(["threadId"], threadId=_text("The thread")),
        "outputSchema": RESULT_SCHEMA,
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    },
    {
        "name": LIST,
        "title": "List Hames threads",
        "description": "The threads of this user, newest first.",
        "inputSchema": _schema(
            [],
            search=_text("Only threads with these words in their title or text"),
            limit={"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            cursor=_text("`nextCursor` of the page before"),
        ),
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
)


def answer_command(given: AnswerArguments) -> ResolveApproval:
    approval_id = ApprovalId(given.approval_id)
    return ResolveApproval(approval_id=approval_id, decision=given.decision, note=given.note, content=given.content)


def output_schema_of(arguments: StartArguments | ReplyArguments) -> Json:
    return NOTHING if arguments.output_schema is None else arguments.output_schema
