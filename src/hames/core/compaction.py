"""Making room: near the end of the window the model summarises, and goes on from the summary.

The log keeps everything; only what the model is shown gets shorter.
"""

from contextlib import aclosing

from msgspec.structs import replace

from hames.core.context import messages
from hames.core.turn import LoopTurn
from hames.domain.errors import ProviderError
from hames.domain.events import ItemCompleted, UsageReported
from hames.domain.items import Compaction
from hames.domain.request import Message, ModelRequest, TextBlock, TextDelta, UsageSeen
from hames.domain.usage import Usage

FULL = 0.85
"""How much of the window may be used before room is made."""
SUMMARY_TOKENS = 4096
SUMMARY_CHARS = 1 << 20
"""Beyond what that many tokens can be: a service that says more does not stop by itself."""
ASK = TextBlock(
    text="The conversation is getting too long for your context window. Write a summary that lets you go on without"
    " the rest of it: what the user asked for, in their words where they matter; what was decided and why; which files"
    " were read and changed and how; which commands were run and what they showed; what is done, and what comes next."
    " Answer with the summary alone."
)


def due(turn: LoopTurn) -> bool:
    """By the last reply's own count of tokens; a thread that was just compacted waits for a new one."""
    last = turn.handle.state.last_usage.context_tokens
    if not last or any(isinstance(item, Compaction) and item.step == turn.step for item in turn.items):
        return False
    room = turn.card.context_window - turn.max_tokens
    return last > max(room, turn.card.context_window // 2) * FULL


async def compact(turn: LoopTurn) -> bool:
    """True if there is now a summary to go on from. Failing is no disaster: the conversation stays as it is."""
    history = messages(turn.handle.state)
    if len(history) < 2:
        return False
    item = Compaction(id=turn.handle.new_item_id(), step=turn.step)
    await turn.handle.start(item)
    text, usage = "", Usage()
    request = ModelRequest(
        model=turn.card.model,
        messages=_asking(history),
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
    except ProviderError:
        await turn.handle.complete(replace(item, status="failed", summary=text))
        return False
    done = replace(item, status="completed" if text.strip() else "failed", summary=text)
    await turn.handle.emit(
        ItemCompleted(turn_id=turn.turn_id, item=done),
        UsageReported(turn_id=turn.turn_id, model=turn.card.id, usage=usage),
    )
    return done.status == "completed"


def _asking(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """The history with the request at its end, in the user's voice."""
    if history[-1].role == "user":
        return (*history[:-1], replace(history[-1], blocks=(*history[-1].blocks, ASK)))
    return (*history, Message(role="user", blocks=(ASK,)))
