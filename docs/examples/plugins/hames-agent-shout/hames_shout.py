"""An agent with a loop of its own: `shout/default` answers in capital letters. A real one would start a program."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from hames.domain.errors import InvalidCommand
from hames.domain.items import AgentMessage, TextInput, UserMessage
from hames.domain.servers import ServerStatus
from hames.domain.state import ThreadState
from hames.ports import Ability, Prompt, Task, TurnHandle


class ShoutAgent:
    name = "shout"

    def __init__(self, environment: Mapping[str, str]) -> None: ...

    @asynccontextmanager
    async def open(self, state: ThreadState) -> AsyncGenerator["ShoutThread"]:
        yield ShoutThread()


class ShoutThread:
    abilities: frozenset[Ability] = frozenset()

    async def run(self, task: Task, turn: TurnHandle) -> str:
        if not isinstance(task, Prompt):
            raise InvalidCommand("this agent only takes prompts")
        said = " ".join(part.text for part in task.message.content if isinstance(part, TextInput))
        item = AgentMessage(id=turn.new_item_id(), step=turn.step)
        await turn.start(item)
        await turn.append(item.id, said.upper(), "text")
        await turn.complete(AgentMessage(id=item.id, step=item.step, status="completed"))
        return "done"

    async def steer(self, message: UserMessage) -> None:
        raise InvalidCommand("this agent cannot be steered")

    def servers(self) -> Mapping[str, ServerStatus]:
        return {}
