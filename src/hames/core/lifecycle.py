"""A turn's life: whatever happens inside, it ends once, and nothing in it stays open."""

import logging
from collections.abc import Awaitable, Callable

import anyio

from hames.core.live import Run
from hames.core.thread import Thread
from hames.domain.errors import HarnessError, ProviderError, StorageFailed
from hames.domain.events import Event, QueueHeld, TurnEnded, TurnError, TurnStatus
from hames.domain.ids import TurnId
from hames.domain.state import endings

log = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 3.0


async def live(thread: Thread, turn_id: TurnId, run: Run, work: Callable[[], Awaitable[str]]) -> HarnessError | None:
    """Runs the work until it is done, fails, or the run's scope is cancelled. Returns what it failed with."""
    status: TurnStatus = "interrupted"
    failure: HarnessError | None = None
    stop_reason = ""
    try:
        with run.scope:
            stop_reason = await work()
            status = "completed"
    except HarnessError as known:
        status, failure = "failed", known
    except Exception:
        log.exception("turn.crashed", extra={"thread_id": thread.id, "turn_id": turn_id})
        status, failure = "failed", HarnessError("internal error; the log has the details")
    finally:
        # We may be here because we are being cancelled, and the log must
        # still be closed: shielded, but not forever.
        with anyio.move_on_after(LAST_WORDS_SECONDS, shield=True):
            error = _turn_error(failure) if failure is not None else None
            if status == "interrupted" and run.ending:
                error = TurnError(message=run.ending)
            await _end(thread, TurnEnded(turn_id=turn_id, status=status, error=error, stop_reason=stop_reason))
    return failure


async def _end(thread: Thread, ended: TurnEnded) -> None:
    events: list[Event] = [*endings(thread.state, "")[:-1], ended]
    if ended.status != "completed" and thread.state.queue:
        events.append(QueueHeld(held=True))
    try:
        await thread.emit(*events)
    except StorageFailed:
        log.exception("turn.unkept", extra={"thread_id": thread.id, "turn_id": ended.turn_id})
        thread.tell_unkept(*events)
    finally:
        thread.log.rest()


def _turn_error(failure: HarnessError) -> TurnError:
    status = failure.status if isinstance(failure, ProviderError) else None
    return TurnError(message=str(failure), info=failure.info, http_status=status)
