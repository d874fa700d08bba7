"""The updates of ACP v1.

In v1 a list of a tool call is sent as a whole every time. Output of a running tool is therefore sent again when it
has doubled, so that a long one costs no more than twice its size; clients that understand streamed output in
`_meta`, as Zed does, get every piece at once.
"""

from collections.abc import Iterator, Sequence

from hames.domain.approvals import Approval
from hames.domain.events import ApprovalResolved, ItemDelta
from hames.domain.items import (
    AgentMessage,
    Artifact,
    CommandExecution,
    Compaction,
    FileChange,
    Item,
    ItemStatus,
    McpToolCall,
    Plan,
    PlanEntry,
    Reasoning,
    ToolCall,
    ToolItem,
    UserMessage,
    reason_of,
)
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState
from hames.protocols.acp.content import file_link, result_blocks, user_blocks
from hames.protocols.acp.dates import iso_date
from hames.protocols.acp.messages import v1 as m
from hames.protocols.acp.options import MODES, mode_of
from hames.protocols.acp.outbound import COMMANDS, Outbound, approval_end, cursor, session_title
from hames.protocols.acp.permissions import (
    permission_changes,
    permission_input,
    permission_options,
    permission_title,
)
from hames.protocols.acp.tool_calls import diffs, raw_output, tool_view
from hames.protocols.describe import approval_reason

STATUSES: dict[ItemStatus, m.ToolCallStatus] = {
    "running": "in_progress",
    "completed": "completed",
    "failed": "failed",
    "declined": "failed",
    "interrupted": "failed",
    "skipped": "failed",
}
ENTRY_STATUSES: dict[str, m.PlanEntryStatus] = {
    "pending": "pending",
    "inProgress": "in_progress",
    "completed": "completed",
    "failed": "completed",
}
METHODS = frozenset(
    {
        "initialize",
        "authenticate",
        "logout",
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
        "session/fork",
        "session/close",
        "session/delete",
        "session/prompt",
        "session/set_mode",
        "session/set_config_option",
    }
)


class OutboundV1(Outbound):
    version = 1
    methods = METHODS

    def initialize_result(self, version: str) -> Json:
        capabilities: Json = {
            "loadSession": True,
            "promptCapabilities": {"image": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True},
            "sessionCapabilities": {
                "list": {},
                "resume": {},
                "close": {},
                "delete": {},
                "fork": {},
                "additionalDirectories": {},
            },
            "auth": {"logout": {}},
        }
        return {
            "protocolVersion": 1,
            "agentCapabilities": capabilities,
            "agentInfo": m.Implementation(name="hames", title="Hames", version=version),
            "authMethods": [self._auth_method(), *self._terminal_login()],
        }

    def _auth_method(self) -> m.AuthMethod:
        return m.AuthMethod(
            id="api-key",
            name="API key",
            description="Use the key in the environment, or the one saved with `hames login`",
        )

    def _terminal_login(self) -> list[m.AuthMethod]:
        if not self.client.terminal_login:
            return []
        words = "Choose a model and save its key"
        return [m.AuthMethod(id="setup", name="Set up Hames", description=words, type="terminal", args=["--setup"])]

    # -- a session

    def opened(self, state: ThreadState, *, is_new: bool) -> Json:
        modes, options = self._modes(state), self._options(state)
        if is_new:
            return m.NewSessionResponse(
                session_id=state.id, modes=modes, config_options=options, meta=cursor(state.seq)
            )
        return m.LoadSessionResponse(modes=modes, config_options=options, meta=cursor(state.seq))

    def before_opened(self, state: ThreadState, *, is_new: bool) -> Iterator[m.SessionUpdate]:  # noqa: ARG002
        yield from ()

    def after_opened(self, state: ThreadState) -> Iterator[m.SessionUpdate]:  # noqa: ARG002
        commands = [
            m.AvailableCommand(name=name, description=words, input=m.AvailableCommandInput(hint=hint) if hint else None)
            for name, (words, hint) in COMMANDS.items()
        ]
        yield m.SessionAvailableCommandsUpdate(available_commands=commands)

    def options(self, state: ThreadState) -> Json:
        return {"configOptions": self._options(state)}

    def _modes(self, state: ThreadState) -> m.SessionModeState:
        modes = [m.SessionMode(id=one.id, name=one.name, description=one.description or None) for one in MODES]
        return m.SessionModeState(current_mode_id=mode_of(state.settings), available_modes=modes)

    def _options(self, state: ThreadState) -> list[m.SessionConfigOption]:
        return [
            m.SessionConfigOption(
                id=option.id,
                name=option.name,
                description=option.description or None,
                category=option.category,
                type="select",
                current_value=option.current,
                options=[
                    m.SessionConfigSelectOption(value=one.id, name=one.name, description=one.description or None)
                    for one in option.choices
                ],
            )
            for option in self.menu.options(state.settings)
        ]

    def permission(self, state: ThreadState, approval: Approval) -> Json:
        item = state.item(approval.item_id)
        view = tool_view(item) if isinstance(item, ToolItem) else None
        content: list[m.ToolCallContent] = [diff for change in permission_changes(approval) for diff in diffs(change)]
        if reason := approval_reason(approval):
            content.append(_text(reason))
        call = m.ToolCallUpdate(
            tool_call_id=approval.item_id,
            title=permission_title(approval),
            kind=view.kind if view else "other",
            status="pending",
            content=content or None,
            locations=view.locations if view else None,
            raw_input=permission_input(approval),
        )
        return m.RequestPermissionRequest(session_id=state.id, tool_call=call, options=permission_options(approval))

    # -- what is said

    def delta(self, item: Item, event: ItemDelta, before: ThreadState) -> Sequence[m.SessionUpdate]:
        match item:
            case AgentMessage():
                return [m.SessionAgentMessageChunk(content=m.TextContent(text=event.text), message_id=item.id)]
            case Reasoning():
                return [m.SessionAgentThoughtChunk(content=m.TextContent(text=event.text), message_id=item.id)]
            case Compaction() if self.client.compaction:
                content = m.TextContent(text=event.text)
                return [m.SessionCompactionSummaryChunk(compaction_id=item.id, content=content)]
            case CommandExecution() if item.id in self.terminals:
                return ()  # the client shows its own terminal
            case CommandExecution() if self.client.terminal_output:
                meta = {"terminal_output": {"terminal_id": item.id, "data": event.text}}
                return [m.SessionToolCallUpdate(tool_call_id=item.id, meta=meta)]
            case CommandExecution() | McpToolCall() | ToolCall():
                known = before.item(item.id)
                length = len(known.output) if isinstance(known, CommandExecution | McpToolCall | ToolCall) else 0
                if length.bit_length() == len(item.output).bit_length():
                    return ()
                return [m.SessionToolCallUpdate(tool_call_id=item.id, content=self._content(item))]
            case _:
                return ()

    def user_message(self, item: UserMessage, *, own: bool) -> Iterator[m.SessionUpdate]:
        """A client shows its own prompts itself."""
        for block in () if own else user_blocks(item):
            yield m.SessionUserMessageChunk(content=block, message_id=item.id)

    def agent_text(self, message_id: str, text: str) -> Iterator[m.SessionUpdate]:
        if text:
            yield m.SessionAgentMessageChunk(content=m.TextContent(text=text), message_id=message_id)

    def agent_text_completed(self, message_id: str, before: str, text: str) -> Iterator[m.SessionUpdate]:
        if text.startswith(before):
            yield from self.agent_text(message_id, text[len(before) :])
        else:  # what was shown cannot be changed any more
            yield from self.agent_text(f"{message_id}-final", text)

    def thought(self, message_id: str, text: str) -> Iterator[m.SessionUpdate]:
        if text:
            yield m.SessionAgentThoughtChunk(content=m.TextContent(text=text), message_id=message_id)

    def plan(self, item: Plan) -> Iterator[m.SessionUpdate]:
        if item.status in ("running", "completed") and (entries := plan_entries(item)):
            yield m.SessionPlan(
                entries=[
                    m.PlanEntry(content=entry.step, priority="medium", status=ENTRY_STATUSES[entry.status])
                    for entry in entries
                ]
            )

    def compaction(self, item: Compaction, *, is_open: bool) -> Iterator[m.SessionUpdate]:
        if not self.client.compaction:
            return
        if not is_open:
            yield from self.compaction_completed(item)
            return
        yield m.SessionCompactionUpdate(compaction_id=item.id, status="in_progress")
        if item.summary:
            yield m.SessionCompactionSummaryChunk(compaction_id=item.id, content=m.TextContent(text=item.summary))

    def compaction_completed(self, item: Compaction) -> Iterator[m.SessionUpdate]:
        if self.client.compaction:
            status = {"completed": "completed", "interrupted": "cancelled"}.get(item.status, "failed")
            summary: list[m.ContentBlock] = [m.TextContent(text=item.summary)] if item.summary else []
            yield m.SessionCompactionUpdate(compaction_id=item.id, status=status, summary=summary or None)

    # -- tools

    def tool_call(self, item: ToolItem, *, is_open: bool) -> Iterator[m.SessionUpdate]:
        view = tool_view(item)
        yield m.SessionToolCall(
            tool_call_id=item.id,
            title=view.title,
            name=view.name,
            kind=view.kind,
            status="in_progress" if is_open else STATUSES[item.status],
            content=self._content(item),
            locations=view.locations,
            raw_input=view.raw_input,
            raw_output=None if is_open else raw_output(item),
            meta=self._terminal(item, is_open=is_open),
        )

    def _terminal(self, item: ToolItem, *, is_open: bool) -> dict[str, Json] | None:
        if not isinstance(item, CommandExecution) or not self.client.terminal_output:
            return None
        meta: dict[str, Json] = {"terminal_info": {"terminal_id": item.id, "cwd": item.cwd}}
        if item.output:
            meta["terminal_output"] = {"terminal_id": item.id, "data": item.output}
        return meta if is_open else {**meta, **_terminal_exit(item)}

    def own_terminal(self, item_id: str, terminal: str) -> Iterator[m.SessionUpdate]:
        """The command runs in this terminal of the client's."""
        yield m.SessionToolCallUpdate(tool_call_id=item_id, content=[m.Terminal(terminal_id=terminal)])

    def tool_completed(self, item: ToolItem) -> Iterator[m.SessionUpdate]:
        view = tool_view(item)
        shows_terminal = isinstance(item, CommandExecution) and self.client.terminal_output
        yield m.SessionToolCallUpdate(
            tool_call_id=item.id,
            title=view.title,
            status=STATUSES[item.status],
            content=self._content(item),
            locations=view.locations,
            raw_output=raw_output(item),
            meta=_terminal_exit(item) if shows_terminal else None,
        )

    def _content(self, item: ToolItem) -> list[m.ToolCallContent] | None:
        """None where there is none: an empty list would be sent as well."""
        content: list[m.ToolCallContent] = []
        reason = reason_of(item)
        match item:
            case CommandExecution(output=output):
                if (own := self.terminals.get(item.id)) is not None or self.client.terminal_output:
                    content.append(m.Terminal(terminal_id=own or item.id))
                elif output:
                    content.append(_text(fenced(output)))
            case FileChange(changes=changes):
                content += [diff for change in changes for diff in diffs(change)]
            case McpToolCall(output=output, result=result) | ToolCall(output=output, result=result):
                if result is None:
                    content += [_text(output)] if output else []
                elif not reason:
                    content += [m.Content(content=block) for block in result_blocks(result)]
            case Artifact(path=path, title=title):
                content.append(m.Content(content=file_link(path, title)))
            case _:
                content += [m.Content(content=block) for block in result_blocks(item.result)] if not reason else []
        return [*content, _text(reason)] if reason else content or None

    def call_answered(self, item: ToolItem, event: ApprovalResolved, *, runs: bool) -> m.SessionUpdate:
        status = "in_progress" if runs else None
        return m.SessionToolCallUpdate(tool_call_id=item.id, status=status, meta=approval_end(event))

    # -- the rest

    def settings_changed(self, change: Change) -> Iterator[m.SessionUpdate]:
        if mode_of(change.before.settings) != mode_of(change.after.settings):
            yield m.SessionCurrentModeUpdate(current_mode_id=mode_of(change.after.settings))
        yield m.SessionConfigOptionUpdate(config_options=self._options(change.after))

    def session_info(self, state: ThreadState) -> m.SessionUpdate:
        return m.SessionSessionInfoUpdate(title=session_title(state), updated_at=iso_date(state.updated_at_ms))

    def usage(self, used: int, size: int, spent: m.Cost | None) -> m.SessionUpdate:
        return m.SessionUsageUpdate(used=used, size=size, cost=spent)

    def notice(self, severity: str, text: str) -> Iterator[m.SessionUpdate]:
        if self.client.notices:
            yield m.SessionNotice(severity=severity, title=text)


def _text(text: str) -> m.Content:
    return m.Content(content=m.TextContent(text=text))


def fenced(output: str) -> str:
    """As a code block of Markdown, whatever is in it.

    >>> fenced("one\\n")
    '```\\none\\n```'
    """
    fence = "```"
    while fence in output:
        fence += "`"
    return f"{fence}\n{output}{'' if output.endswith(chr(10)) else chr(10)}{fence}"


def plan_entries(item: Plan) -> tuple[PlanEntry, ...]:
    """A plan that is only text is one entry."""
    if item.entries or not item.text.strip():
        return item.entries
    return (PlanEntry(step=item.text.strip(), status="completed" if item.status == "completed" else "pending"),)


def _terminal_exit(item: ToolItem) -> dict[str, Json]:
    code = item.exit_code if isinstance(item, CommandExecution) else None
    return {"terminal_exit": {"terminal_id": item.id, "exit_code": code, "signal": None}}
