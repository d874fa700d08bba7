"""A server whose threads run in another process: the page, SSE and its lists show and drive them all the same."""

from pathlib import Path

from hames.domain.commands import RenameThread
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import events, following, http, running
from support import created, shared_engine, started

JSON = {"Content-Type": "application/json"}
CHANGED = {"type": "threads", "threads": []}
"""A client that hears it asks for the list again."""


async def test_a_thread_of_another_process_through_every_door_of_the_server(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")], [say("Twice.")])
    async with (
        shared_engine(tmp_path, model) as other,
        shared_engine(tmp_path) as here,
        running(here, tmp_path / "data") as server,
    ):
        thread = await created(other)
        async with (
            following(server, f"{thread.id}&answers=1") as page,
            http(server) as client,
            events(client, f"/events?thread={thread.id}") as stream,
        ):
            await page.send({"type": "submit", "prompt": "say it"})
            asked = await stream.until("approval")
            state = await page.until(lambda state: bool(state["approvals"]))
            assert state["approvals"][0]["id"] == asked["id"]
            (row,) = (await client.get("/threads")).json()["threads"]
            assert row["status"] == "approval"
            assert (await client.post(f"/prompt?thread={thread.id}", json={"content": "no"})).status_code == 409
            await page.send({"type": "approve", "id": asked["id"], "decision": "once"})
            await stream.until("text", content="Done.")
            await stream.until("status", state="idle")
            await page.until(lambda state: state["status"] == "idle" and not state["approvals"])
            last = stream.last_id
            done = await client.post(f"/prompt?thread={thread.id}", json={"content": "again"})
            assert done.json()["threadId"] == thread.id
            await stream.until("text", content="Twice.")
            await stream.until("status", state="idle")
            async with events(client, f"/events?thread={thread.id}&after={last}") as late:
                await late.until("text", content="Twice.")
            assert "Twice." in (await client.get(f"/threads/{thread.id}/export")).text
            assert (await client.get(f"/threads/{thread.id}/timeline")).json()["marks"]
            assert (await client.post(f"/threads/{thread.id}/fork", json={})).status_code == 201
            assert (await client.post(f"/threads/{thread.id}/archive", json={"archived": True})).status_code == 200
            assert (await client.delete(f"/threads/{thread.id}", headers=JSON)).status_code == 204
    model.assert_finished()


async def test_a_stream_goes_on_when_the_process_that_ran_the_thread_ends(tmp_path: Path) -> None:
    async with (
        shared_engine(tmp_path, ScriptedModel([say("After.")])) as here,
        running(here, tmp_path / "data") as server,
        http(server) as client,
    ):
        async with shared_engine(tmp_path, ScriptedModel([say("Before.", cut=True), hang()])) as other:
            thread = await created(other)
            following_page = following(server, thread.id)
            page = await following_page.__aenter__()
            await page.hear()
            await started(other, thread.id)
            await page.until(lambda state: "Before." in str(state["messages"]))
        await page.until(lambda state: state["status"] != "running")
        assert (await client.post(f"/prompt?thread={thread.id}", json={"content": "go on"})).status_code == 200
        state = await page.until(lambda state: "After." in str(state["messages"]))
        assert str(state["messages"]).count("Before.") == 1
        assert [message["type"] for message in page.heard].count("state") == 1, "nobody had to start again"
        await following_page.__aexit__(None, None, None)


async def test_the_page_hears_that_another_process_changed_the_list(tmp_path: Path) -> None:
    async with shared_engine(tmp_path) as here, running(here, tmp_path / "data") as server:
        own = await created(here)
        async with following(server, f"{own.id}&threads=1") as page, http(server) as client:
            while await page.hear() != CHANGED:
                pass
            async with shared_engine(tmp_path) as other:
                thread = await created(other)

                async def titles() -> list[str]:
                    rows = (await client.get("/threads")).json()["threads"]
                    return [row["title"] for row in rows if row["id"] == thread.id]

                while not await titles():
                    while await page.hear() != CHANGED:
                        pass
                await other.execute(RenameThread(thread_id=thread.id, title="new"))
                while await titles() != ["new"]:
                    while await page.hear() != CHANGED:
                        pass
