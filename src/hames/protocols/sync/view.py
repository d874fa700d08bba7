"""The state of a thread as sync shows it. Pure: the same thread and the same offer, the same state."""

from collections.abc import Iterable
from dataclasses import dataclass

from hames.domain import items
from hames.domain.cost import cost
from hames.domain.errors import HarnessError
from hames.domain.foreign import FOREIGN
from hames.domain.grants import always_covers, project_covers
from hames.domain.models import ModelCard, Price
from hames.domain.options import Selector
from hames.domain.state import ThreadState, ThreadStatus, Turn, thread_status
from hames.ports import Models
from hames.protocols.describe import intent_members, prompt_text
from hames.protocols.sync import messages as m
from hames.protocols.sync.turns import attachments, failure, layout, message


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


_STATUS: dict[ThreadStatus, m.RunStatus] = {
    "away": "idle",
    "idle": "idle",
    "running": "running",
    "asking": "running",
    "failed": "error",
}


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
    return _STATUS[thread_status(state)]


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
        updated_at=_last_change_ms(state),
        notice=FOREIGN if state.foreign else "",
        notes=tuple(file.path for file in state.notes),
    )


def _last_change_ms(state: ThreadState) -> int:
    if not state.turns:
        return state.created_at_ms
    last = state.turns[-1]
    return last.started_at_ms if last.ended_at_ms is None else last.ended_at_ms


def approvals_of(state: ThreadState) -> tuple[m.Approval, ...]:
    return tuple(
        m.Approval(
            id=approval.id,
            tool_call_id=approval.item_id,
            reason=approval.reason,
            always_covers=always_covers(approval.intent, cwd=state.settings.cwd),
            asked_at=approval.asked_at_ms,
            project_covers=project_covers(approval.offer),
            **intent_members(approval.intent),
        )
        for approval in state.approvals
    )


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
        m.QueuedPrompt(
            id=prompt.id, prompt=prompt_text(prompt.content), attachments=attachments(prompt.content), by=prompt.by
        )
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
