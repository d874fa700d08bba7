"""Protocols at a gateway that runs no turns, while a worker does: real processes for HTTP and sync, ACP on a WebSocket.

The transcripts of bootstrap and flint are played against a gateway in their own folders.
"""

import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.asyncio.client import connect

pytest.register_assert_rewrite("matrix_support")
import matrix_clients  # noqa: E402
import matrix_support  # noqa: E402
from acp_schema import check_message  # noqa: E402
from hames.store.postgres.server_state import PostgresServerState  # noqa: E402
from hames.store.postgres.store import PostgresStore  # noqa: E402
from hames.testing.fakes.model import ScriptedModel, call, say  # noqa: E402
from matrix_support import SIDES, play  # noqa: E402
from node_support import cluster, database, node  # noqa: E402
from server_support import running  # noqa: E402

__all__ = ["cluster", "database"]


@pytest.mark.slow
@pytest.mark.needs("bwrap", "bash")
@pytest.mark.parametrize("protocol", ["http", "sync"])
async def test_a_client_of_a_gateway_process_passes_the_whole_scenario(
    protocol: str, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (matrix_clients, matrix_support):  # two processes start one after the other, and then the tools
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 60)
    async with SIDES["anthropic"](tmp_path) as side, AsyncExitStack() as stack:
        environment = {**side.place.environment, "HAMES_STORE": database}
        words = [str(Path(sys.executable).parent / "hames"), "worker", "--cwd", str(side.place.work)]
        worker = await stack.enter_async_context(
            await anyio.open_process([*words, *side.place.flags], env=environment, stderr=None)
        )
        stack.callback(worker.kill)
        gateway = side.place._replace(environment=environment, flags=[*side.place.flags, "--no-work"])
        await play(protocol, side._replace(place=gateway))


@pytest.mark.slow
async def test_acp_works_at_a_gateway(database: str, tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", x=1)], [say("Done.")])
    store = PostgresStore(database)
    async with (
        node(database, model, name="worker", policy="always"),
        node(database, name="gate", slots=0, policy="always") as gate,
        running(gate, tmp_path / "data", shared=PostgresServerState(store)) as server,
        connect(server.url.replace("http", "ws", 1) + "/acp", proxy=None) as socket,
    ):
        heard: list[dict[str, Any]] = []

        async def ask(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            with anyio.fail_after(60):
                while True:
                    heard.append(message := json.loads(await socket.recv()))
                    check_message(1, message, method if message.get("id") == number else "")
                    if message.get("method") == "session/request_permission":
                        [option] = [one for one in message["params"]["options"] if one["kind"] == "allow_once"]
                        outcome = {"outcome": "selected", "optionId": option["optionId"]}
                        await socket.send(
                            json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}})
                        )
                    elif message.get("id") == number and "method" not in message:
                        return message["result"]

        await ask(0, "initialize", {"protocolVersion": 1})
        session = (await ask(1, "session/new", {"cwd": str(tmp_path), "mcpServers": []}))["sessionId"]
        prompt = [{"type": "text", "text": "go"}]
        done = await ask(2, "session/prompt", {"sessionId": session, "prompt": prompt})
        assert done["stopReason"] == "end_turn"
        updates = [one["params"]["update"] for one in heard if one.get("method") == "session/update"]
        text = [one["content"]["text"] for one in updates if one["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(text) == "Done."
        assert sum(one.get("method") == "session/request_permission" for one in heard) == 1
    await store.close()
