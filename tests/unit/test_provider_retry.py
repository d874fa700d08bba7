"""Patience: what is tried again, after how long, and what is not."""

from collections.abc import AsyncGenerator, Callable

import pytest

from hames.domain.errors import ProviderError
from hames.domain.request import ModelEvent, ProviderNotice, ReplyEnded, TextDelta, UsageSeen
from hames.domain.usage import Usage
from hames.providers.failures import retry_after_s
from hames.providers.retry import Patience, retrying
from hames.testing.fakes.clock import FakeClock

HELLO, END = TextDelta(block=0, text="Hello"), ReplyEnded(reason="end")
COUNT = UsageSeen(usage=Usage(input_tokens=1))
Attempt = list[ModelEvent | ProviderError]


def busy(after_s: float | None = None) -> ProviderError:
    return ProviderError("busy; try again", retryable=True, status=529, retry_after_s=after_s)


def attempts(*scripts: Attempt) -> Callable[[], AsyncGenerator[ModelEvent, None]]:
    left = list(scripts)

    async def attempt() -> AsyncGenerator[ModelEvent, None]:
        for step in left.pop(0):
            if isinstance(step, ProviderError):
                raise step
            yield step

    return attempt


async def played(*scripts: Attempt, clock: FakeClock, patience: Patience | None = None) -> list[ModelEvent]:
    return [e async for e in retrying(attempts(*scripts), clock=clock, patience=patience or Patience())]


async def test_a_retry_is_told_before_the_pause_and_the_pauses_grow() -> None:
    clock = FakeClock()
    events = await played([busy()], [busy()], [HELLO, END], clock=clock)
    notices = [e for e in events if isinstance(e, ProviderNotice)]
    assert [notice.name for notice in notices] == ["retry", "retry"]
    assert "busy; trying again in" in notices[0].message
    assert events[2:] == [HELLO, END]
    assert 1.0 <= clock.elapsed <= 1.5


async def test_two_retries_are_enough() -> None:
    clock = FakeClock()
    with pytest.raises(ProviderError, match="busy"):
        await played([busy()], [busy()], [busy()], [HELLO, END], clock=clock)


async def test_nothing_is_tried_again_once_the_answer_has_begun() -> None:
    clock = FakeClock()
    with pytest.raises(ProviderError, match="busy"):
        await played([HELLO, busy()], [HELLO, END], clock=clock)
    assert clock.elapsed == 0


async def test_counting_tokens_is_not_yet_an_answer() -> None:
    events = await played([COUNT, busy()], [COUNT, HELLO, END], clock=FakeClock())
    assert [type(e) for e in events] == [ProviderNotice, UsageSeen, TextDelta, ReplyEnded]


async def test_a_count_that_nothing_follows_is_told_all_the_same() -> None:
    assert await played([COUNT], clock=FakeClock()) == [COUNT]


async def test_what_will_not_pass_is_not_tried_again() -> None:
    with pytest.raises(ProviderError, match="no"):
        await played([ProviderError("no")], [HELLO, END], clock=FakeClock())


async def test_the_service_says_how_long_to_wait() -> None:
    clock = FakeClock()
    await played([busy(7.5)], [HELLO, END], clock=clock)
    assert clock.elapsed == 7.5


async def test_nobody_waits_for_a_time_that_is_absurd() -> None:
    clock = FakeClock()
    with pytest.raises(ProviderError) as error:
        await played([busy(1e9)], [HELLO, END], clock=clock)
    assert clock.elapsed == 0
    assert error.value.retry_after_s == 1e9


async def test_all_waiting_together_is_bounded() -> None:
    clock = FakeClock()
    patience = Patience(retries=50, total_wait_s=100)
    with pytest.raises(ProviderError):
        await played(*[[busy(30)]] * 50, clock=clock, patience=patience)
    assert clock.elapsed == 90


async def test_our_own_pauses_never_exceed_the_longest() -> None:
    clock = FakeClock()
    await played(*[[busy()]] * 8, [HELLO, END], clock=clock, patience=Patience(retries=8))
    assert clock.elapsed <= 0.5 + 1 + 2 + 4 + 8 * 4


async def test_threads_that_fail_together_do_not_come_back_together() -> None:
    pauses = set[float]()
    for start in (0.00001, 0.00004, 0.00007):
        clock = FakeClock()
        clock.elapsed = start
        await played([busy()], [HELLO, END], clock=clock)
        pauses.add(round(clock.elapsed - start, 6))
    assert len(pauses) == 3


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "4"}, 4.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry-after": "Tue, 14 Nov 2013 22:13:30 GMT"}, None),
        ({"retry-after": "1e9"}, 1e9),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "next week"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_a_time_to_wait_is_read_in_every_form_and_nonsense_in_none(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers, now_ms=1_700_000_000_000) == seconds
