"""Retries a failed model request after a pause, as long as nothing of the answer was passed on.

Once anything of an answer was passed on, the loop decides what happens to it.
The notice of a retry comes before the pause, so that people see why nothing happens.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from hames.domain.errors import ProviderError
from hames.domain.request import ModelEvent, ProviderNotice, UsageSeen
from hames.domain.value import Value
from hames.ports import Clock


class Patience(Value):
    """How long is waited, and how often."""

    retries: int = 2
    first_pause_s: float = 0.5
    longest_pause_s: float = 8.0
    """Where the service names no time."""
    longest_wait_s: float = 60.0
    """Where the service names a time. A longer one is not waited for."""
    total_wait_s: float = 120.0
    connect_s: float = 10.0
    idle_s: float = 300.0
    """Without a sign of life. Pings are none."""


PATIENCE = Patience()


async def retrying(
    attempt: Callable[[], AsyncGenerator[ModelEvent, None]], *, clock: Clock, patience: Patience
) -> AsyncGenerator[ModelEvent, None]:
    """The events of the first attempt that begins. Raises `ProviderError`."""
    waited, tries = 0.0, 0
    while True:
        tries += 1
        held: list[ModelEvent] = []
        begun = False
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    if not begun and isinstance(event, UsageSeen):
                        held.append(event)  # the service counts before it answers
                        continue
                    begun = True
                    for earlier in held:
                        yield earlier
                    held.clear()
                    yield event
        except ProviderError as error:
            pause = _pause(error, tries, clock, patience)
            if begun or not error.retryable or tries > patience.retries or pause is None:
                raise
            if waited + pause > patience.total_wait_s:
                raise
            what = str(error).partition(";")[0]
            notice = ProviderNotice(
                name="retry",
                message=f"{what}; trying again in {pause:.1f} s ({tries} of {patience.retries})",
                data={"try": tries, "of": patience.retries, "wait_s": round(pause, 3), "status": error.status},
            )
        else:
            for earlier in held:
                yield earlier
            return
        yield notice
        await clock.sleep(pause)
        waited += pause


def _pause(error: ProviderError, tries: int, clock: Clock, patience: Patience) -> float | None:
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= patience.longest_wait_s else None
    pause = min(patience.first_pause_s * 2 ** (tries - 1), patience.longest_pause_s)
    # Many threads fail together; the clock's last digits are chance enough to keep them from returning together.
    return pause * (1 - 0.25 * (clock.monotonic() * 1e4 % 1))
