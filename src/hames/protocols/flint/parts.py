"""The parts that flint's answers and notifications are made of."""

from collections.abc import Sequence
from typing import Literal, assert_never

from msgspec import UNSET, convert

from hames.domain import items as domain
from hames.domain import policy
from hames.domain.approvals import Approval
from hames.domain.commands import Standing
from hames.domain.context_report import ContextReport
from hames.domain.events import TurnError
from hames.domain.grants import always_covers, project_covers
from hames.domain.items import Item, ItemStatus, reason_of
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.domain.processes import ProcessList, ProcessStatus
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState, Turn
from hames.domain.undo import UndoReport
from hames.domain.usage import Usage
from hames.domain.worktrees import WorktreeList, WorktreeReport
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.protocols.flint.wire import ItemStatusWord, Maybe, OutcomeWord, TurnStatusWord, text_or_unset, value_or_unset
from hames.protocols.flint.worktree_requests import worktree_answer

DECISIONS: list[m.ApprovalWord] = ["accept", "acceptForSession", "acceptForProject", "decline", "cancel"]
ELICITATION_WORDS: list[m.ApprovalWord] = ["accept", "decline", "cancel"]

ITEM_WORDS: dict[ItemStatus, ItemStatusWord] = {
    "running": "inProgress",
    "completed": "completed",
    "failed": "failed",
    "declined": "declined",
    "interrupted": "failed",  # the specification has no other word for it
    "skipped": "failed",
}
_OUTCOMES: dict[ItemStatus, OutcomeWord] = {"interrupted": "interrupted", "skipped": "skipped"}
THREAD_STATUS: dict[Standing, m.ThreadStatus] = {
    "away": m.ThreadStatus(type="notLoaded"),
    "idle": m.ThreadStatus(type="idle"),
    "running": m.ThreadStatus(type="active", active_flags=[]),
    "asking": m.ThreadStatus(type="active", active_flags=["waitingOnApproval"]),
}
TURN_WORDS: dict[str, TurnStatusWord] = {
    "running": "inProgress",
    "completed": "completed",
    "interrupted": "interrupted",
    "failed": "failed",
}


def decisions_for(covers: m.AlwaysCovers | None, project: m.AlwaysCovers | None = None) -> list[m.ApprovalWord]:
    """For good is offered only where there is something to allow for good."""
    missing = {"acceptForSession": covers is None, "acceptForProject": project is None}
    return [word for word in DECISIONS if not missing.get(word)]


def covered_in_project(approval: Approval) -> m.AlwaysCovers | None:
    covers = project_covers(approval.offer)
    return covers and m.AlwaysCovers(text=covers.text)


def covered_by_always(approval: Approval, cwd: str) -> m.AlwaysCovers | None:
    covers = always_covers(approval.intent, cwd=cwd)
    return covers and m.AlwaysCovers(text=covers.text, files=list(covers.files))


def provider_of(name: str) -> str:
    """The provider in `provider/model`."""
    return name.partition("/")[0]


def specified_policy(given: policy.ApprovalPolicy) -> m.SpecifiedApprovalPolicy:
    """The policy in the specification's words: the next stricter one for `onRequest`, which it does not have."""
    return "unlessTrusted" if given == "onRequest" else given


def approval_mode(given: policy.ApprovalPolicy) -> Literal["onRequest"] | Maybe:
    return given if given == "onRequest" else UNSET


def sandbox(given: policy.SandboxPolicy) -> m.SandboxPolicy:
    match given:
        case policy.DangerFullAccess():
            return m.DangerFullAccess()
        case policy.ReadOnly():
            return m.ReadOnly()
        case policy.WorkspaceWrite(writable_roots=roots, network_access=network, hosts=rules):
            hosts = UNSET if rules is None else m.NetworkRules(allow=list(rules.allow), deny=list(rules.deny))
            return m.WorkspaceWrite(writable_roots=list(roots), network_access=network, network=hosts)
        case policy.ExternalSandbox(network_access=network):
            return m.ExternalSandbox(network_access=network)
        case _ as never:
            assert_never(never)


def report(outcome: ProcessList | ContextReport | UndoReport | WorktreeList | WorktreeReport) -> Json:
    """The answer to a request about what a thread has running, or what it has told the model."""
    match outcome:
        case ProcessList(processes=processes):
            return m.ThreadProcesses(data=[background_process(one) for one in processes])
        case ContextReport():
            return context_answer(outcome)
        case WorktreeList() | WorktreeReport():
            return worktree_answer(outcome)
        case UndoReport():
            return convert(outcome, m.ThreadUndoResult, from_attributes=True)


def background_process(one: ProcessStatus) -> m.ThreadProcess:
    return m.ThreadProcess(
        process=one.number,
        command=one.command,
        cwd=one.cwd,
        terminal=one.terminal,
        status="running" if one.running else "ended",
        seconds=one.seconds,
        output_bytes=one.output_bytes,
        exit_code=one.exit_code,
    )


def server_status(server: ServerStatus) -> m.McpServerStatus:
    tools = {
        tool.name: m.McpTool(name=tool.name, description=tool.description, input_schema=tool.schema)
        for tool in server.tools
    }
    return m.McpServerStatus(name=server.name, status=server.state, tools=tools, error=server.reason or None)


def file_update(change: domain.FileUpdate) -> wire.FileUpdateChange:
    return wire.FileUpdateChange(path=change.path, kind=change.kind, diff=change.diff)


def token_usage(state: ThreadState, window: int | None) -> m.TokenUsage:
    return m.TokenUsage(total=token_count(state.usage), last=token_count(state.last_usage), model_context_window=window)


def model(card: ModelCard, selectors: Sequence[Selector], default: str) -> m.Model:
    effort = next((s for s in selectors if s.id == "reasoning_effort" and (not s.models or card.id in s.models)), None)
    # "default" leaves the effort to the model; it is an option, and no client knows it as an effort.
    efforts = [choice for choice in (effort.choices if effort else ()) if choice.id != "default"]
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
        description=text_or_unset(card.description),
        is_default=card.id == default,
        hidden=bool(card.successor),
        default_reasoning_effort=_default_effort(effort, [choice.id for choice in efforts]),
        supported_reasoning_efforts=[
            m.ReasoningEffort(reasoning_effort=choice.id, description=choice.description or choice.name)
            for choice in efforts
        ],
        input_modalities=["text", "image"] if card.images else ["text"],
        details=details,
    )


def _default_effort(selector: Selector | None, efforts: Sequence[str]) -> str:
    if selector is None or not efforts:
        return "none"
    if selector.default in efforts:
        return selector.default
    return "medium" if "medium" in efforts else efforts[0]


def result_text(item: domain.ToolCall | domain.McpToolCall | domain.Artifact) -> str | Maybe:
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


def ending_members(item: Item) -> dict[str, Json]:
    """What tells people how a tool ended, where its status does not tell all."""
    return {"reason": text_or_unset(reason_of(item)), "outcome": _OUTCOMES.get(item.status, UNSET)}


def command_item(item: domain.CommandExecution) -> wire.CommandExecutionItem:
    ended = item.status not in ("running", "declined")
    return wire.CommandExecutionItem(
        id=item.id,
        command=item.command,
        cwd=item.cwd,
        status=ITEM_WORDS[item.status],
        command_actions=[wire.CommandAction(type="unknown", command=item.command)],
        exit_code=value_or_unset(item.exit_code),
        aggregated_output=item.output if ended or item.output else UNSET,
        duration_ms=value_or_unset(item.duration_ms),
        **ending_members(item),
    )


def mcp_item(item: domain.McpToolCall) -> wire.McpToolCallItem:
    word = mcp_status(item)
    return wire.McpToolCallItem(
        id=item.id,
        server=item.server,
        tool=item.tool,
        status=word,
        arguments=value_or_unset(item.arguments),
        result=mcp_result(item) if word == "completed" else UNSET,
        error=why_failed(item) if word == "failed" else UNSET,
        outcome=_OUTCOMES.get(item.status, UNSET),
    )


def input_part(part: domain.UserInput) -> wire.UserInput:
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


def turn_error(error: TurnError) -> m.TurnError:
    return m.TurnError(message=error.message, error_info=error.info, http_status_code=value_or_unset(error.http_status))


def token_count(usage: Usage) -> m.TokenCount:
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


def citations(item: domain.AgentMessage) -> list[wire.CitationMember] | Maybe:
    if not item.citations:
        return UNSET
    return [
        wire.CitationMember(
            url=text_or_unset(cited.url),
            title=text_or_unset(cited.title),
            quote=text_or_unset(cited.quote),
            start=cited.start,
            end=cited.end,
        )
        for cited in item.citations
    ]


def context_answer(report: ContextReport) -> m.ThreadContext:
    parts = [m.ThreadContextPart(name=part.name, tokens=part.tokens, count=part.count) for part in report.parts]
    shortened = list(report.shortened)
    return m.ThreadContext(
        tokens=report.tokens,
        limit=report.limit,
        window=report.window,
        parts=parts,
        shortened=shortened,
        budgets=list(report.budgets),
    )


def answers(turn: Turn) -> list[m.AnsweredApproval] | Maybe:
    """Who answered what was asked in a turn."""
    found = [
        m.AnsweredApproval(item_id=one.item_id, decision=one.decision, by=one.by)
        for one in turn.answered
        if one.by is not None
    ]
    return found or UNSET
