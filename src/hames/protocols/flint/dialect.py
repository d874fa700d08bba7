"""How flint's clients are spoken to: the specification's members, and beside them what no client can mistake.

Members marked optional there are left out when there is nothing to say. Codex's own clients speak a dialect that
collides with flint in places: `codex/dialect.py` overrides what differs. Everything else in this package is written
once, against this class.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from msgspec import UNSET, convert
from msgspec.structs import replace

from hames.codecs.jsonrpc_peer import Params
from hames.domain import items as domain
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.commands import Command, ThreadSummary
from hames.domain.errors import HarnessError
from hames.domain.events import ApprovalResolved, ItemDelta, Noticed, ToolCalled, TurnEnded, UsageReported
from hames.domain.ids import ThreadId, TurnId
from hames.domain.items import Item
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector, Settings
from hames.domain.project_notes import NoteFile
from hames.domain.state import Change, QueuedPrompt, ThreadState, Turn, is_voided, summary
from hames.domain.value import Value
from hames.protocols.flint import elicitation, errors, inbound, parts
from hames.protocols.flint import items as wire
from hames.protocols.flint import messages as m
from hames.protocols.flint.wire import text_or_unset, value_or_unset
from hames.protocols.rpc_session import Notify


class About(Value):
    """What the agent says of itself."""

    version: str
    provider: str
    """Who serves the default model."""
    home: str
    """Where threads are kept."""


Window = Callable[[str], int | None]
"""How many tokens a model's context holds, by the model's name."""

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


class FlintDialect:
    """Pure. Where it returns None, the client is not told."""

    is_codex = False
    steers = False
    """Whether `turn/start` on a thread that runs a turn steers that turn."""
    reads_turns = True
    """Whether `thread/read` has the turns where the client does not say."""

    def __init__(self, about: About, window: Window) -> None:
        self._about = about
        self._window = window

    def decode(self, method: str, params: Params) -> Command | inbound.Local:
        """Raises `InvalidCommand`."""
        return inbound.decode(method, params)

    def own_ids(self, params: Params) -> Params:
        """With the thread's id as the engine writes it."""
        return params

    def error_code(self, error: HarnessError) -> int:
        return errors.code(error, errors.FLINT)

    def known_options(
        self,
        selectors: Sequence[Selector],  # noqa: ARG002
        model: Callable[[], str],  # noqa: ARG002
        wanted: Mapping[str, str],
    ) -> dict[str, str]:
        """The options of a request that are passed on. What nobody offers is refused later."""
        return dict(wanted)

    def config(self, settings: Settings, options: list[m.ConfigOption]) -> Json:
        """The answer to `config/read`."""
        return m.ConfigReadResult(
            model=settings.model,
            cwd=settings.cwd,
            approval_policy=parts.specified_policy(settings.approval_policy),
            sandbox_policy=parts.sandbox(settings.sandbox),
            options=options,
            approval_mode=parts.approval_mode(settings.approval_policy),
        )

    def thread_id(self, thread_id: ThreadId) -> str:
        """A thread's id as the client writes it."""
        return thread_id

    def thread(self, state: ThreadState, *, turns: bool) -> Json:
        return replace(
            self.listed_thread(summary(state)),
            status=parts.THREAD_STATUS[state.standing],
            turns=[self.turn(turn) for turn in self.shown_turns(state.turns)] if turns else [],
            forked_from_id=state.forked_from,
            instruction_sources=[file.path for file in state.notes],
        )

    def listed_thread(self, thread: ThreadSummary) -> Json:
        return m.Thread(
            id=thread.id,
            preview=thread.preview or thread.title,
            model_provider=parts.provider_of(thread.model),
            created_at=thread.created_at_ms // 1000,
            updated_at=thread.updated_at_ms // 1000,
            name=thread.title or None,
            session_id=thread.id,
            model=thread.model,
            cwd=thread.cwd,
            cli_version=self._about.version,
            status=parts.THREAD_STATUS[thread.standing],
            archived=thread.archived,
            foreign=thread.foreign,
            ephemeral=thread.ephemeral,
            meta=thread.meta,
        )

    def opened_thread(self, state: ThreadState, *, turns: bool) -> Json:
        """The answer to `thread/start`, `thread/resume` and `thread/fork`."""
        return m.ThreadOpened(
            thread=self.thread(state, turns=turns),
            model_provider=parts.provider_of(state.settings.model),
            model=state.settings.model,
            cwd=state.settings.cwd,
            approval_policy=parts.specified_policy(state.settings.approval_policy),
            approval_mode=parts.approval_mode(state.settings.approval_policy),
            approvals_reviewer="user",
            sandbox=parts.sandbox(state.settings.sandbox),
            token_usage=self._token_usage(state, state.settings.model) if state.spent else UNSET,
        )

    def _token_usage(self, state: ThreadState, model: str) -> m.TokenUsage:
        by_model = {name: parts.token_count(spent) for name, spent in state.spent.items()}
        return replace(parts.token_usage(state, self._window(model)), by_model=by_model)

    def page(self, threads: Sequence[Json], next_cursor: str | None) -> Json:
        return m.ThreadListResult(data=list(threads), next_cursor=text_or_unset(next_cursor))

    def turn(self, turn: Turn) -> Json:
        return m.Turn(
            id=turn.id,
            status=parts.TURN_WORDS[turn.status],
            items=self.turn_items(turn),
            error=UNSET if turn.error is None else parts.turn_error(turn.error),
            started_at=turn.started_at_ms // 1000,
            completed_at=None if turn.ended_at_ms is None else turn.ended_at_ms // 1000,
            duration_ms=turn.duration_ms,
            interrupted_by=turn.ended_by or UNSET,
            answers=parts.answers(turn),
            undone=list(turn.undone) or UNSET,
            meta=turn.meta,
        )

    def begun_turn(self, turn: Turn) -> Json:
        """In the answer that starts a turn: its items are told one by one, and each only once."""
        return self.turn(replace(turn, items=()))

    def told_turn(self, turn: Turn) -> Json:
        """As `turn/started` and `turn/completed` have it."""
        return self.turn(turn)

    def turn_items(self, turn: Turn) -> list[Json]:
        """What history shows of a turn."""
        return [
            replace(shown, voided=True) if is_voided(turn, item) else shown
            for item, shown in zip(turn.items, map(self.item, turn.items), strict=True)
        ]

    def item(self, item: Item) -> Json:
        match item:
            case domain.UserMessage():
                content, by = self.inputs(item.content), item.by or UNSET
                return wire.UserMessageItem(
                    id=item.id, content=content, client_id=item.client_id, by=by, meta=item.meta
                )
            case domain.AgentMessage():
                return wire.AgentMessageItem(id=item.id, text=item.text, citations=parts.citations(item))
            case domain.Reasoning():
                return wire.ReasoningItem(
                    id=item.id, summary=text_or_unset(item.summary), content=text_or_unset(item.text)
                )
            case domain.CommandExecution():
                return parts.command_item(item)
            case domain.FileChange():
                changes = [parts.file_update(change) for change in item.changes]
                return wire.FileChangeItem(
                    id=item.id, changes=changes, status=parts.ITEM_WORDS[item.status], **parts.ending_members(item)
                )
            case domain.McpToolCall():
                return parts.mcp_item(item)
            case domain.WebSearch():
                return wire.WebSearchItem(
                    id=item.id, query=item.query, status=parts.ITEM_WORDS[item.status], **parts.ending_members(item)
                )
            case domain.Plan():
                return wire.PlanItem(id=item.id, text=item.text, entries=self.plan(item) or UNSET)
            case domain.ToolCall():
                return wire.ToolCallItem(
                    id=item.id,
                    name=item.name,
                    status=parts.ITEM_WORDS[item.status],
                    arguments=value_or_unset(item.arguments),
                    result=parts.result_text(item),
                    **parts.ending_members(item),
                )
            case domain.Artifact():
                return wire.ArtifactItem(
                    id=item.id,
                    path=item.path,
                    status=parts.ITEM_WORDS[item.status],
                    title=text_or_unset(item.title),
                    media_type=text_or_unset(item.media_type),
                    **parts.ending_members(item),
                )
            case domain.Compaction():
                return wire.ContextCompactionItem(
                    id=item.id, status=parts.ITEM_WORDS[item.status], summary=text_or_unset(item.summary)
                )
            case _ as never:
                assert_never(never)

    def inputs(self, content: Sequence[domain.UserInput]) -> list[Json]:
        return [parts.input_part(part) for part in content]

    def plan(self, plan: domain.Plan) -> list[Json]:
        return [wire.PlanEntry(step=entry.step, status=entry.status) for entry in plan.entries]

    def settings(self, settings: Settings) -> Json:
        return m.ThreadSettings(
            model=settings.model,
            model_provider=parts.provider_of(settings.model),
            cwd=settings.cwd,
            approval_policy=parts.specified_policy(settings.approval_policy),
            approval_mode=parts.approval_mode(settings.approval_policy),
            sandbox_policy=parts.sandbox(settings.sandbox),
            config={**settings.options, "agent": settings.agent},
        )

    def usage(self, state: ThreadState, event: UsageReported) -> Json:
        turn = state.turn(event.turn_id)
        spent = event.usage if turn is None else turn.usage
        return m.TokenUsageUpdated(
            thread_id=state.id,
            turn_id=event.turn_id,
            usage=convert(spent, m.Usage, from_attributes=True),
            token_usage=self._token_usage(state, event.model),
        )

    def settled(self, thread_id: str, resolved: ApprovalResolved) -> m.ServerRequestResolved:
        """What is said of a question that is closed."""
        ended = UNSET if resolved.how == "answered" else resolved.how
        return m.ServerRequestResolved(thread_id=thread_id, request_id=resolved.approval_id, ended=ended)

    def ask(self, state: ThreadState, approval: Approval, at_ms: int) -> tuple[str, Json]:
        """Method and parameters of the request."""
        covers = parts.covered_by_always(approval, state.settings.cwd)
        where: dict[str, Json] = {
            "thread_id": state.id,
            "turn_id": approval.turn_id,
            "item_id": approval.item_id,
            "started_at_ms": at_ms,
            "reason": text_or_unset(approval.reason),
        }
        project = parts.covered_in_project(approval)
        asked: dict[str, Json] = {
            **where,
            "available_decisions": parts.decisions_for(covers, project),
            "always_covers": covers,
            "project_covers": project,
        }
        match approval.intent:
            case RunCommand(command=command, cwd=cwd, connects_to=to):
                actions = [wire.CommandAction(type="unknown", command=command)]
                host = UNSET if to is None else str(to)
                params = m.CommandApprovalParams(**asked, command=command, cwd=cwd, command_actions=actions, host=host)
                return "item/commandExecution/requestApproval", params
            case ChangeFiles(changes=changes):
                shown = [parts.file_update(change) for change in changes]
                return "item/fileChange/requestApproval", m.FileChangeApprovalParams(**asked, changes=shown)
            case CallMcp(server=server, tool=tool, arguments=given):
                params = m.McpApprovalParams(**asked, server=server, tool=tool, arguments=given)
                return "item/mcpToolCall/requestApproval", params
            case UseTool(name=name, arguments=given):
                return "item/toolCall/requestApproval", m.ToolApprovalParams(**asked, name=name, arguments=given)
            case Elicit(server=server, message=message, schema=schema, url=url):
                return elicitation.METHOD, m.ElicitationParams(
                    **where,
                    server_name=server,
                    mode="url" if url else "form",
                    message=message,
                    requested_schema=UNSET if url else schema,
                    url=text_or_unset(url),
                    elicitation_id=approval.id if url else UNSET,
                    available_decisions=parts.ELICITATION_WORDS,
                )
            case _ as never:
                assert_never(never)

    def delta(self, thread_id: ThreadId, event: ItemDelta, item: Item) -> Notify | None:
        method = _DELTAS.get((type(item), event.stream))
        if method is None:
            return None
        told = m.Delta(thread_id=thread_id, turn_id=event.turn_id, item_id=event.item_id, delta=event.text)
        return Notify(method=method, params=told)

    def models(
        self, cards: Sequence[ModelCard], selectors: Sequence[Selector], default: str, next_cursor: str | None = None
    ) -> Json:
        data = [parts.model(card, selectors, default) for card in cards]
        return m.ModelListResult(data=data, next_cursor=text_or_unset(next_cursor))

    def queue(self, state: ThreadState) -> Json:
        waiting = [self.queued_prompt(prompt) for prompt in state.queue]
        return m.ThreadQueueChanged(thread_id=state.id, queue=waiting, held=state.queue_held)

    def queued_prompt(self, prompt: QueuedPrompt) -> m.QueuedPrompt:
        return m.QueuedPrompt(id=prompt.id, input=self.inputs(prompt.content), meta=prompt.meta)

    def notices(self, thread_id: ThreadId, event: Noticed) -> list[Notify]:
        told = m.Notice(
            thread_id=thread_id,
            message=event.message,
            severity=event.severity,
            turn_id=value_or_unset(event.turn_id),
            data=value_or_unset(event.data),
        )
        return [Notify(method=f"{event.source}/{event.name}", params=told)]

    def notes(self, thread_id: ThreadId, files: Sequence[NoteFile]) -> list[Notify]:
        told = m.InstructionSources(thread_id=thread_id, instruction_sources=[file.path for file in files])
        return [Notify(method="thread/instructionSources/updated", params=told)]

    def before_item(self, change: Change, turn_id: TurnId, item: Item) -> list[Notify]:  # noqa: ARG002
        """What is said before a new item."""
        return []

    def shown_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Those that a client is told of."""
        return turns

    def tool_call(self, change: Change, event: ToolCalled) -> list[Notify]:  # noqa: ARG002
        """What is said of a call before it runs."""
        return []  # told when it runs, as an item

    def after_item(self, change: Change, turn_id: TurnId, item: Item) -> list[Notify]:  # noqa: ARG002
        """What is said after a completed item."""
        return []

    def before_end(self, change: Change, event: TurnEnded) -> list[Notify]:  # noqa: ARG002
        """What is said of a turn before it is told as completed."""
        return []  # `turn/completed` carries the error
