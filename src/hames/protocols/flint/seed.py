"""flint's own shape: the specification's members, and beside them what no client can mistake.

Members marked optional there are left out when there is nothing to say.
"""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from hames.domain import items as domain
from hames.domain import policy
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.commands import Standing, ThreadSummary
from hames.domain.events import ItemDelta, Noticed, TurnEnded, TurnError, UsageReported
from hames.domain.grants import always_covers
from hames.domain.ids import ThreadId
from hames.domain.items import Item, ItemStatus, reason_of
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.notes import NoteFile
from hames.domain.options import Selector, Settings
from hames.domain.servers import ServerStatus
from hames.domain.state import QueuedPrompt, ThreadState, Turn
from hames.domain.usage import Usage
from hames.protocols.dialect import Notify
from hames.protocols.flint import elicitation
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.protocols.flint.shape import About, Window
from hames.protocols.flint.wire import ItemStatusWord, Maybe, OutcomeWord, TurnStatusWord, present, spoken

DECISIONS: list[m.ApprovalWord] = ["accept", "acceptForSession", "decline", "cancel"]
ELICITATION_WORDS: list[m.ApprovalWord] = ["accept", "decline", "cancel"]

_ITEM_WORDS: dict[ItemStatus, ItemStatusWord] = {
    "running": "inProgress",
    "completed": "completed",
    "failed": "failed",
    "declined": "declined",
    "interrupted": "failed",  # the specification has no other word for it
    "skipped": "failed",
}
_OUTCOMES: dict[ItemStatus, OutcomeWord] = {"interrupted": "interrupted", "skipped": "skipped"}
STANDINGS: dict[Standing, m.ThreadStatus] = {
    "away": m.ThreadStatus(type="notLoaded"),
    "idle": m.ThreadStatus(type="idle"),
    "running": m.ThreadStatus(type="active", active_flags=[]),
    "asking": m.ThreadStatus(type="active", active_flags=["waitingOnApproval"]),
}
_TURN_WORDS: dict[str, TurnStatusWord] = {
    "running": "inProgress",
    "completed": "completed",
    "interrupted": "interrupted",
    "failed": "failed",
}


def decisions_about(covers: m.AlwaysCovers | None) -> list[m.ApprovalWord]:
    """For good is offered only where there is something to allow for good."""
    return [word for word in DECISIONS if covers or word != "acceptForSession"]


def covered(approval: Approval, cwd: str) -> m.AlwaysCovers | None:
    covers = always_covers(approval.intent, cwd=cwd)
    return covers and m.AlwaysCovers(text=covers.text, files=list(covers.files))


class Seed:
    """The shape that every client gets but Codex's own."""

    def __init__(self, about: About, window: Window) -> None:
        self._about = about
        self._window = window

    def spelled(self, thread_id: ThreadId) -> str:
        return thread_id

    def thread(self, state: ThreadState, *, turns: bool) -> m.Thread:
        return m.Thread(
            id=state.id,
            preview=state.preview or state.title,
            model_provider=provider_of(state.settings.model),
            created_at=state.created_at_ms // 1000,
            updated_at=state.updated_at_ms // 1000,
            name=state.title or None,
            session_id=state.id,
            model=state.settings.model,
            cwd=state.settings.cwd,
            cli_version=self._about.version,
            status=status(state),
            turns=[self.turn(turn) for turn in state.turns] if turns else [],
            forked_from_id=state.forked_from,
            archived=state.archived,
            foreign=state.foreign,
            instruction_sources=[file.path for file in state.notes],
            meta=state.meta,
        )

    def listed(self, summary: ThreadSummary) -> m.Thread:
        return m.Thread(
            id=summary.id,
            preview=summary.preview or summary.title,
            model_provider=provider_of(summary.model),
            created_at=summary.created_at_ms // 1000,
            updated_at=summary.updated_at_ms // 1000,
            name=summary.title or None,
            session_id=summary.id,
            model=summary.model,
            cwd=summary.cwd,
            cli_version=self._about.version,
            status=STANDINGS[summary.standing],
            archived=summary.archived,
            foreign=summary.foreign,
            meta=summary.meta,
        )

    def opened(self, state: ThreadState, *, turns: bool) -> m.ThreadOpened:
        return m.ThreadOpened(
            thread=self.thread(state, turns=turns),
            model_provider=provider_of(state.settings.model),
            model=state.settings.model,
            cwd=state.settings.cwd,
            approval_policy=state.settings.approval_policy,
            approvals_reviewer="user",
            sandbox=sandbox(state.settings.sandbox),
            token_usage=self._used(state, state.settings.model) if state.spent else UNSET,
        )

    def _used(self, state: ThreadState, model: str) -> m.TokenUsage:
        by_model = {name: _count(spent) for name, spent in state.spent.items()}
        return replace(token_usage(state, self._window(model)), by_model=by_model)

    def page(self, threads: Sequence[Json], next_cursor: str | None) -> m.ThreadListResult:
        return m.ThreadListResult(data=list(threads), next_cursor=spoken(next_cursor))

    def turn(self, turn: Turn) -> m.Turn:
        return m.Turn(
            id=turn.id,
            status=_TURN_WORDS[turn.status],
            items=[self.item(item) for item in turn.items],
            error=UNSET if turn.error is None else _error(turn.error),
            started_at=turn.started_at_ms // 1000,
            completed_at=None if turn.ended_at_ms is None else turn.ended_at_ms // 1000,
            duration_ms=None if turn.ended_at_ms is None else max(0, turn.ended_at_ms - turn.started_at_ms),
            meta=turn.meta,
        )

    def item(self, item: Item) -> wire.ThreadItem:
        match item:
            case domain.UserMessage():
                return wire.UserMessageItem(
                    id=item.id, content=self.inputs(item.content), client_id=item.client_id, meta=item.meta
                )
            case domain.AgentMessage():
                return wire.AgentMessageItem(id=item.id, text=item.text)
            case domain.Reasoning():
                return wire.ReasoningItem(id=item.id, summary=spoken(item.summary), content=spoken(item.text))
            case domain.CommandExecution():
                return _command(item)
            case domain.FileChange():
                changes = [file_update(change) for change in item.changes]
                return wire.FileChangeItem(
                    id=item.id, changes=changes, status=_ITEM_WORDS[item.status], **_ending(item)
                )
            case domain.McpToolCall():
                return _mcp(item)
            case domain.WebSearch():
                return wire.WebSearchItem(
                    id=item.id, query=item.query, status=_ITEM_WORDS[item.status], **_ending(item)
                )
            case domain.Plan():
                return wire.PlanItem(id=item.id, text=item.text, entries=self.plan(item) or UNSET)
            case domain.ToolCall():
                return wire.ToolCallItem(
                    id=item.id,
                    name=item.name,
                    status=_ITEM_WORDS[item.status],
                    arguments=present(item.arguments),
                    result=said(item),
                    **_ending(item),
                )
            case domain.Artifact():
                return wire.ArtifactItem(
                    id=item.id,
                    path=item.path,
                    status=_ITEM_WORDS[item.status],
                    title=spoken(item.title),
                    media_type=spoken(item.media_type),
                    **_ending(item),
                )
            case domain.Compaction():
                return wire.ContextCompactionItem(
                    id=item.id, status=_ITEM_WORDS[item.status], summary=spoken(item.summary)
                )
            case _ as never:
                assert_never(never)

    def inputs(self, content: Sequence[domain.UserInput]) -> list[wire.UserInput]:
        return [_input(part) for part in content]

    def plan(self, plan: domain.Plan) -> list[wire.PlanEntry]:
        return [wire.PlanEntry(step=entry.step, status=entry.status) for entry in plan.entries]

    def settings(self, settings: Settings) -> m.ThreadSettings:
        return m.ThreadSettings(
            model=settings.model,
            model_provider=provider_of(settings.model),
            cwd=settings.cwd,
            approval_policy=settings.approval_policy,
            sandbox_policy=sandbox(settings.sandbox),
            config={**settings.options, "agent": settings.agent},
        )

    def usage(self, state: ThreadState, event: UsageReported) -> m.TokenUsageUpdated:
        turn = state.turn(event.turn_id)
        spent = event.usage if turn is None else turn.usage
        return m.TokenUsageUpdated(
            thread_id=state.id,
            turn_id=event.turn_id,
            usage=m.Usage(
                input_tokens=spent.input_tokens,
                output_tokens=spent.output_tokens,
                thinking_tokens=spent.thinking_tokens,
                cache_read_tokens=spent.cache_read_tokens,
                cache_write_tokens=spent.cache_write_tokens,
            ),
            token_usage=self._used(state, event.model),
        )

    def ask(self, state: ThreadState, approval: Approval, at_ms: int) -> tuple[str, Json]:
        where = {"thread_id": state.id, "turn_id": approval.turn_id, "item_id": approval.item_id}
        reason = spoken(approval.reason)
        covers = covered(approval, state.settings.cwd)
        match approval.intent:
            case RunCommand(command=command, cwd=cwd):
                return "item/commandExecution/requestApproval", m.CommandApprovalParams(
                    **where,
                    command=command,
                    cwd=cwd,
                    started_at_ms=at_ms,
                    command_actions=[wire.CommandAction(type="unknown", command=command)],
                    available_decisions=decisions_about(covers),
                    always_covers=covers,
                    reason=reason,
                )
            case ChangeFiles(changes=changes):
                return "item/fileChange/requestApproval", m.FileChangeApprovalParams(
                    **where,
                    changes=[file_update(change) for change in changes],
                    started_at_ms=at_ms,
                    available_decisions=decisions_about(covers),
                    always_covers=covers,
                    reason=reason,
                )
            case CallMcp(server=server, tool=tool, arguments=arguments):
                return "item/mcpToolCall/requestApproval", m.McpApprovalParams(
                    **where,
                    server=server,
                    tool=tool,
                    arguments=arguments,
                    started_at_ms=at_ms,
                    available_decisions=decisions_about(covers),
                    always_covers=covers,
                    reason=reason,
                )
            case UseTool(name=name, arguments=arguments):
                return "item/toolCall/requestApproval", m.ToolApprovalParams(
                    **where,
                    name=name,
                    arguments=arguments,
                    started_at_ms=at_ms,
                    available_decisions=decisions_about(covers),
                    always_covers=covers,
                    reason=reason,
                )
            case Elicit(server=server, message=message, schema=schema, url=url):
                return elicitation.METHOD, m.ElicitationParams(
                    **where,
                    server_name=server,
                    mode="url" if url else "form",
                    message=message,
                    requested_schema=UNSET if url else schema,
                    url=spoken(url),
                    elicitation_id=approval.id if url else UNSET,
                    started_at_ms=at_ms,
                    available_decisions=ELICITATION_WORDS,
                    reason=reason,
                )
            case _ as never:
                assert_never(never)

    def delta(self, thread_id: ThreadId, event: ItemDelta, item: Item) -> Notify | None:
        method = _DELTAS.get((type(item), event.stream))
        if method is None:
            return None
        told = m.Delta(thread_id=thread_id, turn_id=event.turn_id, item_id=event.item_id, delta=event.text)
        return Notify(method=method, params=told)

    def models(self, cards: Sequence[ModelCard], selectors: Sequence[Selector], default: str) -> m.ModelListResult:
        return m.ModelListResult(data=[model(card, selectors, default) for card in cards])

    def queue(self, state: ThreadState) -> m.ThreadQueueChanged:
        waiting = [self.queued(prompt) for prompt in state.queue]
        return m.ThreadQueueChanged(thread_id=state.id, queue=waiting, held=state.queue_held)

    def queued(self, prompt: QueuedPrompt) -> m.QueuedPrompt:
        return m.QueuedPrompt(id=prompt.id, input=self.inputs(prompt.content), meta=prompt.meta)

    def notices(self, thread_id: ThreadId, event: Noticed) -> list[Notify]:
        told = m.Notice(
            thread_id=thread_id,
            message=event.message,
            severity=event.severity,
            turn_id=present(event.turn_id),
            data=present(event.data),
        )
        return [Notify(method=f"{event.source}/{event.name}", params=told)]

    def notes(self, thread_id: ThreadId, files: Sequence[NoteFile]) -> list[Notify]:
        told = m.InstructionSources(thread_id=thread_id, instruction_sources=[file.path for file in files])
        return [Notify(method="thread/instructionSources/updated", params=told)]

    def failure(self, thread_id: ThreadId, event: TurnEnded) -> list[Notify]:  # noqa: ARG002
        return []  # `turn/completed` carries the error


_DELTAS: dict[tuple[type[Item], str], str] = {
    (domain.AgentMessage, "text"): "item/agentMessage/delta",
    (domain.Reasoning, "text"): "item/reasoning/textDelta",
    (domain.Reasoning, "summary"): "item/reasoning/summaryTextDelta",
    (domain.CommandExecution, "output"): "item/commandExecution/outputDelta",
    (domain.FileChange, "output"): "item/fileChange/outputDelta",
    (domain.McpToolCall, "output"): "item/mcpToolCall/outputDelta",
    (domain.Plan, "text"): "item/plan/delta",
    (domain.ToolCall, "output"): "item/toolCall/outputDelta",
    (domain.Compaction, "summary"): "item/contextCompaction/delta",
}


def provider_of(name: str) -> str:
    """The provider in `provider/model`."""
    return name.partition("/")[0]


def status(state: ThreadState) -> m.ThreadStatus:
    return STANDINGS[state.standing]


def sandbox(given: policy.SandboxPolicy) -> m.SandboxPolicy:
    match given:
        case policy.DangerFullAccess():
            return m.DangerFullAccess()
        case policy.ReadOnly():
            return m.ReadOnly()
        case policy.WorkspaceWrite(writable_roots=roots, network_access=network):
            return m.WorkspaceWrite(writable_roots=list(roots), network_access=network)
        case policy.ExternalSandbox(network_access=network):
            return m.ExternalSandbox(network_access=network)
        case _ as never:
            assert_never(never)


def server_status(server: ServerStatus) -> m.McpServerStatus:
    tools = {
        tool.name: m.McpTool(name=tool.name, description=tool.description, input_schema=tool.schema)
        for tool in server.tools
    }
    return m.McpServerStatus(name=server.name, status=server.state, tools=tools, error=server.reason or None)


def file_update(change: domain.FileUpdate) -> wire.FileUpdateChange:
    return wire.FileUpdateChange(path=change.path, kind=change.kind, diff=change.diff)


def token_usage(state: ThreadState, window: int | None) -> m.TokenUsage:
    return m.TokenUsage(total=_count(state.usage), last=_count(state.last_usage), model_context_window=window)


def model(card: ModelCard, selectors: Sequence[Selector], default: str) -> m.Model:
    effort = next((s for s in selectors if s.id == "reasoning_effort" and (not s.models or card.id in s.models)), None)
    details: dict[str, Json] = {
        "provider": card.provider,
        "contextWindow": card.context_window,
        "maxOutput": card.max_output,
        "tools": card.tools,
        "images": card.images,
        "reasoning": card.reasoning,
        "webSearch": card.web_search,
    }
    if card.price is not None:
        details["price"] = {
            "input": card.price.input,
            "output": card.price.output,
            "cacheRead": card.price.cache_read,
            "cacheWrite": card.price.cache_write,
        }
    if card.successor:
        details["successor"] = card.successor
    if not card.usable:
        details["usable"] = False
    return m.Model(
        id=card.id,
        model=card.id,
        display_name=card.display_name,
        description=spoken(card.description),
        is_default=card.id == default,
        hidden=bool(card.successor),
        default_reasoning_effort=effort.default if effort else "none",
        supported_reasoning_efforts=[
            m.ReasoningEffort(reasoning_effort=choice.id, description=choice.description or choice.name)
            for choice in (effort.choices if effort else ())
        ],
        input_modalities=["text", "image"] if card.images else ["text"],
        details=details,
    )


def said(item: domain.ToolCall | domain.McpToolCall | domain.Artifact) -> str | Maybe:
    """What came of a call, once something did."""
    return UNSET if item.result is None else item.result.text


def mcp_status(item: domain.McpToolCall) -> Literal["inProgress", "completed", "failed"]:
    return "inProgress" if item.status == "running" else "completed" if item.status == "completed" else "failed"


def mcp_result(item: domain.McpToolCall) -> Json:
    """As the server gave it: blocks for people, and data when there is some."""
    text = item.output if item.result is None else item.result.text
    return {"content": [{"type": "text", "text": text}], "structuredContent": item.structured}


def why_failed(item: domain.McpToolCall) -> str:
    return reason_of(item) or item.status


def _ending(item: Item) -> dict[str, Json]:
    """What tells people how a tool ended, where its status does not tell all."""
    return {"reason": spoken(reason_of(item)), "outcome": _OUTCOMES.get(item.status, UNSET)}


def _command(item: domain.CommandExecution) -> wire.CommandExecutionItem:
    ended = item.status not in ("running", "declined")
    return wire.CommandExecutionItem(
        id=item.id,
        command=item.command,
        cwd=item.cwd,
        status=_ITEM_WORDS[item.status],
        command_actions=[wire.CommandAction(type="unknown", command=item.command)],
        exit_code=present(item.exit_code),
        aggregated_output=item.output if ended or item.output else UNSET,
        duration_ms=present(item.duration_ms),
        **_ending(item),
    )


def _mcp(item: domain.McpToolCall) -> wire.McpToolCallItem:
    word = mcp_status(item)
    return wire.McpToolCallItem(
        id=item.id,
        server=item.server,
        tool=item.tool,
        status=word,
        arguments=present(item.arguments),
        result=mcp_result(item) if word == "completed" else UNSET,
        error=why_failed(item) if word == "failed" else UNSET,
        outcome=_OUTCOMES.get(item.status, UNSET),
    )


def _input(part: domain.UserInput) -> wire.UserInput:
    match part:
        case domain.TextInput(text=text):
            return wire.TextInput(text=text, meta=part.meta)
        case domain.ImageInput(url=url):
            return wire.ImageInput(url=url, meta=part.meta)
        case domain.LocalImageInput(path=path):
            return wire.LocalImageInput(path=path, meta=part.meta)
        case domain.FileInput(path=path):
            return wire.FileInput(path=path, meta=part.meta)
        case _ as never:
            assert_never(never)


def _error(error: TurnError) -> m.TurnError:
    return m.TurnError(message=error.message, error_info=error.info, http_status_code=present(error.http_status))


def _count(usage: Usage) -> m.TokenCount:
    """Codex counts what the cache gave as input, and says how much it was."""
    spent = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return m.TokenCount(
        total_tokens=spent + usage.output_tokens,
        input_tokens=spent,
        cached_input_tokens=usage.cache_read_tokens,
        cache_write_input_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
        reasoning_output_tokens=usage.thinking_tokens,
    )
