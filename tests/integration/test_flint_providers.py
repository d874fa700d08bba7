"""The same client, whichever provider answers."""

from typing import Any

import pytest

from flint_support import talking
from hames.clock_and_ids import SystemClock
from hames.ports import Models
from hames.providers.catalogue import Catalogue
from hames.testing.fakes.model import OneModel, ScriptedModel, call, say
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.server import ProviderServer, talk, use
from support import ECHO, engine


async def conversation(models: Models) -> tuple[list[Any], str]:
    """Everything that was told, without names and numbers; and who served it."""
    async with engine(models, ECHO) as the_engine, talking(the_engine) as flint:
        opened = await flint.call("thread/start")
        flint.forget()
        await flint.prompt(opened["thread"]["id"])
        beside = ("thread/started", "item/agentMessage/delta", "thread/tokenUsage/updated")
        told = [message for message in flint.heard if message.get("method") not in beside]
        return [_nameless(message) for message in told], opened["modelProvider"]


def _nameless(value: Any) -> Any:
    hidden = {"id", "threadId", "turnId", "startedAt", "completedAt", "durationMs", "startedAtMs", "completedAtMs"}
    if isinstance(value, dict):
        return {name: _nameless(inner) for name, inner in value.items() if name not in hidden}
    return [_nameless(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.spec("flint/provider-agnostic")
async def test_a_client_is_told_the_same_whoever_serves_the_model() -> None:
    scripted = OneModel(ScriptedModel([call("echo", x=1)], [say("Done.")]))
    async with ProviderServer(ANTHROPIC, use("echo", x=1), talk("Done.")) as server:
        real = Catalogue({"ANTHROPIC_API_KEY": "test", "ANTHROPIC_BASE_URL": server.url}, clock=SystemClock())
        over_the_wire, provider = await conversation(real)
        await real.aclose()
    played, stand_in = await conversation(scripted)
    assert (provider, stand_in) == ("anthropic", "scripted")
    assert over_the_wire == played
