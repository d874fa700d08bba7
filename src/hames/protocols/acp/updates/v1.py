"""Session updates of ACP v1, and its answers: what v1 says in another way than v2.

In v1 a list of a tool call is sent as a whole every time. Output of a running tool is therefore sent again when it
has doubled, so that a long one costs no more than twice its size; clients that understand streamed output in
`_meta`, as Zed does, get every piece at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from hames.domain.approvals import Approval
from hames.domain.events import ItemDelta
from hames.domain.items import CommandExecution, FileUpdate, ItemStatus, McpToolCall, ToolCall, ToolItem, UserMessage
from hames.domain.json import Json
from hames.domain.state import Change, ThreadState
from hames.protocols.acp.content import text_content, user_blocks
from hames.protocols.acp.listing import cursor
from hames.protocols.acp.messages import v1 as m
from hames.protocols.acp.options import MODES, Option, mode_of
from hames.protocols.acp.outbound import COMMANDS, METHODS, Outbound
from hames.protocols.acp.permissions import permission_changes, permission_options
from hames.protocols.acp.tool_calls import diffs
from hames.protocols.describe import approval_reason


class OutboundV1(Outbound):
    version = 1
    methods = METHODS | {"authenticate", "logout", "session/load", "session/set_mode"}
    statuses: ClassVar[Mapping[ItemStatus, Json]] = {
        "running": "in_progress",
        "completed": "completed",
        "failed": "failed",
        "declined": "failed",
        "interrupted": "failed",
        "skipped": "failed",
    }
    entry_statuses: ClassVar[Mapping[str, Json]] = {
        "pending": "pending",
        "inProgress": "in_progress",
        "completed": "completed",
        "failed": "completed",
    }
    new_call = m.SessionToolCall
    no_content = None

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
            "authMethods": self.sign_ins(),
        }

    def sign_in(self, name: str, title: str, words: str, args: list[str] | None = None) -> m.AuthMethod:
        return m.AuthMethod(id=name, name=title, description=words, type="terminal" if args else None, args=args)

    # -- a session

    def opened(self, state: ThreadState, *, is_new: bool) -> Json:
        modes = m.SessionModeState(
            current_mode_id=mode_of(state.settings),
            available_modes=[m.SessionMode(id=one.id, name=one.name, description=one.description) for one in MODES],
        )
        options, meta = self.options(state), cursor(state.seq)
        if is_new:
            return m.NewSessionResponse(session_id=state.id, modes=modes, config_options=options, meta=meta)
        return m.LoadSessionResponse(modes=modes, config_options=options, meta=meta)

    def after_opened(self, _state: ThreadState, /) -> Iterator[m.SessionUpdate]:
        commands = [
            m.AvailableCommand(name=name, description=words, input=m.AvailableCommandInput(hint=hint) if hint else None)
            for name, (words, hint) in COMMANDS.items()
        ]
        yield m.SessionAvailableCommandsUpdate(available_commands=commands)

    def option(self, option: Option, choices: list[m.SessionConfigSelectOption]) -> m.SessionConfigOption:
        return m.SessionConfigOption(
            id=option.id,
            name=option.name,
            description=option.description or None,
            category=option.category,
            type="select",
            current_value=option.current,
            options=choices,
        )

    def permission(self, state: ThreadState, approval: Approval) -> Json:
        content = self.diffs(permission_changes(approval))
        if reason := approval_reason(approval):
            content.append(text_content(reason))
        call = self.call_to_permit(state, approval, content)
        return m.RequestPermissionRequest(session_id=state.id, tool_call=call, options=permission_options(approval))

    def settings_changed(self, change: Change) -> Iterator[m.SessionUpdate]:
        if mode_of(change.before.settings) != mode_of(change.after.settings):
            yield m.SessionCurrentModeUpdate(current_mode_id=mode_of(change.after.settings))
        yield from super().settings_changed(change)

    # -- what is said

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

    def whole_plan(self, entries: list[m.PlanEntry]) -> m.SessionPlan:
        return m.SessionPlan(entries=entries)

    # -- tools

    def output_delta(
        self, item: CommandExecution | McpToolCall | ToolCall, event: ItemDelta, before: ThreadState
    ) -> Sequence[m.SessionUpdate]:
        if isinstance(item, CommandExecution):
            if item.id in self.terminals:
                return ()  # the client shows its own terminal
            if self.client.terminal_output:
                meta = {"terminal_output": {"terminal_id": item.id, "data": event.text}}
                return [m.SessionToolCallUpdate(tool_call_id=item.id, meta=meta)]
        known = before.item(item.id)
        length = len(known.output) if isinstance(known, CommandExecution | McpToolCall | ToolCall) else 0
        if length.bit_length() == len(item.output).bit_length():
            return ()
        return [m.SessionToolCallUpdate(tool_call_id=item.id, content=self.content(item) or None)]

    def own_terminal(self, item_id: str, terminal: str) -> Iterator[m.SessionUpdate]:
        """The command runs in this terminal of the client's."""
        yield m.SessionToolCallUpdate(tool_call_id=item_id, content=[m.Terminal(terminal_id=terminal)])

    def call_meta(self, item: ToolItem, /, *, is_new: bool, is_open: bool) -> dict[str, Json] | None:
        if not isinstance(item, CommandExecution) or not self.client.terminal_output:
            return None
        meta: dict[str, Json] = {}
        if is_new:
            meta["terminal_info"] = {"terminal_id": item.id, "cwd": item.cwd}
        if is_new and item.output:
            meta["terminal_output"] = {"terminal_id": item.id, "data": item.output}
        if not is_open:
            meta["terminal_exit"] = {"terminal_id": item.id, "exit_code": item.exit_code, "signal": None}
        return meta

    def command_content(self, item: CommandExecution) -> list[Json]:
        if (own := self.terminals.get(item.id)) is not None or self.client.terminal_output:
            return [m.Terminal(terminal_id=own or item.id)]
        return [text_content(fenced(item.output))] if item.output else []

    def diffs(self, changes: tuple[FileUpdate, ...]) -> list[Json]:
        return [diff for change in changes for diff in diffs(change)]


def fenced(output: str) -> str:
    """As a code block of Markdown, whatever is in it.

    >>> fenced("one\\n")
    '```\\none\\n```'
    """
    fence = "```"
    while fence in output:
        fence += "`"
    return f"{fence}\n{output}{'' if output.endswith(chr(10)) else chr(10)}{fence}"
