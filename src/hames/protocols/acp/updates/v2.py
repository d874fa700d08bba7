"""Session updates of ACP v2, and its answers.

Messages and tool calls are upserts, output of commands is a stream of a terminal's bytes, and the state of a session is
told by itself.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from msgspec.structs import replace

from hames.domain.approvals import Approval, RunCommand
from hames.domain.events import ItemDelta
from hames.domain.items import CommandExecution, FileUpdate, ItemStatus, McpToolCall, ToolCall, ToolItem, UserMessage
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState, Turn
from hames.protocols.acp import permissions
from hames.protocols.acp.content import text_content, user_blocks
from hames.protocols.acp.endings import stop_reason, turn_failure
from hames.protocols.acp.errors import turn_error_code
from hames.protocols.acp.listing import cursor
from hames.protocols.acp.messages import v1
from hames.protocols.acp.messages import v2 as m
from hames.protocols.acp.options import Option
from hames.protocols.acp.outbound import COMMANDS, METHODS, Outbound
from hames.protocols.acp.tool_calls import git_patch
from hames.protocols.describe import approval_reason

PLAN = "plan"
"""A session has one plan."""


class OutboundV2(Outbound):
    version = 2
    methods = METHODS | {"auth/login", "auth/logout", "tool_call/cancel", "terminal/cancel"}
    statuses: ClassVar[Mapping[ItemStatus, Json]] = {
        "running": "in_progress",
        "completed": "completed",
        "failed": "failed",
        "declined": "failed",
        "interrupted": "cancelled",
        "skipped": "cancelled",
    }
    entry_statuses: ClassVar[Mapping[str, Json]] = {
        "pending": "pending",
        "inProgress": "in_progress",
        "completed": "completed",
        "failed": "cancelled",
    }
    new_call = v1.SessionToolCallUpdate
    no_content = ()

    def initialize_result(self, version: str) -> Json:
        capabilities: Json = {
            "session": {
                "prompt": {"image": {}, "embeddedContext": {}},
                "mcp": {"stdio": {}, "http": {}},
                "delete": {},
                "fork": {},
                "additionalDirectories": {},
            },
            "auth": {},
        }
        return {
            "protocolVersion": 2,
            "info": v1.Implementation(name="hames", title="Hames", version=version),
            "capabilities": capabilities,
            "authMethods": self.sign_ins(),
        }

    def sign_in(self, name: str, title: str, words: str, args: list[str] | None = None) -> m.AuthMethod:
        kind = "terminal" if args else "agent"
        return m.AuthMethod(method_id=name, name=title, type=kind, description=words, args=args)

    # -- a session

    def opened(self, state: ThreadState, *, is_new: bool) -> Json:
        options, meta = self.options(state), cursor(state.seq)
        commands = [
            m.AvailableCommand(
                type="command",
                name=name,
                description=words,
                input=m.AvailableCommandInput(type="text", hint=hint) if hint else None,
            )
            for name, (words, hint) in COMMANDS.items()
        ]
        if is_new:
            return m.NewSessionResponse(
                session_id=state.id, config_options=options, available_commands=commands, meta=meta
            )
        return m.ResumeSessionResponse(config_options=options, available_commands=commands, meta=meta)

    def before_opened(self, state: ThreadState, /, *, is_new: bool) -> Iterator[m.SessionUpdate]:
        if not is_new:
            yield _state(state)

    def option(self, option: Option, choices: list[v1.SessionConfigSelectOption]) -> m.SessionConfigOption:
        return m.SessionConfigOption(
            config_id=option.id,
            name=option.name,
            description=option.description or None,
            category=option.category,
            type="select",
            current_value=option.current,
            options=choices,
        )

    def permission(self, state: ThreadState, approval: Approval) -> Json:
        if isinstance(approval.intent, RunCommand) and not approval.intent.process:
            subject: m.RequestPermissionSubject = m.CommandPermissionSubject(
                command=approval.intent.command, cwd=approval.intent.cwd, tool_call_id=approval.item_id
            )
        else:
            call = self.call_to_permit(state, approval, self.diffs(permissions.permission_changes(approval)))
            subject = m.ToolCallPermissionSubject(tool_call=call)
        return m.RequestPermissionRequest(
            session_id=state.id,
            title=permissions.permission_title(approval),
            description=approval_reason(approval) or None,
            subject=subject,
            options=permissions.permission_options(approval),
        )

    # -- what is said

    def user_message(self, item: UserMessage, *, own: bool) -> Iterator[m.SessionUpdate]:  # noqa: ARG002
        yield m.SessionUserMessage(message_id=item.id, content=user_blocks(item))

    def agent_text(self, message_id: str, text: str) -> Iterator[m.SessionUpdate]:
        if text:
            yield m.SessionAgentMessage(message_id=message_id, content=[v1.TextContent(text=text)])

    def agent_text_completed(self, message_id: str, before: str, text: str) -> Iterator[m.SessionUpdate]:
        if text != before:
            yield m.SessionAgentMessage(message_id=message_id, content=[v1.TextContent(text=text)])

    def whole_plan(self, entries: list[Json]) -> m.SessionPlanUpdate:
        return m.SessionPlanUpdate(plan=m.PlanUpdateContent(plan_id=PLAN, type="items", entries=entries))

    # -- tools

    def output_delta(
        self,
        item: CommandExecution | McpToolCall | ToolCall,
        event: ItemDelta,
        before: ThreadState,  # noqa: ARG002
    ) -> Sequence[m.SessionUpdate]:
        if isinstance(item, CommandExecution):
            return [m.SessionTerminalOutputChunk(terminal_id=item.id, data=_base64(event.text))]
        content: Json = text_content(event.text)
        return [m.SessionToolCallContentChunk(tool_call_id=item.id, content=content)]

    def terminal(self, item: ToolItem, /, *, is_new: bool, is_open: bool) -> Iterator[m.SessionUpdate]:
        if isinstance(item, CommandExecution):
            yield m.SessionTerminalUpdate(
                terminal_id=item.id,
                command=item.command if is_new else None,
                cwd=item.cwd if is_new else None,
                output=m.TerminalOutput(data=_base64(item.output)) if item.output or not is_new else None,
                exit_status=None if is_open else m.TerminalExitStatus(exit_code=item.exit_code),
            )

    def command_content(self, item: CommandExecution) -> list[Json]:
        return [m.Terminal(terminal_id=item.id)]

    def diffs(self, changes: tuple[FileUpdate, ...]) -> list[Json]:
        if not changes:
            return []
        files = [m.DiffChange(operation=change.kind, path=change.path) for change in changes]
        patch = git_patch(changes)
        return [m.Diff(changes=files, patch=m.DiffPatch(format="git_patch", text=patch) if patch else None)]

    # -- the state

    def turn_started(self, state: ThreadState, /) -> Iterator[m.SessionUpdate]:
        yield _state(state)

    def state_changed(self, change: Change, /) -> Iterator[m.SessionUpdate]:
        before, after = _state(change.before), _state(change.after)
        if before.state != after.state:
            yield after

    def turn_ended(self, turn: Turn, seq: int, /) -> Iterator[m.SessionUpdate]:
        yield replace(_idle(turn), meta=cursor(seq))


def _state(state: ThreadState) -> m.SessionStateUpdate:
    if state.running is not None:
        return m.SessionStateUpdate(state="requires_action" if state.approvals else "running")
    return _idle(state.turns[-1]) if state.turns else m.SessionStateUpdate(state="idle")


def _idle(turn: Turn) -> m.SessionStateUpdate:
    reason = stop_reason(turn)
    if reason is not None:
        return m.SessionStateUpdate(state="idle", stop_reason=reason)
    info = turn.error.info if turn.error is not None else "Other"
    error = m.Error(code=turn_error_code(info), message=turn_failure(turn), data={"info": info})
    return m.SessionStateUpdate(state="idle", stop_reason="error", error=error)


def _base64(text: str) -> str:
    return b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
