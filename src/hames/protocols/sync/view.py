"""The state of a thread as sync shows it. Pure: the same thread and the same offer, the same state."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

from msgspec.structs import replace

from hames.domain import approvals, items
from hames.domain.cost import cost
from hames.domain.errors import HarnessError
from hames.domain.foreign import FOREIGN
from hames.domain.forms import members
from hames.domain.grants import always_covers
from hames.domain.models import ModelCard, Price
from hames.domain.options import Selector
from hames.domain.state import ThreadState, Turn
from hames.ports import Models
from hames.protocols.sync import messages as m
from hames.protocols.sync.turns import attachments, failure, layout, message, prompt_text


@dataclass(frozen=True)
class Offer:
    """What can be chosen, beside what the thread says. `listed` is told to every client as it stands."""

    models: Models
    listed: tuple[m.Model, ...] = ()

    def card(self, name: str) -> ModelCard | None:
        try:
            return self.models.find(name)
        except HarnessError:
            return None

    def price(self, name: str) -> Price | None:
        card = self.card(name)
        return card.price if card is not None else None

    def selectors(self, model: str) -> list[Selector]:
        return [selector for selector in self.models.selectors() if not selector.models or model in selector.models]


def listed_models(models: Models, agents: Iterable[str]) -> tuple[m.Model, ...]:
    """The models as clients are told of them. A provider that lacks something says what."""
    problems = dict.fromkeys(agents, "")
    found: list[m.Model] = []
    for card in models.cards():
        if card.successor:
            continue
        if card.provider not in problems:
            problems[card.provider] = _problem(models, card.id)
        problem = problems[card.provider]
        found.append(
            m.Model(
                id=card.id,
                name=card.display_name,
                provider=card.provider,
                description=card.description,
                context_window=card.context_window,
                images=card.images,
                reasoning=card.reasoning,
                available=not problem,
                problem=problem,
            )
        )
    return tuple(found)


def _problem(models: Models, name: str) -> str:
    try:
        models.provider(models.find(name))
    except HarnessError as why:
        return str(why) or "it cannot be used"
    return ""


def view(state: ThreadState, offer: Offer) -> m.State:
    error, info = error_of(state)
    return m.State(
        status=status_of(state),
        messages=tuple(shown for turn in state.turns for shown in turn_messages(state, turn)),
        error=error,
        error_info=info,
        thread=head_of(state),
        approvals=approvals_of(state),
        plan=plan_of(state),
        usage=usage_of(state, offer),
        queue=queue_of(state),
        queue_held=held_of(state),
        settings=settings_of(state),
        selectors=selectors_of(state, offer),
        models=offer.listed,
        notices=notices_of(state),
    )


def turn_messages(state: ThreadState, turn: Turn) -> list[m.Message]:
    drafts = layout(turn)
    return [message(turn, drafts, number, state.id, state.settings.cwd) for number in range(len(drafts))]


def status_of(state: ThreadState) -> m.RunStatus:
    if not state.turns:
        return "idle"
    if state.turns[-1].status == "running":
        return "running"
    return "error" if error_of(state)[0] else "idle"


def error_of(state: ThreadState) -> tuple[str, str]:
    return failure(state.turns[-1] if state.turns else None)


def head_of(state: ThreadState) -> m.ThreadHead:
    return m.ThreadHead(
        id=state.id,
        title=state.title,
        preview=state.preview,
        cwd=state.settings.cwd,
        model=state.settings.model,
        archived=state.archived,
        forked_from=state.forked_from or "",
        created_at=state.created_at_ms,
        updated_at=_moved(state),
        notice=FOREIGN if state.foreign else "",
        notes=tuple(file.path for file in state.notes),
    )


def _moved(state: ThreadState) -> int:
    if not state.turns:
        return state.created_at_ms
    last = state.turns[-1]
    return last.started_at_ms if last.ended_at_ms is None else last.ended_at_ms


def approvals_of(state: ThreadState) -> tuple[m.Approval, ...]:
    return tuple(
        replace(_approval(approval), always_covers=always_covers(approval.intent, cwd=state.settings.cwd))
        for approval in state.approvals
    )


def _approval(approval: approvals.Approval) -> m.Approval:
    name, item, reason = approval.id, approval.item_id, approval.reason
    match approval.intent:
        case approvals.RunCommand() as intent:
            return m.Approval(
                id=name,
                tool_call_id=item,
                kind="command",
                reason=reason,
                command=intent.command,
                cwd=intent.cwd,
                unsandboxed=intent.unsandboxed,
                why=intent.why,
            )
        case approvals.ChangeFiles(changes=changes, protected=protected):
            return m.Approval(
                id=name, tool_call_id=item, kind="file", reason=reason, changes=changes, protected=protected
            )
        case approvals.CallMcp(server=server, tool=tool, arguments=given):
            return m.Approval(
                id=name, tool_call_id=item, kind="mcp", reason=reason, server=server, tool=tool, input=given
            )
        case approvals.UseTool(name=tool, arguments=given):
            return m.Approval(id=name, tool_call_id=item, kind="tool", reason=reason, tool=tool, input=given)
        case approvals.Elicit(server=server) as asked:
            return m.Approval(
                id=name, tool_call_id=item, kind="elicitation", reason=reason, server=server, input=members(asked)
            )
        case _ as never:
            assert_never(never)


def plan_of(state: ThreadState) -> m.Plan | None:
    return next((plan for turn in reversed(state.turns) if (plan := plan_of_turn(turn))), None)


def plan_of_turn(turn: Turn) -> m.Plan | None:
    for item in reversed(turn.items):
        if isinstance(item, items.Plan):
            return m.Plan(explanation=item.text, entries=item.entries)
    return None


def usage_of(state: ThreadState, offer: Offer) -> m.Usage:
    spent = state.usage
    card = offer.card(state.settings.model)
    return m.Usage(
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        thinking_tokens=spent.thinking_tokens,
        cache_read_tokens=spent.cache_read_tokens,
        cache_write_tokens=spent.cache_write_tokens,
        context_tokens=state.last_usage.context_tokens,
        context_window=card.context_window if card else 0,
        cost=cost(state.spent, offer.price),
    )


def queue_of(state: ThreadState) -> tuple[m.QueuedPrompt, ...]:
    return tuple(
        m.QueuedPrompt(id=prompt.id, prompt=prompt_text(prompt.content), attachments=attachments(prompt.content))
        for prompt in state.queue
    )


def notices_of(state: ThreadState) -> tuple[m.Notice, ...]:
    return tuple(
        m.Notice(
            severity=warned.notice.severity,
            source=warned.notice.source,
            name=warned.notice.name,
            message=warned.notice.message,
            turn_id=warned.notice.turn_id or "",
            at=warned.at_ms,
        )
        for warned in state.warnings
    )


def held_of(state: ThreadState) -> bool:
    return state.queue_held and bool(state.queue)


def settings_of(state: ThreadState) -> m.Settings:
    settings = state.settings
    return m.Settings(
        model=settings.model,
        approval_policy=settings.approval_policy,
        sandbox=settings.sandbox,
        agent=settings.agent,
        options=settings.options,
    )


def selectors_of(state: ThreadState, offer: Offer) -> tuple[m.ConfigOption, ...]:
    chosen = state.settings.options
    return tuple(
        m.ConfigOption(
            id=selector.id,
            name=selector.name,
            description=selector.description,
            group=selector.group,
            default=selector.default,
            value=chosen.get(selector.id, selector.default),
            choices=tuple(m.Choice(id=c.id, name=c.name, description=c.description) for c in selector.choices),
        )
        for selector in offer.selectors(state.settings.model)
    )
