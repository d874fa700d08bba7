"""The requests that start a turn at Codex. Pure.

Codex keeps what it was once told about model, effort and mode, even over a restart; so everything is said each time.
"""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from hames.domain.commands import ReviewTarget
from hames.domain.errors import InvalidCommand
from hames.domain.items import FileInput, TextInput, UserMessage
from hames.domain.json import NOTHING, Json
from hames.domain.options import Settings, ThreadServer
from hames.domain.policy import (
    ApprovalPolicy,
    DangerFullAccess,
    ExternalSandbox,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
    reaches_every_host,
)
from hames.ports import Compact, Prompt, Review, Task

DEFAULT = "default"
REVIEW = "review"
POLICIES: dict[ApprovalPolicy, str] = {
    "never": "never",
    "onRequest": "on-request",
    "unlessTrusted": "untrusted",
    "always": "untrusted",
}
PERSONALITIES = {DEFAULT: "none", "pragmatic": "pragmatic", "friendly": "friendly"}


def thread_settings(settings: Settings, servers: Sequence[ThreadServer] = ()) -> dict[str, Json]:
    """What a thread of Codex's is opened with. `servers` are the MCP servers of the client, with their secrets."""
    chosen = _common_settings(settings)
    if settings.instructions:
        chosen["developerInstructions"] = settings.instructions
    if settings.base_instructions:
        chosen["baseInstructions"] = settings.base_instructions
    if servers:
        chosen["config"] = {"mcp_servers": {server.name: _server(server) for server in servers}}
    return chosen


def _common_settings(settings: Settings) -> dict[str, Json]:
    model = settings.model.partition("/")[2]
    chosen: dict[str, Json] = {"cwd": settings.cwd, "approvalPolicy": POLICIES[settings.approval_policy]}
    if model and model != DEFAULT:
        chosen["model"] = model
    return chosen


def _server(server: ThreadServer) -> dict[str, Json]:
    """An MCP server in the words of Codex's configuration. Raises `InvalidCommand` for one whose secrets are gone."""
    if None in (*server.env.values(), *server.headers.values()):
        raise InvalidCommand(
            f"the environment and headers of the MCP server {server.name!r} are not kept: send them again"
        )
    told: dict[str, Json] = {
        "command": server.command,
        "args": list(server.args),
        "cwd": server.cwd,
        "env": dict(server.env),
        "url": server.url,
        "http_headers": dict(server.headers),
        "env_http_headers": dict(server.env_headers),
        "startup_timeout_sec": server.start_seconds,
        "tool_timeout_sec": server.call_seconds,
        "disabled_tools": list(server.disabled_tools),
    }
    said = {name: value for name, value in told.items() if value}
    said["required"] = True  # otherwise Codex asks its model before the server has started, and says nothing
    if server.enabled_tools is not None:
        said["enabled_tools"] = list(server.enabled_tools)
    return said


def opening(task: Task, settings: Settings, thread_id: str, model: str) -> Iterator[tuple[str, dict[str, Json]]]:
    """The requests that start the turn, in order. `model` is what Codex's thread has."""
    match task:
        case Prompt(message=message, output_schema=schema):
            options = {"threadId": thread_id, **_turn_settings(settings, model)}
            if settings.options.get("collaboration_mode") == REVIEW:
                words = "\n\n".join(part.text for part in message.content if isinstance(part, TextInput))
                yield "thread/settings/update", options
                yield "review/start", _review(thread_id, ReviewTarget(kind="custom", text=words))
            else:
                schema_member = {} if schema is NOTHING else {"outputSchema": schema}
                yield "turn/start", {**options, **schema_member, "input": inputs(message)}
        case Review(target=target):
            # A review changes nothing, whatever the thread's sandbox allows. The next turn says its own again.
            read_only = replace(settings, sandbox=ReadOnly())
            yield "thread/settings/update", {"threadId": thread_id, **_turn_settings(read_only, model)}
            yield "review/start", _review(thread_id, target)
        case Compact():
            yield "thread/settings/update", {"threadId": thread_id, **_turn_settings(settings, model)}
            yield "thread/compact/start", {"threadId": thread_id}


def _review(thread_id: str, target: ReviewTarget) -> dict[str, Json]:
    match target.kind:
        case "uncommittedChanges":
            theirs: dict[str, Json] = {}
        case "baseBranch":
            theirs = {"branch": target.text.strip()}
        case "commit":
            theirs = {"sha": target.text.strip()}
        case "custom":
            theirs = {"instructions": target.text}
    return {"threadId": thread_id, "target": {"type": target.kind, **theirs}}


def _turn_settings(settings: Settings, model: str) -> dict[str, Json]:
    plans = settings.agent == "plan"
    if settings.agent != "code":  # read-only, and nothing can ask its way out of it
        settings = replace(settings, sandbox=ReadOnly(), approval_policy="never")
    asked: dict[str, Json] = {"sandboxPolicy": sandbox(settings.sandbox), **_common_settings(settings)}
    effort = settings.options.get("reasoning_effort", DEFAULT)
    mode = settings.options.get("collaboration_mode", DEFAULT)
    if personality := PERSONALITIES.get(settings.options.get("personality", settings.personality)):
        asked["personality"] = personality
    if name := asked.get("model") or model:
        # It takes precedence over `model` and `effort`, and is the only place where an effort can be taken back.
        asked["collaborationMode"] = {
            "mode": "plan" if plans or mode == "plan" else DEFAULT,
            "settings": {
                "model": name,
                "reasoning_effort": None if effort == DEFAULT else effort,
                **({"developer_instructions": settings.mode_instructions} if settings.mode_instructions else {}),
            },
        }
    elif effort != DEFAULT:
        asked["effort"] = effort
    return asked


def inputs(message: UserMessage) -> list[dict[str, Json]]:
    parts: list[dict[str, Json]] = []
    attachments = iter(message.attachments)
    for part in message.content:
        match part:
            case TextInput(text=text):
                parts.append({"type": "text", "text": text})
            case FileInput(path=path):  # Codex has no such input
                parts.append({"type": "text", "text": f'<file path="{path}">\n{next(attachments, "")}\n</file>'})
            case _:
                parts.append(msgspec.to_builtins(part))
    return parts


def sandbox(policy: SandboxPolicy) -> dict[str, Json]:
    match policy:
        case DangerFullAccess():
            return {"type": "dangerFullAccess"}
        case ReadOnly():
            return {"type": "readOnly"}
        case WorkspaceWrite(writable_roots=roots):
            # Codex cannot be told of hosts: where not every one is allowed, none is.
            network = reaches_every_host(policy)
            return {"type": "workspaceWrite", "writableRoots": list(roots), "networkAccess": network}
        case ExternalSandbox(network_access=network):
            return {"type": "externalSandbox", "networkAccess": "enabled" if network else "restricted"}
