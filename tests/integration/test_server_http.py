"""The pages' HTTP against the real server: threads, their past, files, and the house itself."""

import subprocess
from pathlib import Path

import anyio
import httpx2
import jsonschema
import msgspec
import pytest

from hames.cli.serve import git_changes
from hames.clock_and_ids import SystemClock
from hames.domain.errors import Misconfigured, UnknownModel
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector
from hames.ports import Provider
from hames.protocols.sync.pages import FileHit, Mark, SandboxReport
from hames.server.http.files import rank_files
from hames.testing.fakes.model import ScriptedModel, call, fail, hang, say, usage
from server_support import events, following, http, running
from situated_engine import situated_engine
from support import PlainTool, created, engine, whole_turn


async def test_threads_are_made_listed_forked_and_archived(tmp_path: Path) -> None:
    model = ScriptedModel([say("One.")], [say("Two.")])
    async with (
        engine(model, clock=SystemClock(), cwd=tmp_path) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        made = await client.post("/threads", json={"title": "T", "approvalPolicy": "never", "agent": "plan"})
        assert made.status_code == 201
        row = made.json()["thread"]
        assert (row["title"], row["status"], row["cwd"], row["archived"]) == ("T", "idle", str(tmp_path), False)
        thread = row["id"]
        await whole_turn(house, thread)
        turn_start = next(
            mark["seq"]
            for mark in (await client.get(f"/threads/{thread}/timeline")).json()["marks"]
            if mark["kind"] == "turn"
        )
        state = (await client.get(f"/threads/{thread}")).json()
        assert state["rev"] == house.loaded(thread).seq
        assert state["state"]["settings"]["approvalPolicy"] == "never"
        assert [message["content"] for message in state["state"]["messages"]] == ["go", "One."]

        forked = await client.post(f"/threads/{thread}/fork", json={"lastSeq": turn_start - 1})
        assert forked.status_code == 201
        fork = forked.json()["thread"]["id"]
        taken_back = (await client.get(f"/threads/{fork}")).json()["state"]
        assert (taken_back["messages"], taken_back["thread"]["forkedFrom"]) == ([], thread)
        whole = (await client.post(f"/threads/{thread}/fork", json={})).json()["thread"]["id"]
        assert len((await client.get(f"/threads/{whole}")).json()["state"]["messages"]) == 2

        listed = await client.get("/threads")
        assert {row["id"] for row in listed.json()["threads"]} == {thread, fork, whole}
        again = await client.get("/threads", headers={"if-none-match": listed.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        archived = await client.post(f"/threads/{fork}/archive", json={})
        assert archived.json()["thread"]["archived"] is True
        changed = await client.get("/threads", headers={"if-none-match": listed.headers["etag"]})
        assert {row["id"] for row in changed.json()["threads"]} == {thread, whole}
        away = await client.get("/threads", params={"archived": "true"})
        assert [row["id"] for row in away.json()["threads"]] == [fork]
        await client.post(f"/threads/{fork}/archive", json={"archived": False})
        page = (await client.get("/threads", params={"limit": 2})).json()
        rest = (await client.get("/threads", params={"limit": 2, "cursor": page["nextCursor"]})).json()
        assert len(page["threads"] + rest["threads"]) == 3
        assert rest["nextCursor"] is None


async def test_a_row_says_what_its_thread_does(tmp_path: Path) -> None:
    model = ScriptedModel([hang()], [call("asking")], [fail("no")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):

        async def status() -> str:
            return (await client.get("/threads")).json()["threads"][0]["status"]

        async with events(client) as reader:
            assert await status() == "idle"
            await client.post("/prompt", json={"content": "one"})
            with anyio.fail_after(60):
                await model.hanging.wait()
            assert await status() == "running"
            await client.post("/cancel")
            await reader.until("status", state="idle")
            await client.post("/prompt", json={"content": "two"})
            asked = await reader.until("approval")
            assert await status() == "approval"
            await client.post(f"/approvals/{asked['id']}", json={"decision": "once"})
            await reader.until("status", state="idle")
            assert await status() == "error"


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/threads/ses_none", None, 404),
        ("GET", "/threads/..%2F..%2Fetc", None, 404),
        ("GET", "/threads?limit=0", None, 400),
        ("GET", "/threads?limit=x", None, 400),
        ("GET", "/threads?cursor=forged", None, 400),
        ("POST", "/threads", {"model": "nobody/knows"}, 400),
        ("POST", "/threads", {"cwd": "relative"}, 400),
        ("POST", "/threads", {"approvalPolicy": "sometimes"}, 400),
        ("POST", "/threads/ses_none/fork", {}, 404),
        ("GET", "/threads/{thread}/at/0", None, 400),
        ("GET", "/threads/{thread}/at/999", None, 404),
        ("GET", "/threads/{thread}/export?format=exe", None, 400),
        ("GET", "/threads/{thread}/tools/none/output", None, 404),
        ("GET", "/threads/{thread}/images/none/0", None, 404),
        ("POST", "/threads/{thread}", {}, 405),
        ("GET", "/prompt", None, 405),
        ("PUT", "/prompt", {}, 405),
        ("GET", "/nothing/here", None, 404),
        ("POST", "/links", {}, 404),
    ],
)
async def test_what_cannot_be_done_is_said_in_one_shape(
    tmp_path: Path, method: str, path: str, body: Json, code: int
) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = await created(house)
        answer = await client.request(method, path.format(thread=thread.id), json=body)
        assert answer.status_code == code
        assert set(answer.json()["error"]) == {"message", "info"}
        assert ("allow" in answer.headers) is (code == 405)


async def test_the_past_of_a_thread_can_be_looked_at(tmp_path: Path) -> None:
    async def long(arguments: dict[str, object], tell) -> str:
        for _ in range(30):
            await tell("0123456789" * 1000)
        return "done"

    model = ScriptedModel([say("One."), call("long")], [say("Two.")])
    async with (
        engine(model, PlainTool("long", long), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = (await created(house)).id
        await whole_turn(house, thread, "say\n  something")
        timeline = (await client.get(f"/threads/{thread}/timeline")).json()
        marks = timeline["marks"]
        assert [mark["seq"] for mark in marks] == sorted(mark["seq"] for mark in marks)
        assert timeline["seq"] == marks[-1]["seq"]
        kinds = [mark["kind"] for mark in marks]
        assert [kinds[0], kinds[1], kinds[2], kinds[-1]] == ["other", "turn", "user", "end"]
        assert {"assistant", "tool"} <= set(kinds)
        assert all(len(mark["label"]) <= 120 and "\n" not in mark["label"] for mark in marks)
        prompt = next(mark for mark in marks if mark["kind"] == "user")
        assert prompt["label"] == "say something"
        state = (await client.get(f"/threads/{thread}")).json()["state"]
        ids = {message["id"] for message in state["messages"]}
        assert {mark["messageId"] for mark in marks if mark["kind"] in ("user", "assistant", "tool")} <= ids

        then = (await client.get(f"/threads/{thread}/at/{prompt['seq']}")).json()
        assert (then["rev"], then["at"]) == (prompt["seq"], prompt["at"])
        assert then["state"]["status"] == "running"
        assert [message["status"] for message in then["state"]["messages"]] == ["complete", "pending"]
        last = (await client.get(f"/threads/{thread}/at/{timeline['seq']}")).json()
        assert last["state"] == state

        tool = state["messages"][1]["toolCalls"][0]
        assert tool["outputTruncated"] is True
        assert len(tool["output"]) <= 65536
        whole = await client.get(f"/threads/{thread}/tools/{tool['id']}/output")
        assert len(whole.text) == 300_000
        assert whole.text.endswith(tool["output"])

        markdown = await client.get(f"/threads/{thread}/export")
        assert markdown.headers["content-type"].startswith("text/markdown")
        assert "## You\n\nsay\n  something" in markdown.text
        assert "One." in markdown.text
        records = (await client.get(f"/threads/{thread}/export", params={"format": "json"})).json()
        assert records[0]["event"]["type"] == "thread_created"
        assert [record["seq"] for record in records] == list(range(1, len(records) + 1))


@pytest.mark.needs("rg")
async def test_files_are_found_by_a_few_letters(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("src/login.py", "src/logout.py", "docs/login.md", ".hidden/x.txt", "node_modules/login.js"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x")
    (work / ".gitignore").write_text("node_modules\n")
    (work / "outside").symlink_to("/etc")
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    async with (
        engine(ScriptedModel(), clock=SystemClock(), cwd=work) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = await created(house)
        found = (await client.get("/files", params={"thread": thread.id, "query": "login"})).json()["files"]
        assert [hit["path"] for hit in found] == ["src/login.py", "docs/login.md"]
        folder = (await client.get("/files", params={"query": "src", "limit": 1})).json()["files"]
        assert folder == [{"path": "src", "kind": "directory"}]
        everything = (await client.get("/files", params={"query": ""})).json()["files"]
        paths = {hit["path"] for hit in everything}
        assert not [path for path in paths if path.startswith((".git/", "node_modules", "outside/"))]
        assert (await client.get("/files", params={"thread": "ses_none"})).status_code == 404


async def test_caches_and_compiled_files_are_not_offered_even_without_an_ignore_file(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in (
        "stats.py",
        "__pycache__/stats.pyc",
        "a/node_modules/stats.js",
        ".venv/stats.py",
        ".pytest_cache/stats",
        "build/stats.cpython-311.pyc",
        "lib/stats.so",
        "Stats.class",
        "stats.o",
        ".DS_Store",
    ):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x")
    async with (
        engine(ScriptedModel(), clock=SystemClock(), cwd=work) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        found = (await client.get("/files", params={"query": ""})).json()["files"]
        assert [hit["path"] for hit in found] == ["stats.py"]


@pytest.mark.needs("bwrap")
async def test_git_says_what_commands_changed_in_the_folder_of_a_thread(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "stats.py").write_text("one\n")
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    async with (
        engine(ScriptedModel(), clock=SystemClock(), cwd=work) as house,
        running(house, tmp_path / "data", git_changes=git_changes) as server,
        http(server) as client,
    ):
        thread = await created(house)
        answer = (await client.get(f"/threads/{thread.id}/git-diff", timeout=60)).json()
        assert answer["files"] == []
        assert "not in a git repository" in answer["problem"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
            subprocess.run([*git, *words], check=True)
        (work / "stats.py").write_text("two\n")
        (work / "new.txt").write_text("new\n")
        answer = (await client.get(f"/threads/{thread.id}/git-diff", timeout=60)).json()
        assert answer["problem"] == ""
        assert [(one["path"], one["kind"]) for one in answer["files"]] == [("stats.py", "modify"), ("new.txt", "add")]
        assert "-one\n+two" in answer["files"][0]["diff"]
        assert (await client.get("/threads/ses_none/git-diff")).status_code == 404


@pytest.mark.needs("bwrap")
async def test_background_processes_are_listed_with_the_end_of_their_output_and_ended(tmp_path: Path) -> None:
    lines = "for n in $(seq 3000); do echo line $n; done; exec sleep 600"
    model = ScriptedModel([call("shell", command=lines, background=True)], [say("It runs.")])
    async with (
        situated_engine(model, tmp_path) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = (await created(house)).id
        assert (await client.get(f"/threads/{thread}/processes")).json() == {"processes": []}
        await whole_turn(house, thread)
        [one] = (await client.get(f"/threads/{thread}/processes", timeout=60)).json()["processes"]
        assert (one["number"], one["command"], one["running"], one["exitCode"]) == (1, lines, True, None)
        assert one["tail"].startswith("line ")
        assert one["tail"].endswith("line 2999\nline 3000\n")
        assert 7_000 < len(one["tail"]) <= 8_000
        [ended] = (await client.post(f"/threads/{thread}/processes/1/end", json={}, timeout=60)).json()["processes"]
        assert not ended["running"]
        again = await client.post(f"/threads/{thread}/processes/1/end", json={})
        assert (again.status_code, "runs no process 1" in again.text) == (400, True)
        assert (await client.post(f"/threads/{thread}/processes/x/end", json={})).status_code == 400
        assert (await client.get("/threads/ses_none/processes")).status_code == 404


async def test_what_fills_the_window_is_told_over_http(tmp_path: Path) -> None:
    model = ScriptedModel([say("One.")])
    async with (
        engine(model, clock=SystemClock(), cwd=tmp_path) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = (await created(house)).id
        await whole_turn(house, thread, "word " * 4_000)
        found = (await client.get(f"/threads/{thread}/context")).json()
        assert found["parts"][0]["name"] == "user messages"
        assert found["parts"][0]["tokens"] > 1_000
        assert found["window"] >= found["limit"] > 0
        assert (await client.get("/threads/ses_none/context")).status_code == 404


@pytest.mark.parametrize("token", [None, "a-long-enough-token-for-a-test-0123456789"])
async def test_the_status_says_whether_a_device_can_be_added(tmp_path: Path, token: str | None) -> None:
    async with (
        engine(ScriptedModel(), clock=SystemClock(), cwd=tmp_path) as house,
        running(house, tmp_path / "data", token=token) as server,
        http(server, **({"authorization": f"Bearer {token}"} if token else {})) as client,
    ):
        assert (await client.get("/status")).json()["canAddDevices"] is (token is not None)
        assert (await client.get("/status")).json()["maxSteps"] == house.rules.max_steps


def test_the_best_match_comes_first() -> None:
    names = ("a/xlogx/y.py", "zlog.py", "log.py", "l/o/g.py", "other.py")
    hits = [FileHit(path=name, kind="file") for name in names]
    assert [hit.path for hit in rank_files(hits, "LOG", 10)] == ["log.py", "zlog.py", "a/xlogx/y.py", "l/o/g.py"]
    assert len(rank_files(hits, "", 2)) == 2


class Keyless:
    """Two providers, one without its key."""

    default = "good/one"

    def cards(self) -> list[ModelCard]:
        return [
            ModelCard(provider="good", model="one", display_name="One"),
            ModelCard(provider="bad", model="two", display_name="Two"),
            ModelCard(provider="good", model="old", display_name="Old", successor="good/one"),
        ]

    def find(self, name: str) -> ModelCard:
        for card in self.cards():
            if card.id == name:
                return card
        raise UnknownModel(f"no model {name!r}")

    def selectors(self) -> list[Selector]:
        return []

    def provider(self, card: ModelCard) -> Provider:
        if card.provider == "bad":
            raise Misconfigured("set BAD_KEY")
        return ScriptedModel(name="good")


async def test_the_house_says_what_it_offers_and_what_it_lacks(tmp_path: Path) -> None:
    async def report() -> SandboxReport:
        return SandboxReport(ok=False, message="bubblewrap is missing")

    async with (
        engine(Keyless(), clock=SystemClock(), cwd=tmp_path) as house,
        running(house, tmp_path / "data", demo_model="scripted/demo", sandbox=report) as server,
        http(server) as client,
        following(server) as page,
    ):
        told = (await client.get("/status")).json()
        assert (told["name"], told["version"], told["cwd"]) == ("hames", "0.0.test", str(tmp_path))
        assert (told["defaultModel"], told["demoModel"]) == ("good/one", "scripted/demo")
        assert told["sandbox"] == {"ok": False, "message": "bubblewrap is missing"}
        offered = [(model["id"], model["available"], model["problem"]) for model in told["models"]]
        assert offered == [("good/one", True, ""), ("bad/two", False, "set BAD_KEY")]
        assert (await page.hear())["state"]["models"] == told["models"]


async def test_the_description_is_true(tmp_path: Path) -> None:
    async with (
        engine(ScriptedModel([say("Hi.")]), clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
    ):
        thread = (await created(house)).id
        await whole_turn(house, thread)
        told = (await client.get("/openapi.json")).json()
        assert told["openapi"] == "3.1.0"
        assert {"/events", "/prompt", "/cancel", "/approvals/{id}", "/threads", "/threads/{id}"} <= told["paths"].keys()
        for path in ("/status", "/threads", "/threads/{id}", "/threads/{id}/timeline", "/files", "/healthz"):
            answer = await client.get(path.format(id=thread))
            content = told["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
            schema = {**content["schema"], "components": told["components"]}
            jsonschema.validate(answer.json(), schema)


async def test_the_house_counts_what_happens(tmp_path: Path) -> None:
    model = ScriptedModel([call("echo"), usage(input_tokens=7, output_tokens=3)], [say("Hi.")])
    async with (
        engine(model, clock=SystemClock()) as house,
        running(house, tmp_path / "data") as server,
        http(server) as client,
        following(server) as page,
    ):
        await page.hear()
        await page.send({"type": "submit", "prompt": "go"})
        await page.until(lambda state: state["status"] == "idle" and bool(state["messages"]))
        await client.get("/healthz")
        await client.get("/healthz", headers={"host": "evil.example"})
        answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        numbers = dict(line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#"))
        assert numbers["hames_threads_created_total"] == "1"
        assert numbers['hames_turns_ended_total{status="completed"}'] == "1"
        assert numbers['hames_tool_calls_total{kind="ToolCall",status="completed"}'] == "1"
        assert numbers['hames_tokens_total{kind="input",model="scripted/test"}'] == "17"
        assert numbers['hames_refused_total{status="421"}'] == "1"
        assert numbers["hames_sync_clients"] == "1"
        assert numbers["hames_turn_seconds_count"] == "1"
        assert int(numbers["hames_frames_told"]) > 0


async def test_a_browser_signs_in_by_a_link_and_stays_signed_in(tmp_path: Path) -> None:
    token = "a-token-that-nobody-guesses"
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as house,
        running(house, tmp_path / "data", token=token) as server,
        http(server, authorization=f"Bearer {token}") as owner,
        http(server) as browser,
    ):
        assert (await browser.get("/threads")).status_code == 401
        made = await owner.post("/links", json={})
        assert made.status_code == 201
        signed = await browser.get(made.json()["path"])
        assert (signed.status_code, signed.headers["location"]) == (303, "/")
        assert (await browser.get("/threads")).status_code == 200
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False) as thief:
            assert (await thief.get(made.json()["path"])).status_code == 401
            assert (await thief.get("/threads")).status_code == 401
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        async with following(server, additional_headers={"cookie": cookie}) as page:
            assert (await page.hear())["type"] == "state"


def test_names_of_the_answers_are_those_of_the_pages_types() -> None:
    assert msgspec.json.encode(Mark(seq=1, at=2, kind="end", label="x", message_id="m")) == (
        b'{"seq":1,"at":2,"kind":"end","label":"x","messageId":"m"}'
    )
