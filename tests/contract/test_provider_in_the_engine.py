"""Whoever serves the model, the engine tells the same story."""

from typing import Any

import msgspec
import pytest

from hames.domain.commands import StartTurn
from hames.domain.events import TurnEnded
from hames.domain.items import AgentMessage, Compaction, Reasoning, TextInput, ToolCall, WebSearch
from hames.domain.options import Overrides
from hames.domain.state import ThreadState
from hames.domain.usage import Usage
from hames.providers.catalogue import Catalogue
from hames.testing.fakes.clock import FakeClock
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI, ResponseEvents, say_words, search
from hames.testing.services.server import (
    Answer,
    Dialect,
    ProviderServer,
    SeenRequest,
    ServerReply,
    ServerTalk,
    Thoughts,
    Use,
    Words,
    raw,
    talk,
)
from support import ECHO, created, engine, turn_end

WORK = ServerTalk(
    parts=(
        Thoughts(text="I should echo."),
        Words(text="Let me see."),
        Use(name="echo", arguments='{"x": 1}', id="c1"),
    ),
    stop="tools",
    usage=Usage(input_tokens=100, output_tokens=20, thinking_tokens=5, cache_read_tokens=50),
)
DONE = ServerTalk(parts=(Words(text="Done."),), usage=Usage(input_tokens=10, output_tokens=2))
SERVED: dict[str, tuple[Dialect, str]] = {
    "anthropic": (ANTHROPIC, "anthropic/claude-sonnet-5-5"),
    "openai": (OPENAI, "openai/gpt-6.1-sol"),
    "local": (CHAT, "local/qwen"),
}


async def run(name: str, *answers: Answer, prompts: tuple[tuple[str, dict[str, str]], ...] = (("go", {}),)) -> Any:
    """Prompts with their options, one turn each: the state in the end, and what the service was asked."""
    dialect, model = SERVED[name]
    async with ProviderServer(dialect, *answers) as server:
        environment = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.url + "/v1",
            "LOCAL_BASE_URL": server.url + "/v1",
        }
        models = Catalogue(environment, clock=FakeClock())
        async with engine(models, ECHO) as the_engine:
            thread = await created(the_engine, model=model)
            watcher = await the_engine.watch(thread.id)
            for text, options in prompts:
                overrides = Overrides(options=options)
                await the_engine.execute(
                    StartTurn(thread_id=thread.id, content=(TextInput(text=text),), overrides=overrides)
                )
                last = (await turn_end(watcher))[-1]
                assert isinstance(last.record.event, TurnEnded)
                assert (last.record.event.status, last.record.event.error) == ("completed", None)
        await models.aclose()
        return last.after, server.seen


def story(state: ThreadState) -> list[Any]:
    """Every item of the turn, without names and numbers, and without whose thoughts they were."""
    told = []
    for item in state.turns[-1].items:
        plain = msgspec.to_builtins(item)
        if isinstance(item, Reasoning):  # OpenAI shows summaries, others the thought itself
            plain["text"], plain["summary"] = item.text + item.summary, ""
        told.append({key: plain[key] for key in plain if key not in ("id", "provider", "opaque")})
    return told


async def test_a_turn_with_a_thought_a_word_and_a_call_is_the_same_with_everyone() -> None:
    stories = {name: story((await run(name, WORK, DONE))[0]) for name in SERVED}
    first = stories["anthropic"]
    assert [item["type"] for item in first] == [
        "user_message",
        "reasoning",
        "agent_message",
        "tool_call",
        "agent_message",
    ]
    assert stories["openai"] == first
    assert stories["local"] == first


@pytest.mark.parametrize("name", SERVED)
async def test_usage_is_counted_the_same_with_everyone(name: str) -> None:
    state, _ = await run(name, WORK, DONE)
    wanted = WORK.usage + DONE.usage
    assert (state.usage, state.turns[-1].usage) == (wanted, wanted)
    assert state.turns[-1].spent == {SERVED[name][1]: wanted}


@pytest.mark.parametrize("name", SERVED)
async def test_a_thought_is_carried_over_the_steps_of_a_turn(name: str) -> None:
    _, seen = await run(name, WORK, DONE)
    carried = {"anthropic": '"signature":"signed"', "openai": '"encrypted_content":"signed"', "local": "I should echo."}
    assert carried[name] not in seen[0].raw.decode()
    assert carried[name] in seen[1].raw.decode()


async def test_a_search_of_openais_own_is_an_item_and_goes_back_to_it() -> None:
    told = ResponseEvents()
    told.begin()
    search(told, {"type": "search", "query": "hames"})
    say_words(told, "Found.")
    told.end()
    on = {"web_search": "on"}
    state, seen = await run("openai", raw(*told.events), talk("Yes."), prompts=(("Search", on), ("Sure?", on)))
    (found,) = (item for item in state.turns[0].items if isinstance(item, WebSearch))
    assert (found.query, found.status, found.provider) == ("hames", "completed", "openai")
    assert {"type": "web_search"} in seen[0].body["tools"]
    assert '"web_search_call"' in seen[1].raw.decode()


async def test_a_conversation_that_outgrew_the_chosen_context_length_is_compacted_and_goes_on() -> None:
    def asked(seen: SeenRequest) -> ServerReply | ServerTalk:
        assert "word word" in seen.raw.decode(), "the summary is made of everything"
        return talk("They spoke of words.")

    state, seen = await run(
        "local",
        talk("Long."),
        asked,
        talk("Short."),
        prompts=(("word " * 3000, {}), ("And now?", {"context_length": "4096"})),
    )
    assert any(isinstance(item, Compaction) and item.status == "completed" for item in state.turns[-1].items)
    last = next(item for item in reversed(state.turns[-1].items) if isinstance(item, AgentMessage))
    assert last.text == "Short."
    assert "characters left out" in seen[-1].raw.decode(), "no more of the long prompt than fits"
    assert len(seen[-1].raw) // 4 + seen[-1].body["max_tokens"] <= 4096


async def test_calls_and_their_results_pair_up_in_what_is_sent_next() -> None:
    state, seen = await run("local", WORK, DONE)
    (call,) = (item for item in state.turns[-1].items if isinstance(item, ToolCall))
    assert call.call_id == "c1"
    messages = seen[-1].body["messages"]
    assert messages[-2]["tool_calls"][0]["id"] == messages[-1]["tool_call_id"] == "c1"
