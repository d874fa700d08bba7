"""Files that an agent shows, pictures that tools return, uploads that wait, and threads that go: over HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from hames.clock_and_ids import SystemClock
from hames.core.engine import Engine
from hames.domain.json import Json
from hames.server.app import Server
from hames.testing.fakes.model import ScriptedModel, call, hang, say, think
from hames.tools.artifact import ArtifactTool
from hames.tools.read import ReadLimits, ReadTool
from hames.tools.works import Seen
from server_support import following, http, running
from support import ECHO, created, engine, whole_turn

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (8).to_bytes(4) + (8).to_bytes(4) + b"\x08\x02\0\0\0" + b"\0" * 20


@asynccontextmanager
async def shown(tmp_path: Path, *calls: object) -> AsyncGenerator[tuple[str, list[Json], httpx2.AsyncClient]]:
    """A thread in which the agent made these calls, its tool calls, and a client."""
    tools = (ArtifactTool(), ReadTool(Seen(), ReadLimits()), ECHO)
    model = ScriptedModel(*([one] for one in calls), [say("Done.")])
    async with (
        engine(model, *tools, clock=SystemClock(), cwd=tmp_path / "work") as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = (await created(its_engine)).id
        await whole_turn(its_engine, thread)
        state = (await client.get(f"/threads/{thread}")).json()["state"]
        yield thread, [one for message in state["messages"] for one in message["toolCalls"]], client


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("name", "content", "media"),
    [
        ("chart.png", PNG, "image/png"),
        ("odd name ü'.png", PNG, "image/png"),
        ("picture-in-disguise.txt", PNG, "image/png"),
        ("report.md", b"# Report", "text/plain; charset=utf-8"),
        ("data.json", b"{}", "text/plain; charset=utf-8"),
        ("page.html", b"<script>alert(1)</script>", "text/plain; charset=utf-8"),
        ("drawing.svg", b"<svg onload='alert(1)'/>", "text/plain; charset=utf-8"),
        ("notes.md", b"binary \0 notes", "application/octet-stream"),
        ("build.zip", b"PK\3\4", "application/octet-stream"),
        ("paper.pdf", b"%PDF-1.7", "application/octet-stream"),
        ("none", b"x", "application/octet-stream"),
    ],
)
async def test_an_artifact_is_opened_as_what_is_harmless_and_saved_as_what_it_is(
    tmp_path: Path, work: Path, name: str, content: bytes, media: str
) -> None:
    (work / name).write_bytes(content)
    async with shown(tmp_path, call("artifact", path=name)) as (thread, [card], client):
        assert (card["kind"], card["status"]) == ("artifact", "complete")
        opened = await client.get(f"/threads/{thread}/artifacts/{card['id']}")
        assert opened.status_code == 200
        assert (opened.content, opened.headers["content-type"]) == (content, media)
        disposition = "attachment" if media == "application/octet-stream" else "inline"
        assert opened.headers["content-disposition"].startswith(disposition)
        assert opened.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert opened.headers["x-content-type-options"] == "nosniff"
        saved = await client.get(f"/threads/{thread}/artifacts/{card['id']}?download=1")
        assert (saved.content, saved.headers["content-type"]) == (content, "application/octet-stream")
        assert saved.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
        assert "\n" not in saved.headers["content-disposition"]


async def test_an_artifact_that_became_something_else_is_not_shown(tmp_path: Path, work: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("nobody's business")
    (work / "report.md").write_text("fine")
    (work / "sub").mkdir()
    (work / "sub" / "other.md").write_text("fine")
    async with shown(tmp_path, call("artifact", path="report.md"), call("artifact", path="sub/other.md")) as (
        thread,
        [one, other],
        client,
    ):
        (work / "report.md").unlink()
        (work / "report.md").symlink_to(secret)
        (work / "sub" / "other.md").unlink()
        (work / "sub").rmdir()
        (work / "sub").symlink_to(tmp_path)
        (tmp_path / "other.md").write_text("nobody's business")
        for card in (one, other):
            answer = await client.get(f"/threads/{thread}/artifacts/{card['id']}")
            assert answer.status_code == 404
            assert "business" not in answer.text
        (work / "report.md").unlink()
        gone = await client.get(f"/threads/{thread}/artifacts/{one['id']}")
        assert gone.status_code == 404
        assert "cannot be shown" in gone.json()["error"]["message"]


async def test_only_artifacts_are_files(tmp_path: Path, work: Path) -> None:
    (work / "a.md").write_text("fine")
    async with shown(tmp_path, call("echo", path=str(work / "a.md"))) as (thread, [card], client):
        for name in (card["id"], "none", "..%2F..%2Fetc%2Fpasswd"):
            assert (await client.get(f"/threads/{thread}/artifacts/{name}")).status_code == 404


async def test_a_picture_that_a_tool_read_can_be_seen(tmp_path: Path, work: Path) -> None:
    (work / "chart.png").write_bytes(PNG)
    async with shown(tmp_path, call("read", path="chart.png"), call("echo")) as (thread, [read, echo], client):
        assert (read["pictures"], echo["pictures"]) == (1, 0)
        picture = await client.get(f"/threads/{thread}/tools/{read['id']}/images/0")
        assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
        assert picture.headers["content-security-policy"] == "default-src 'none'; sandbox"
        for path in (f"{read['id']}/images/1", f"{echo['id']}/images/0", "none/images/0"):
            assert (await client.get(f"/threads/{thread}/tools/{path}")).status_code == 404
        assert (await client.get(f"/threads/{thread}/tools/{read['id']}/images/x")).status_code == 400


async def test_the_picture_of_a_prompt_that_waits_can_be_seen_and_sent_again(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with (
        engine(model, clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server) as client,
        following(server) as page,
    ):
        await page.hear()
        await page.send({"type": "submit", "prompt": "go"})
        await page.until(lambda state: state["status"] == "running")
        sent = await client.post("/uploads", content=PNG, headers={"content-type": "image/png"})
        attached = [{"type": "image", "id": sent.json()["id"]}]
        await page.send({"type": "submit", "id": "p_2", "prompt": "then this", "attachments": attached})
        [waiting] = (await page.until(lambda state: len(state["queue"]) == 1))["queue"]
        [picture] = waiting["attachments"]
        assert (picture["kind"], picture["upload"]) == ("image", sent.json()["id"])
        seen = await client.get(picture["url"])
        assert (seen.content, seen.headers["content-type"]) == (PNG, "image/png")
        assert (await client.get("/uploads/up_" + "0" * 32)).status_code == 404
        assert (await client.get("/uploads/..%2F..%2Fetc")).status_code == 404
        # Taken out of the queue and sent again, it still has its picture.
        await page.send({"type": "dequeue", "id": "p_2"})
        await page.until(lambda state: not state["queue"])
        again = [{"type": "image", "id": picture["upload"]}]
        await page.send({"type": "submit", "id": "p_3", "prompt": "then that", "attachments": again})
        [waiting] = (await page.until(lambda state: len(state["queue"]) == 1))["queue"]
        assert waiting["attachments"][0]["upload"] == picture["upload"]
        await page.send({"type": "cancel"})
        await page.until(lambda state: state["status"] == "idle")


@asynccontextmanager
async def house(tmp_path: Path, model: ScriptedModel) -> AsyncGenerator[tuple[Engine, Server, httpx2.AsyncClient]]:
    async with (
        engine(model, clock=SystemClock(), cwd=tmp_path) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server) as client,
    ):
        yield its_engine, server, client


JSON = {"content-type": "application/json"}


async def test_a_deleted_thread_is_gone_for_everybody(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel([say("needle")])) as (its_engine, server, client):
        thread, other = (await created(its_engine)).id, (await created(its_engine)).id
        await whole_turn(its_engine, thread)
        async with following(server, thread) as page, following(server, f"{other}&threads=1") as list_watcher:
            await page.hear()
            await list_watcher.hear()
            await list_watcher.hear()
            deleted = await client.delete(f"/threads/{thread}", headers=JSON)
            assert (deleted.status_code, deleted.content) == (204, b"")
            with anyio.fail_after(60):
                assert (await list_watcher.hear()) == {"type": "threads", "threads": []}
                await page.socket.wait_closed()
        assert (await client.get(f"/threads/{thread}")).status_code == 404
        assert [row["id"] for row in (await client.get("/threads")).json()["threads"]] == [other]
        assert (await client.get("/threads?search=needle")).json()["threads"] == []
        assert (await client.delete(f"/threads/{thread}", headers=JSON)).status_code == 404


async def test_a_thread_that_runs_is_not_deleted(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel([hang()])) as (_, server, client):
        thread = (await client.post("/threads", json={})).json()["thread"]["id"]
        async with following(server, thread) as page:
            await page.hear()
            await page.send({"type": "submit", "prompt": "go"})
            await page.until(lambda state: state["status"] == "running")
            refused = await client.delete(f"/threads/{thread}", headers=JSON)
            assert refused.status_code == 409
            assert "interrupt it first" in refused.json()["error"]["message"]
            await page.send({"type": "cancel"})
            await page.until(lambda state: state["status"] == "idle")
            assert (await client.delete(f"/threads/{thread}", headers=JSON)).status_code == 204


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"origin": "https://evil.example", **JSON}, 403), ({"host": "evil.example", **JSON}, 421), ({}, 415)],
)
async def test_no_other_site_deletes_a_thread(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async with house(tmp_path, ScriptedModel()) as (its_engine, _, client):
        thread = (await created(its_engine)).id
        assert (await client.delete(f"/threads/{thread}", headers=headers)).status_code == status
        assert (await client.get(f"/threads/{thread}")).status_code == 200


async def test_threads_are_searched_by_what_was_said_in_them(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel([say("Duly noted.")])) as (its_engine, _, client):
        thread = (await created(its_engine)).id
        await created(its_engine)
        await whole_turn(its_engine, thread)
        page = (await client.get("/threads?search=noted")).json()
        assert [(row["id"], row["match"]) for row in page["threads"]] == [(thread, "Duly noted.")]
        assert page["partial"] is False
        assert (await client.get("/threads?search=nothing")).json()["threads"] == []


async def test_a_thought_says_how_long_it_took(tmp_path: Path) -> None:
    async with house(tmp_path, ScriptedModel([think("Hm. Yes."), say("Done.")])) as (its_engine, _, client):
        thread = (await created(its_engine)).id
        await whole_turn(its_engine, thread)
        state = (await client.get(f"/threads/{thread}")).json()["state"]
        [message] = [one for one in state["messages"] if one["reasoning"]]
        assert isinstance(message["reasoningMs"], int)
        assert message["reasoningMs"] >= 0


async def test_the_past_can_be_had_without_its_beginning(tmp_path: Path) -> None:
    model = ScriptedModel([say("One.")], [say("Two.")], [say("Three.")])
    async with house(tmp_path, model) as (its_engine, _, client):
        thread = (await created(its_engine)).id
        for _ in range(3):
            await whole_turn(its_engine, thread)
        seq = (await client.get(f"/threads/{thread}")).json()["rev"]
        whole = (await client.get(f"/threads/{thread}/at/{seq}")).json()
        assert (len(whole["state"]["messages"]), whole["skipped"]) == (6, 0)
        end = (await client.get(f"/threads/{thread}/at/{seq}?last=2")).json()
        assert (end["state"]["messages"], end["skipped"]) == (whole["state"]["messages"][4:], 4)
        more = (await client.get(f"/threads/{thread}/at/{seq}?last=99")).json()
        assert more == whole
        assert (await client.get(f"/threads/{thread}/at/{seq}?last=0")).status_code == 400
