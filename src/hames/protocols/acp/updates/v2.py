"""The updates of ACP v2: messages and tool calls are upserts, output of commands is a stream of a terminal's bytes,
and the state of a session is told by itself."""

from base64 import b64encode
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hames.domain.approvals import Approval, RunCommand
from hames.domain.events import ApprovalResolved, ItemDelta
from hames.domain.items import (
    AgentMessage,
    Artifact,
    CommandExecution,
    Compaction,
    FileChange,
    FileUpdate,
    Item,
    ItemStatus,
    McpToolCall,
    Plan,
    Reasoning,
    ToolCall,
    ToolItem,
    UserMessage,
    reason_of,
)
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState, Turn
from hames.protocols.acp.content import file_link, result_blocks, user_blocks
from hames.protocols.acp.dates import iso_date
from hames.protocols.acp.errors import turn_error_code
from hames.protocols.acp.messages import v2 as m
from hames.protocols.acp.messages.v1 import Cost, Implementation, SessionConfigSelectOption, TextContent
from hames.protocols.acp.outbound import (
    COMMANDS,
    Outbound,
    approval_end,
    cursor,
    session_title,
    stop_reason,
    turn_failure,
)
from hames.protocols.acp.permissions import (
    permission_changes,
    permission_input,
    permission_options,
    permission_title,
)
from hames.protocols.acp.tool_calls import git_patch, raw_output, tool_view
from hames.protocols.acp.updates.v1 import plan_entries
from hames.protocols.describe import approval_reason

STATUSES: dict[ItemStatus, str] = {
    "running": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "declined": "failed",
    "interrupted": "cancelled",
    "skipped": "cancelled",
}
ENTRY_STATUSES = {"pending": "pending", "inProgress": "in_progress", "completed": "completed", "failed": "cancelled"}
METHODS = frozenset(
    {
        "initialize",
        "auth/login",
        "auth/logout",
        "session/new",
        "session/resume",
        "session/list",
        "session/fork",
        "session/close",
        "session/delete",
        "session/prompt",
        "session/set_config_option",
        "tool_call/cancel",
        "terminal/cancel",
    }
)
PLAN = "plan"
"""A session has one plan."""


class OutboundV2(Outbound):
    version = 2
    methods = METHODS

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
            "info": Implementation(name="hames", title="Hames", version=version),
            "capabilities": capabilities,
            "authMethods": [self._auth_method(), *self._terminal_login()],
        }

    def _auth_method(self) -> m.AuthMethod:
        words = "Use the key in the environment, or the one saved with `hames login`"
        return m.AuthMethod(method_id="api-key", name="API key", type="agent", description=words)

    def _terminal_login(self) -> list[m.AuthMethod]:
        if not self.client.terminal_login:
            return []
        words = "Choose a model and save its key"
        return [
            m.AuthMethod(method_id="setup", name="Set up Hames", type="terminal", description=words, args=["--setup"])
        ]

    # -- a session

    def opened(self, state: ThreadState, *, is_new: bool) -> Json:
        options, commands = self._options(state), self._commands()
        if is_new:
            return m.NewSessionResponse(
                session_id=state.id, config_options=options, available_commands=commands, meta=cursor(state.seq)
            )
        return m.ResumeSessionResponse(config_options=options, available_commands=commands, meta=cursor(state.seq))

    def before_opened(self, state: ThreadState, *, is_new: bool) -> Iterator[m.SessionUpdate]:
        if not is_new:
            yield _state(state)

    def after_opened(self, state: ThreadState) -> Iterator[m.SessionUpdate]:  # noqa: ARG002
        yield from ()

    def options(self, state: ThreadState) -> Json:
        return {"configOptions": self._options(state)}

    def _commands(self) -> list[m.AvailableCommand]:
        return [
            m.AvailableCommand(
                type="command",
                name=name,
                description=words,
                input=m.AvailableCommandInput(type="text", hint=hint) if hint else None,
            )
            for name, (words, hint) in COMMANDS.items()
        ]

    def _options(self, state: ThreadState) -> list[m.SessionConfigOption]:
        return [
            m.SessionConfigOption(
                config_id=option.id,
                name=option.name,
                description=option.description or None,
                category=option.category,
                type="select",
                current_value=option.current,
                options=[
                    SessionConfigSelectOption(value=one.id, name=one.name, description=one.description or None)
                    for one in option.choices
                ],
            )
            for option in self.menu.options(state.settings)
        ]

    def permission(self, state: ThreadState, approval: Approval) -> Json:
        item = state.item(approval.item_id)
        view = tool_view(item) if isinstance(item, ToolItem) else None
        if isinstance(approval.intent, RunCommand) and not approval.intent.process:
            subject: m.RequestPermissionSubject = m.CommandPermissionSubject(
                command=approval.intent.command, cwd=approval.intent.cwd, tool_call_id=approval.item_id
            )
        else:
            changes = permission_changes(approval)
            call = m.ToolCallUpdate(
                tool_call_id=approval.item_id,
                title=permission_title(approval),
                kind=view.kind if view else "other",
                status="pending",
                content=[_diff(changes)] if changes else None,
                locations=view.locations if view else None,
                raw_input=permission_input(approval),
            )
            subject = m.ToolCallPermissionSubject(tool_call=call)
        return m.RequestPermissionRequest(
            session_id=state.id,
            title=permission_title(approval),
            description=approval_reason(approval) or None,
            subject=subject,
            options=permission_options(approval),
        )

    # -- what is said

    def delta(self, item: Item, event: ItemDelta, before: ThreadState) -> Sequence[m.SessionUpdate]:  # noqa: ARG002
        match item:
            case AgentMessage():
                return [m.SessionAgentMessageChunk(message_id=item.id, content=TextContent(text=event.text))]
            case Reasoning():
                return [m.SessionAgentThoughtChunk(message_id=item.id, content=TextContent(text=event.text))]
            case Compaction():
                content = TextContent(text=event.text)
                return [m.SessionCompactionSummaryChunk(compaction_id=item.id, content=content)]
            case CommandExecution():
                return [m.SessionTerminalOutputChunk(terminal_id=item.id, data=_base64(event.text))]
            case McpToolCall() | ToolCall():
                return [m.SessionToolCallContentChunk(tool_call_id=item.id, content=_text(event.text))]
            case _:
                return ()

    def user_message(self, item: UserMessage, *, own: bool) -> Iterator[m.SessionUpdate]:  # noqa: ARG002
        yield m.SessionUserMessage(message_id=item.id, content=user_blocks(item))

    def agent_text(self, message_id: str, text: str) -> Iterator[m.SessionUpdate]:
        if text:
            yield m.SessionAgentMessage(message_id=message_id, content=[TextContent(text=text)])

    def agent_text_completed(self, message_id: str, before: str, text: str) -> Iterator[m.SessionUpdate]:
        if text != before:
            yield m.SessionAgentMessage(message_id=message_id, content=[TextContent(text=text)])

    def thought(self, message_id: str, text: str) -> Iterator[m.SessionUpdate]:
        if text:
            yield m.SessionAgentThoughtChunk(message_id=message_id, content=TextContent(text=text))

    def plan(self, item: Plan) -> Iterator[m.SessionUpdate]:
        if item.status in ("running", "completed") and (steps := plan_entries(item)):
            entries = [
                m.PlanEntry(content=entry.step, priority="medium", status=ENTRY_STATUSES[entry.status])
                for entry in steps
            ]
            yield m.SessionPlanUpdate(plan=m.PlanUpdateContent(plan_id=PLAN, type="items", entries=entries))

    def compaction(self, item: Compaction, *, is_open: bool) -> Iterator[m.SessionUpdate]:
        if not is_open:
            yield from self.compaction_completed(item)
            return
        yield m.SessionCompactionUpdate(compaction_id=item.id, status="in_progress")
        if item.summary:
            yield m.SessionCompactionSummaryChunk(compaction_id=item.id, content=TextContent(text=item.summary))

    def compaction_completed(self, item: Compaction) -> Iterator[m.SessionUpdate]:
        status = {"completed": "completed", "interrupted": "cancelled"}.get(item.status, "failed")
        summary = [TextContent(text=item.summary)] if item.summary else None
        yield m.SessionCompactionUpdate(compaction_id=item.id, status=status, summary=[*summary] if summary else None)

    # -- tools

    def tool_call(self, item: ToolItem, *, is_open: bool) -> Iterator[m.SessionUpdate]:
        view = tool_view(item)
        if isinstance(item, CommandExecution):
            output = m.TerminalOutput(data=_base64(item.output)) if item.output else None
            yield m.SessionTerminalUpdate(
                terminal_id=item.id,
                command=item.command,
                cwd=item.cwd,
                output=output,
                exit_status=None if is_open else m.TerminalExitStatus(exit_code=item.exit_code),
            )
        yield m.SessionToolCallUpdate(
            tool_call_id=item.id,
            title=view.title,
            name=view.name,
            kind=view.kind,
            status="in_progress" if is_open else STATUSES[item.status],
            content=_content(item) or None,
            locations=view.locations,
            raw_input=view.raw_input,
            raw_output=None if is_open else raw_output(item),
        )

    def tool_completed(self, item: ToolItem) -> Iterator[m.SessionUpdate]:
        view = tool_view(item)
        if isinstance(item, CommandExecution):
            yield m.SessionTerminalUpdate(
                terminal_id=item.id,
                output=m.TerminalOutput(data=_base64(item.output)),
                exit_status=m.TerminalExitStatus(exit_code=item.exit_code),
            )
        yield m.SessionToolCallUpdate(
            tool_call_id=item.id,
            title=view.title,
            status=STATUSES[item.status],
            content=_content(item),
            locations=view.locations,
            raw_output=raw_output(item),
        )

    def call_answered(self, item: ToolItem, event: ApprovalResolved, *, runs: bool) -> m.SessionUpdate:
        status = "in_progress" if runs else None
        return m.SessionToolCallUpdate(tool_call_id=item.id, status=status, meta=approval_end(event))

    # -- the state

    def turn_started(self, state: ThreadState) -> Iterator[m.SessionUpdate]:
        yield _state(state)

    def state_changed(self, change: Change) -> Iterator[m.SessionUpdate]:
        before, after = _state(change.before), _state(change.after)
        if before.state != after.state:
            yield after

    def turn_ended(self, turn: Turn, seq: int) -> Iterator[m.SessionUpdate]:
        yield replace(_idle(turn), meta=cursor(seq))

    # -- the rest

    def settings_changed(self, change: Change) -> Iterator[m.SessionUpdate]:
        yield m.SessionConfigOptionUpdate(config_options=self._options(change.after))

    def session_info(self, state: ThreadState) -> m.SessionUpdate:
        return m.SessionSessionInfoUpdate(title=session_title(state), updated_at=iso_date(state.updated_at_ms))

    def usage(self, used: int, size: int, spent: Cost | None) -> m.SessionUpdate:
        return m.SessionUsageUpdate(used=used, size=size, cost=spent)

    def notice(self, severity: str, text: str) -> Iterator[m.SessionUpdate]:
        yield m.SessionNotice(severity=severity, title=text)


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


def _content(item: ToolItem) -> list[m.ToolCallContent]:
    content: list[m.ToolCallContent] = []
    reason = reason_of(item)
    match item:
        case CommandExecution():
            content.append(m.Terminal(terminal_id=item.id))
        case FileChange(changes=changes):
            content += [_diff(changes)] if changes else []
        case McpToolCall(output=output, result=result) | ToolCall(output=output, result=result):
            if result is None:
                content += [_text(output)] if output else []
            elif not reason:
                content += [m.Content(content=block) for block in result_blocks(result)]
        case Artifact(path=path, title=title):
            content.append(m.Content(content=file_link(path, title)))
        case _:
            content += [m.Content(content=block) for block in result_blocks(item.result)] if not reason else []
    return [*content, _text(reason)] if reason else content


def _diff(changes: tuple[FileUpdate, ...]) -> m.Diff:
    files = [m.DiffChange(operation=change.kind, path=change.path) for change in changes]
    patch = git_patch(changes)
    return m.Diff(changes=files, patch=m.DiffPatch(format="git_patch", text=patch) if patch else None)


def _text(text: str) -> m.Content:
    return m.Content(content=TextContent(text=text))


def _base64(text: str) -> str:
    return b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii")
