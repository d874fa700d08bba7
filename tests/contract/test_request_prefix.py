"""What is sent to each service begins with what was sent before, byte for byte, whatever changes between."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hames.clock_and_ids import SystemClock
from hames.domain.commands import ChangeSettings
from hames.domain.options import Overrides
from hames.domain.policy import ReadOnly, WorkspaceWrite
from hames.providers.catalogue import Catalogue
from hames.testing.services.anthropic import ANTHROPIC
from hames.testing.services.chat import CHAT
from hames.testing.services.openai import OPENAI
from hames.testing.services.server import Dialect, ProviderServer, talk, use
from situated_engine import situated_engine
from support import created, whole_turn

SERVICES: list[tuple[Dialect, str, str]] = [
    (ANTHROPIC, "anthropic/claude-sonnet-5-5", "messages"),
    (OPENAI, "openai/gpt-5.4", "input"),
    (CHAT, "local/qwen", "messages"),
]


def shown(body: dict[str, Any], member: str) -> list[bytes]:
    """The blocks of a request in their order, without marks for the cache, which move by design."""
    rows: list[bytes] = [msgspec.json.encode(body.get("system") or body.get("instructions") or "")]
    for message in body[member]:
        content = message.get("content")
        for block in content if isinstance(content, list) else [message]:
            kept = {name: value for name, value in block.items() if name != "cache_control"}
            rows.append(msgspec.json.encode([message.get("role"), kept]))
    return rows


@pytest.mark.parametrize(("dialect", "model", "member"), SERVICES, ids=["anthropic", "openai", "chat"])
async def test_the_prefix_of_consecutive_requests_is_the_whole_request_before(
    tmp_path: Path, dialect: Dialect, model: str, member: str
) -> None:
    answers = [
        use("list"),
        talk("One."),
        talk("Two."),
        use("read", path="nope"),
        talk("Three."),
        talk("Four."),
        talk("5."),
    ]
    async with ProviderServer(dialect, *answers) as server:
        environment = {
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.url + "/v1",
            "LOCAL_BASE_URL": server.url + "/v1",
        }
        models = Catalogue(environment, clock=SystemClock(), default=model)
        async with situated_engine(models, tmp_path) as engine:
            thread = await created(engine)
            changes: list[dict[str, Any]] = [
                {},
                {"sandbox": ReadOnly()},
                {"approval_policy": "onRequest"},
                {"agent": "plan"},
                {"agent": "code", "sandbox": WorkspaceWrite(network_access=True), "personality": "pragmatic"},
            ]
            for number, overrides in enumerate(changes):
                await engine.execute(ChangeSettings(thread_id=thread.id, overrides=Overrides(**overrides)))
                heard = await whole_turn(engine, thread.id, f"Turn {number}")
                assert heard[-1].after.turns[-1].status == "completed"
        await models.aclose()
        requests = [shown(seen.body, member) for seen in server.seen if seen.method == "POST"]
    assert len(requests) == 7
    for before, after in pairwise(requests):
        assert after[: len(before)] == before
