"""A thread in the format of Harbor's trajectories (ATIF), which the tools around Terminal-Bench read.

Pure: a thread's state in, JSON out. A step is one reply of the model with its calls and their results; a prompt is a
step of its own. Replies that broke off are left out, as the model never saw them.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import assert_never

import msgspec

from hames import __version__
from hames.domain.cost import cost
from hames.domain.ids import CallId
from hames.domain.items import (
    AgentMessage,
    Artifact,
    Call,
    CommandExecution,
    Compaction,
    FileChange,
    Item,
    McpToolCall,
    Plan,
    Reasoning,
    TextInput,
    ToolCall,
    ToolItem,
    UserMessage,
    WebSearch,
)
from hames.domain.json import Json
from hames.domain.models import Price
from hames.domain.state import ThreadState, Turn
from hames.domain.usage import Usage

SCHEMA = "ATIF-v1.7"


def trajectory(state: ThreadState, price_of: Callable[[str], Price | None], *, model: str = "") -> Json:
    """`model` is its name where the thread has a meaningless one, such as the path of a script."""
    steps: list[dict[str, Json]] = []
    for turn in state.turns:
        steps += _turn_steps(turn)
    for number, step in enumerate(steps, start=1):
        step["step_id"] = number
    return {
        "schema_version": SCHEMA,
        "session_id": state.id,
        "agent": {"name": "hames", "version": __version__, "model_name": model or state.settings.model},
        "steps": steps,
        "final_metrics": _metrics(state, price_of, len(steps)),
    }


def _turn_steps(turn: Turn) -> Iterator[dict[str, Json]]:
    started = datetime.fromtimestamp(turn.started_at_ms / 1000, tz=UTC).isoformat()
    numbers = sorted({item.step for item in turn.items} | {called.step for called in turn.calls})
    for number in numbers:
        items = [item for item in turn.items if item.step == number]
        for item in items:
            if isinstance(item, UserMessage):
                yield {"source": "user", "timestamp": started, "message": _prompt(item)}
            elif isinstance(item, Compaction):
                yield {"source": "system", "message": item.summary or "The conversation was summarised."}
        calls = [called.call for called in turn.calls if called.step == number]
        if number not in turn.void_steps and (step := _reply(items, calls)):
            yield step


def _reply(items: list[Item], calls: list[Call]) -> dict[str, Json]:
    """Empty: nothing was said and nothing was called."""
    said = "\n\n".join(item.text for item in items if isinstance(item, AgentMessage) and item.text)
    thought = "\n\n".join(
        item.text or item.summary for item in items if isinstance(item, Reasoning) and (item.text or item.summary)
    )
    done = {_call_id(item): item for item in items if isinstance(item, ToolItem)}
    # An agent with a loop of its own reports what it did, and not how its model asked for it.
    calls += [_reported(item) for call_id, item in done.items() if call_id not in {call.id for call in calls}]
    if not (said or thought or calls):
        return {}
    step: dict[str, Json] = {"source": "agent", "message": said, "llm_call_count": 1}
    if thought:
        step["reasoning_content"] = thought
    if calls:
        step["tool_calls"] = [_call(call) for call in calls]
        step["observation"] = {"results": [_result(call, done.get(call.id)) for call in calls]}
    return step


def _call_id(item: ToolItem) -> CallId:
    return item.call_id or CallId(item.id)


def _reported(item: ToolItem) -> Call:
    """A call that would have led to this item."""
    arguments: Json
    match item:
        case CommandExecution(command=command):
            name, arguments = "shell", {"command": command}
        case FileChange(changes=changes):
            name, arguments = "file_change", {"paths": [change.path for change in changes]}
        case McpToolCall(server=server, tool=tool, arguments=arguments):
            name = f"{server}/{tool}"
        case WebSearch(query=query):
            name, arguments = "web_search", {"query": query}
        case Plan(entries=entries):
            name, arguments = "plan", {"entries": msgspec.to_builtins(entries)}
        case ToolCall(name=name, arguments=arguments):
            pass
        case Artifact(path=path):
            name, arguments = "artifact", {"path": path}
        case _ as never:
            assert_never(never)
    return Call(id=_call_id(item), name=name, arguments=msgspec.json.encode(arguments or {}).decode())


def _call(call: Call) -> Json:
    told: dict[str, Json] = {"tool_call_id": call.id, "function_name": call.name, "arguments": {}}
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return {**told, "arguments": arguments}
    return {**told, "extra": {"raw_arguments": call.arguments}}


def _result(call: Call, item: ToolItem | None) -> Json:
    text = "not executed"
    if item is not None:
        text = item.result.text if item.result is not None else getattr(item, "output", "")
    return {"source_call_id": call.id, "content": text, "extra": {"status": item.status if item else "skipped"}}


def _prompt(message: UserMessage) -> str:
    return "\n".join(part.text for part in message.content if isinstance(part, TextInput))


def _metrics(state: ThreadState, price_of: Callable[[str], Price | None], steps: int) -> Json:
    used = state.usage
    told: dict[str, Json] = {
        "total_prompt_tokens": prompt_tokens(used),
        "total_completion_tokens": used.output_tokens,
        "total_cached_tokens": used.cache_read_tokens,
        "total_steps": steps,
    }
    if (dollars := thread_cost(state, price_of)) is not None:
        told["total_cost_usd"] = dollars
    return told


def prompt_tokens(used: Usage) -> int:
    """With what was read from and written to a cache."""
    return used.input_tokens + used.cache_read_tokens + used.cache_write_tokens


def thread_cost(state: ThreadState, price_of: Callable[[str], Price | None]) -> float | None:
    """US dollars; None where the price of one of its models is not known."""
    turns = [cost(turn.spent, price_of) for turn in state.turns]
    known = [one for one in turns if one is not None]
    return sum(known) if len(known) == len(turns) else None
