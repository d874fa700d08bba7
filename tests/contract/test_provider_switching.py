"""One thread, several services: after interrupts, failed tools and a broken reply, the next one goes on.

The servers are strict: what the real service would refuse in a history, they refuse.
"""

import shutil
from contextlib import AsyncExitStack
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from hames.core.engine import Engine
from hames.domain.commands import InterruptTurn, ResumeThread, StartTurn
from hames.domain.events import ItemDelta, TurnEnded
from hames.domain.ids import ThreadId
from hames.domain.items import TextInput
from hames.domain.options import Overrides
from hames.providers.catalogue import Catalogue
from hames.store.jsonl import JsonlStore
from hames.store.memory import MemoryStore
from hames.store.places import Places
from hames.testing.fakes.clock import FakeClock
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import (
    Answer,
    Close,
    Dialect,
    ProviderServer,
    ServerTalk,
    Thoughts,
    Use,
    Words,
    raw,
    talk,
)
from support import created, engine, turn_end, until


class Service(NamedTuple):
    dialect: Dialect
    model: str
    variable: str
    path: str


SERVICES = {
    "anthropic": Service(ANTHROPIC, "anthropic/claude-sonnet-5-5", "ANTHROPIC_BASE_URL", ""),
    "openai": Service(OPENAI, "openai/gpt-6.1-sol", "OPENAI_BASE_URL", "/v1"),
    "local": Service(CHAT, "local/qwen", "LOCAL_BASE_URL", "/v1"),
    "openrouter": Service(CHAT, "openrouter/some/model", "OPENROUTER_BASE_URL", "/v1"),
}
KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k"}


def busy(name: str) -> ServerTalk:
    """A thought, a word, and a call that works, one that fails, and one nobody knows; ids as odd as they come."""
    return ServerTalk(
        parts=(
            Thoughts(text=f"{name} thinks", signature=f"signed-by-{name}"),
            Words(text="Let me see."),
            Use(name="echo", arguments='{"x": 1}', id=f"functions.echo:0/{name}"),
            Use(name="no such tool", arguments="{}", id=f"functions.echo:1/{name}"),
            Use(name="echo", arguments='{"never": "run"}', id=f"functions.echo:2/{name}"),
        ),
        stop="tools",
    )


def stuck(name: str) -> ServerTalk:
    return ServerTalk(
        parts=(Thoughts(text="Hm", signature="s"), Use(name="stuck", arguments="{}", id=name)), stop="tools"
    )


class Stage:
    """One engine, all services, one thread."""

    def __init__(self, servers: dict[str, ProviderServer], the_engine: Engine, thread_id: ThreadId) -> None:
        self.servers = servers
        self.engine = the_engine
        self.thread_id = thread_id

    async def turn(self, name: str, *answers: Answer, interrupt: bool = False) -> TurnEnded:
        self.servers[name].add(*answers)
        watcher = await self.engine.watch(self.thread_id)
        await self.engine.execute(
            StartTurn(
                thread_id=self.thread_id,
                content=(TextInput(text=f"Now {name}"),),
                overrides=Overrides(model=SERVICES[name].model),
            )
        )
        if interrupt:
            await until(watcher, lambda event: isinstance(event, ItemDelta) and event.text == "begun")
            await self.engine.execute(InterruptTurn(thread_id=self.thread_id))
        ended = (await turn_end(watcher))[-1].record.event
        assert isinstance(ended, TurnEnded)
        return ended


async def play(order: tuple[str, ...]) -> Stage:
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(ProviderServer(service.dialect)) for name, service in SERVICES.items()
        }
        urls = {service.variable: servers[name].url + service.path for name, service in SERVICES.items()}
        models = Catalogue({**KEYS, **urls}, clock=FakeClock())
        the_engine = await stack.enter_async_context(engine(models, store=MemoryStore()))
        thread = await created(the_engine)
        stage = Stage(servers, the_engine, thread.id)
        for name in order:
            broken = raw(*SERVICES[name].dialect.events(busy(name))[:12], Close())
            first = await stage.turn(name, busy(name), broken, talk("Half a sen", stop="max_tokens"), talk("tence."))
            assert (first.status, first.error) == ("completed", None)
            second = await stage.turn(name, stuck(name), interrupt=True)
            assert second.status == "interrupted"
        with anyio.fail_after(60):
            await models.aclose()
        return stage


@pytest.mark.parametrize("order", list(permutations(SERVICES, 2)), ids=" then ".join)
async def test_a_thread_goes_on_with_another_service(order: tuple[str, ...]) -> None:
    stage = await play((*order, order[0]))
    there, back = stage.servers[order[1]].seen[0].raw.decode(), stage.servers[order[0]].seen[-1].raw.decode()
    assert f"Now {order[0]}" in there, "what was said before is still known"
    assert "interrupted; it may have run" in there
    assert "not executed" in there
    assert f"signed-by-{order[0]}" not in there, "a thought means nothing to anybody else"
    assert f"{order[0]} thinks" not in there
    assert f"signed-by-{order[1]}" not in back


async def test_a_service_gets_its_own_thoughts_back_after_others_have_spoken() -> None:
    stage = await play(("anthropic", "openai", "local", "anthropic", "openai"))
    assert "signed-by-anthropic" in stage.servers["anthropic"].seen[-1].raw.decode()
    assert "signed-by-openai" in stage.servers["openai"].seen[-1].raw.decode()


@pytest.mark.parametrize("order", list(permutations(SERVICES, 2)), ids=" then ".join)
async def test_a_thread_that_crashed_in_the_middle_of_a_tool_goes_on_with_another_service(
    order: tuple[str, str], tmp_path: Path
) -> None:
    before, after = order
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    async with AsyncExitStack() as stack:
        servers = {name: await stack.enter_async_context(ProviderServer(SERVICES[name].dialect)) for name in order}
        urls = {SERVICES[name].variable: servers[name].url + SERVICES[name].path for name in order}
        models = Catalogue({**KEYS, **urls}, clock=FakeClock())
        first = await stack.enter_async_context(engine(models, store=JsonlStore(live, places=Places(tmp_path))))
        thread = await created(first, model=SERVICES[before].model)
        servers[before].add(busy(before), stuck(before))
        watcher = await first.watch(thread.id)
        await first.execute(StartTurn(thread_id=thread.id, content=(TextInput(text="Go"),)))
        await until(watcher, lambda event: isinstance(event, ItemDelta) and event.text == "begun")
        shutil.copytree(live, crashed)  # what a killed process leaves behind

        store = JsonlStore(crashed, places=Places(tmp_path))
        second = await stack.enter_async_context(engine(models, store=store))
        await second.execute(ResumeThread(thread_id=thread.id))
        ended = await Stage(servers, second, thread.id).turn(after, talk("Still here"))
        assert (ended.status, ended.error) == ("completed", None)
        await models.aclose()
    sent = servers[after].seen[-1].raw.decode()
    assert "interrupted; it may have run" in sent
    assert "begun" in sent or "stuck" in sent
