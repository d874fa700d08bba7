"""The database of a shared store is gone: the terminal, the page and event streams say so in words."""

from pathlib import Path

import pytest
from stagehand import staged

from frozen_database import frozen_database
from hames.core.node_work import WAITS
from hames.core.watcher import STORE_GONE
from hames.testing.fakes.model import ScriptedModel, hang, say
from hames.testing.services.postgres import Cluster
from node_support import cluster, database, node
from server_support import events, following, http, running
from support import created, started

__all__ = ["cluster", "database"]


@pytest.mark.slow
async def test_that_the_database_is_gone_is_said_in_words(cluster: Cluster, database: str, tmp_path: Path) -> None:
    model = ScriptedModel([say("One", cut=True), hang()])
    async with (
        frozen_database(cluster.home) as relay,
        node(relay.address(database), model, lease_s=15.0) as a,
        running(a, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = await created(a)
        async with (
            following(server, thread.id) as page,
            events(client, f"/events?thread={thread.id}") as stream,
            staged(a, resume=thread.id) as terminal,
        ):
            await started(a, thread.id)
            await page.until(lambda state: len(state["messages"]) > 1 and state["messages"][1]["content"] == "One")
            await terminal.shows("One")
            relay.freeze()
            try:
                while not page.errors:
                    await page.hear()
                assert page.errors == [{"type": "error", "message": WAITS}]
                told = await stream.until("notice")
                assert (told["name"], told["severity"], told["message"]) == (STORE_GONE, "info", WAITS)
                await terminal.shows("The database cannot be reached. The thread waits")
            finally:  # whatever ends here now needs the database
                relay.thaw()
