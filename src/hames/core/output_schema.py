"""Turns whose final answer has to match a JSON Schema: checked for every agent, with one attempt to repair it."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from hames.domain.errors import AnswerMismatch
from hames.domain.events import ItemCompleted, ItemStarted
from hames.domain.items import AgentMessage, Item, Reasoning, TextInput, UserMessage
from hames.domain.json import NOTHING, Json
from hames.domain.output_schema import is_json, read_answer, repair_text, request_text
from hames.ports import AgentThread, Prompt, Task, TurnHandle


async def run_task(agent: AgentThread, task: Task, turn: TurnHandle) -> str:
    """Runs a task. Raises `AnswerMismatch` if it has an output schema and the second answer does not match either."""
    if not isinstance(task, Prompt) or task.output_schema is NOTHING:
        return await agent.run(task, turn)
    word = await agent.run(_with_request(agent, task), turn)
    if complaint := await _check(turn, task.output_schema):
        again = UserMessage(id=turn.new_item_id(), step=turn.step, content=(TextInput(text=repair_text(complaint)),))
        await turn.emit(ItemStarted(turn_id=turn.turn_id, item=again), ItemCompleted(turn_id=turn.turn_id, item=again))
        word = await agent.run(replace(task, message=again), turn)
        if complaint := await _check(turn, task.output_schema):
            raise AnswerMismatch(f"the answer does not match the schema: {complaint}")
    return word


def _with_request(agent: AgentThread, task: Prompt) -> Prompt:
    """Agents that do not tell their model of the schema get it as a part of the prompt."""
    if "outputSchema" in agent.abilities:
        return task
    said = TextInput(text=request_text(task.output_schema))
    return replace(task, message=replace(task.message, content=(*task.message.content, said)))


async def _check(turn: TurnHandle, wanted: Json) -> str:
    """What is wrong with the final answer; empty if it fits.

    Programs read the last message of the turn: if the answer has other words around it, it is repeated without them.
    """
    running = turn.state.turn(turn.turn_id)
    said = _last_messages(running.items if running is not None else ())
    answer, complaint = read_answer(said[-1].text if said else "", wanted)
    if not complaint and (len(said) > 1 or not is_json(said[-1].text)):
        turn.step += 1
        item = AgentMessage(id=turn.new_item_id(), step=turn.step)
        await turn.start(item)
        await turn.append(item.id, msgspec.json.encode(answer).decode(), "text")
        await turn.complete(replace(item, status="completed"))
    return complaint


def _last_messages(items: Sequence[Item]) -> list[AgentMessage]:
    """The messages at the end of a turn, which some clients show as one."""
    found: list[AgentMessage] = []
    for item in reversed(items):
        if isinstance(item, AgentMessage):
            found.insert(0, item)
        elif not isinstance(item, Reasoning):
            break
    return found
