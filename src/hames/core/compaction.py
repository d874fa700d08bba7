"""Compaction: a conversation is shortened in steps until the next request fits the window. The log keeps everything.

First old tool results are cleared; then the model writes a summary and goes on from it; then long texts are cut. No
step needs more room than there is: the request for the summary is shortened in the same way until it fits.
"""

import logging
from contextlib import aclosing

import anyio
from msgspec.structs import replace

from hames.core.context import messages
from hames.core.kept_facts import user_text
from hames.core.shortening import cut
from hames.core.token_estimate import default_limit, messages_size
from hames.core.turn import LoopTurn
from hames.domain.errors import BudgetReached, ProviderError
from hames.domain.events import ContextAdded, ContextTrimmed, ItemCompleted, Noticed, UsageReported
from hames.domain.items import AgentMessage, CommandExecution, Compaction, Item, UserMessage
from hames.domain.request import Message, ModelRequest, TextBlock, TextDelta, UsageSeen
from hames.domain.situation import describe
from hames.domain.state import ThreadState
from hames.domain.usage import Usage

log = logging.getLogger(__name__)

SUMMARY_TOKENS = 4096
SUMMARY_CHARS = 1 << 20
"""Beyond what that many tokens can be: a service that says more does not stop by itself."""
RESULTS_KEPT = 5
"""How many of the latest tool results stay whole when old ones are cleared."""
NEARLY_FULL = (0.85, 0.97)
"""Between these parts of the limit the model is told, so that it can write down what it will need. Beyond, the words
themselves would be too much."""
ENOUGH = 0.6
"""Clearing old results suffices if it brings the context below this part of the limit. Otherwise it would be needed
again a few steps later, and each time the service's cache of the conversation is lost."""
HARDER = ((RESULTS_KEPT, 16_000), (3, 6_000), (1, 2_000), (0, 600))
"""How many tool results stay, and how long a text may be, when that is not enough."""
WORTH_IT = 0.8
"""The conversation is dropped only if that leaves less than this part of it."""
MINIMAL_EXTRACTS = 12
LEAST_TOKENS = 2_000
SUMMARY_STEPS = 3
"""A conversation is summarised again only after so many steps; until then texts are cut."""
ASK = TextBlock(
    text="The conversation is getting too long for your context window. Write a summary that lets you go on without"
    " the rest of it: what was decided and why; which files were read and what matters in them; which commands were run"
    " and what they showed; what is done, and what comes next; questions that are still open, in their exact words."
    " You will keep, word for word, what the user said, your last plan and the diffs of the files you changed: do not"
    " repeat them. Answer with the summary alone."
)


def limit(turn: LoopTurn) -> int:
    """How many tokens a request may have before room is made."""
    # Not below what can be reached: the system prompt and the tools are always there.
    least = turn.gauge.fixed_chars / turn.gauge.chars_per_token + LEAST_TOKENS
    tokens = max(turn.compact_at or default_limit(turn.card), int(least))
    refused = turn.gauge.refused_at
    return tokens if refused is None else min(tokens, int(refused * 0.8))


def due(turn: LoopTurn) -> bool:
    """Whether the next request is estimated to be too long. Room is made once for each step at most."""
    if turn.made_room_at == turn.step:
        return False
    return _tokens(turn, turn.handle.state, last=True) > limit(turn)


def nearly_due(turn: LoopTurn) -> str:
    """What to tell the model when its context is about to be shortened; empty: nothing. It is told once each time."""
    if not turn.compacts or turn.gauge.told_nearly_full:
        return ""
    used, most = _tokens(turn, turn.handle.state, last=True), limit(turn)
    if not most * NEARLY_FULL[0] <= used <= most * NEARLY_FULL[1]:
        return ""
    turn.gauge.told_nearly_full = True
    return (
        f"This conversation has about {used:,} tokens. From {most:,} on, old tool results are no longer shown to you,"
        " and then it is summarised. If you found something that you will need, say it or put it into your plan now."
    )


async def make_room(turn: LoopTurn, *, refused: bool = False) -> bool:
    """Shows the model less of its past. False if there is nothing left that could be left out.

    `refused`: the service said that the last request was too long.
    """
    if refused:
        turn.gauge.refused(messages(turn.handle.state, turn.memory))
    turn.made_room_at = turn.step
    turn.gauge.told_nearly_full = False
    before = _tokens(turn, turn.handle.state, last=not refused)
    cleared = _trimmed(turn, RESULTS_KEPT, 0)
    if _shortens(turn, cleared) and _tokens(turn, cleared) <= limit(turn) * ENOUGH:
        await _trim(turn, cleared, before, "old tool results are no longer shown to the model")
        return True
    latest = _latest_compaction(turn)
    again = latest is None or turn.step - latest.step >= SUMMARY_STEPS
    summarised = again and await compact(turn)
    if summarised and _tokens(turn, turn.handle.state) <= limit(turn):
        return True
    for results, chars in HARDER:
        state = _trimmed(turn, results, chars)
        if _shortens(turn, state) and ((results, chars) == HARDER[-1] or _tokens(turn, state) <= limit(turn)):
            words = f"of old texts only the first and last characters are shown to the model, {chars:,} of each"
            await _trim(turn, state, before, words)
            return True
    # Sizes are estimates, and a summary made it shorter in any case: the service decides.
    return await _drop_history(turn) or summarised


async def compact(turn: LoopTurn) -> bool:
    """True if there is now a summary to go on from. Failing is no disaster: the conversation stays as it is."""
    if len(messages(turn.handle.state, turn.memory)) < 2:
        return False
    item = Compaction(id=turn.handle.new_item_id(), step=turn.step, kept_chars=_kept_chars(turn))
    await turn.handle.start(item)
    spent, text = list[Usage](), ""
    for history in _histories(turn):
        try:
            text = await _summary(turn, item, history, spent)
            break
        except (anyio.get_cancelled_exc_class(), BudgetReached):
            if spent:
                with anyio.CancelScope(shield=True):
                    await turn.handle.emit(_usage(turn, spent))
            raise
        except ProviderError as failure:
            if failure.info != "ContextWindowExceeded":
                break
    done = replace(item, status="completed" if text.strip() else "failed", summary=text)
    # The count of tokens comes first: it is of a conversation that is over with the summary.
    await turn.handle.emit(_usage(turn, spent), ItemCompleted(turn_id=turn.turn_id, item=done))
    if done.status != "completed":
        return False
    await _tell_situation(turn)
    return True


def _usage(turn: LoopTurn, spent: list[Usage]) -> UsageReported:
    return UsageReported(turn_id=turn.turn_id, model=turn.card.id, usage=sum(spent, Usage()))


async def _tell_situation(turn: LoopTurn) -> None:
    """What was told at the beginning is no longer shown."""
    known = turn.handle.state.situation
    if known is not None:
        known = replace(known, facts=replace(known.facts, git_state="", entries=(), more_entries=False))
        text = describe(known)
        await turn.handle.emit(ContextAdded(turn_id=turn.turn_id, step=turn.step, text=text, situation=known))


def _latest_compaction(turn: LoopTurn) -> Compaction | None:
    """Of this turn."""
    return next((item for item in reversed(turn.items) if isinstance(item, Compaction)), None)


def _histories(turn: LoopTurn) -> list[tuple[Message, ...]]:
    """The conversation, shorter and shorter. The first is the longest that should fit."""
    room, state = limit(turn), turn.handle.state
    states = [state, _trimmed(turn, RESULTS_KEPT, 0), *(_trimmed(turn, *harder) for harder in HARDER)]
    fitting = [one for one in states if _tokens(turn, one) <= room]
    return [_asking(messages(one)) for one in fitting or states[-1:]]


async def _summary(turn: LoopTurn, item: Compaction, history: tuple[Message, ...], spent: list[Usage]) -> str:
    """`spent`: what it cost is added, also where it fails."""
    text, usage = "", Usage()
    if turn.budget is not None:
        await turn.budget.before_request()
    request = ModelRequest(
        model=turn.card.model,
        messages=history,
        system=turn.system,
        max_tokens=min(SUMMARY_TOKENS, turn.max_tokens),
        cache_key=turn.handle.thread_id,
    )
    try:
        async with aclosing(turn.provider.stream(request)) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    text += event.text
                    if len(text) > SUMMARY_CHARS:
                        raise ProviderError("the summary is too long")
                    await turn.handle.append(item.id, event.text, "summary")
                elif isinstance(event, UsageSeen):
                    usage = event.usage
    finally:
        if turn.budget is not None and usage == Usage() and text:  # it was cut off: an estimate
            asked = messages_size(history) + len(turn.system) + len(text)
            usage = Usage(input_tokens=round(asked / turn.gauge.chars_per_token))
        spent.append(usage)
    return text


async def _drop_history(turn: LoopTurn) -> bool:
    """The last resort: no summary could be had, and cutting texts was not enough. What must be kept is kept."""
    latest = _latest_compaction(turn)
    if latest is not None and not latest.kept_chars and turn.step - latest.step < SUMMARY_STEPS:
        return False  # that was done, and even so it is too long
    earlier = [item for one in turn.handle.state.turns for item in one.items]
    latest = [text for item in reversed(earlier) if (text := _brief(item))][:MINIMAL_EXTRACTS]
    summary = "\n".join(["No summary could be made. The latest messages, cut:", *reversed(latest)])
    item = Compaction(id=turn.handle.new_item_id(), step=turn.step, summary=summary, kept_chars=0)
    if _tokens(turn, _after(turn.handle.state, item)) > _tokens(turn, turn.handle.state) * WORTH_IT:
        return False
    await turn.handle.start(replace(item, summary=""))
    await turn.handle.append(item.id, summary, "summary")
    await turn.handle.complete(replace(item, status="completed"))
    await _tell_situation(turn)
    return True


def _after(state: ThreadState, item: Compaction) -> ThreadState:
    """The state once this compaction is completed."""
    last = state.turns[-1]
    done = replace(last, items=(*last.items, replace(item, status="completed")))
    return replace(state, turns=(*state.turns[:-1], done))


def _brief(item: Item) -> str:
    match item:
        case UserMessage():
            return f"user: {cut(user_text(item), 400)}"
        case AgentMessage(text=text) if text.strip():
            return f"you: {cut(text, 400)}"
        case CommandExecution(command=command, exit_code=code):
            return f"you ran: {cut(command, 200)} (exit code {code})"
        case _:
            return ""


def _trimmed(turn: LoopTurn, results: int, max_chars: int) -> ThreadState:
    event = ContextTrimmed(turn_id=turn.turn_id, step=turn.step, results=results, max_chars=max_chars)
    return replace(turn.handle.state, trimmed=event)


def _shortens(turn: LoopTurn, state: ThreadState) -> bool:
    return state.trimmed != turn.handle.state.trimmed and _tokens(turn, state) < _tokens(turn, turn.handle.state)


async def _trim(turn: LoopTurn, state: ThreadState, before: int, words: str) -> None:
    assert state.trimmed is not None
    after = _tokens(turn, state)
    message = f"The context was too long: {words}. It had about {before:,} tokens, now about {after:,}"
    log.info("context.trimmed", extra={"thread_id": turn.handle.thread_id, "before": before, "after": after})
    notice = Noticed(source="hames", name="context_trimmed", message=message, turn_id=turn.turn_id)
    await turn.handle.emit(state.trimmed, notice)


def _tokens(turn: LoopTurn, state: ThreadState, *, last: bool = False) -> int:
    """`last`: starting from what the service counted for the last request."""
    memory = turn.memory if state is turn.handle.state else None
    return turn.gauge.tokens(messages(state, memory), state.last_usage.context_tokens if last else 0)


def _kept_chars(turn: LoopTurn) -> int:
    """What is kept word for word may fill a third of the limit."""
    return int(limit(turn) / 3 * turn.gauge.chars_per_token)


def _asking(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """The history with the request at its end, in the user's voice."""
    if history[-1].role == "user":
        return (*history[:-1], replace(history[-1], blocks=(*history[-1].blocks, ASK)))
    return (*history, Message(role="user", blocks=(ASK,)))
