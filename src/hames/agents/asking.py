"""Reading what an agent says while people take their time over its questions."""

from collections.abc import Awaitable, Callable

import anyio

from hames.domain.errors import HarnessError

Answering = Callable[[], Awaitable[None]]


async def read_beside_questions(read: Callable[[Callable[[Answering], None]], Awaitable[str]]) -> str:
    """Runs `read`, which is given a function that starts the answering of one question beside it.

    The first `HarnessError` of either ends both and is raised. Questions that are still open at the end are dropped.
    """
    failure: HarnessError | None = None
    outcome = ""
    async with anyio.create_task_group() as tasks:

        async def answer(answering: Answering) -> None:
            nonlocal failure
            try:
                await answering()
            except HarnessError as problem:
                failure = problem
                tasks.cancel_scope.cancel()

        def beside(answering: Answering) -> None:
            tasks.start_soon(answer, answering)

        try:
            outcome = await read(beside)
        except HarnessError as problem:
            failure = problem
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return outcome
