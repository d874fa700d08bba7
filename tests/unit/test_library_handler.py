"""A handler hands long work on, and the harness does not wait for it."""

import anyio
import pytest
from anyio.abc import TaskGroup

from hames import Config, Harness
from hames.domain.json import Json
from hames.testing.fakes.model import ScriptedModel, say


class Delegating:
    """Starts something that takes long, and returns."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.tasks = tasks
        self.started, self.release = anyio.Event(), anyio.Event()
        self.done = False

    async def work(self) -> None:
        self.started.set()
        await self.release.wait()
        self.done = True

    def on_text(self, text: str) -> None:
        self.tasks.start_soon(self.work)

    def on_tool_call(self, id: str, name: str, input: Json) -> None: ...

    def on_tool_result(self, id: str, result: str, is_error: bool) -> None: ...


@pytest.mark.spec("core/handler-must-not-block")
async def test_work_that_a_handler_hands_on_does_not_hold_the_prompt_up() -> None:
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            handler = Delegating(tasks)
            harness = Harness(Config(api_key="test"), [], handler, provider=ScriptedModel([say("Hello.")]))
            await harness.prompt("go")
            await handler.started.wait()
            assert not handler.done
            handler.release.set()
    assert handler.done
