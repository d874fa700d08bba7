"""Named tokens against the real server: what each role can do over every protocol, and what the log says about it."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from websockets.exceptions import ConnectionClosed

from hames.domain.events import ApprovalResolved, ItemStarted, SettingsChanged, ThreadRenamed, TurnEnded, TurnStarted
from hames.domain.ids import ThreadId
from hames.domain.items import UserMessage
from hames.server.guard.named_tokens import TokenFile
from hames.stdio.principals import account
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from role_server import ask, role_server
from server_support import following, http
from support import created, question, started, turn_end


async def test_an_observer_may_follow_and_is_asked_nothing(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with role_server(tmp_path, model) as here, here.socket("observer", "/flint") as socket:
        thread = (await created(here.engine)).id
        await ask(socket, "initialize", {"clientInfo": {"name": "watcher", "version": "1"}})
        assert "result" in await ask(socket, "thread/resume", {"threadId": thread}, 2)
        await started(here.engine, thread)
        heard: list[Any] = []
        with anyio.fail_after(60):  # nobody who could answer is there: the question is declined after its patience
            while not heard or heard[-1].get("method") != "turn/completed":
                heard.append(json.loads(await socket.recv()))
        assert not [one for one in heard if "id" in one], "an observer was asked"
        answers = [
            change.record.event
            for change in await here.engine.history(thread)
            if isinstance(change.record.event, ApprovalResolved)
        ]
        assert [(one.decision, one.by.kind if one.by else "") for one in answers] == [("reject", "hames")]


async def test_a_driver_prompts_but_neither_answers_nor_loosens(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")])
    async with role_server(tmp_path, model) as here, http(here.server, **here.headers("driver")) as client:
        thread = (await created(here.engine)).id
        watcher = await here.engine.watch(thread)
        assert (await client.post(f"/prompt?thread={thread}", json={"content": "go"})).status_code == 200
        asked = await question(watcher)
        refused = await client.post(f"/approvals/{asked.approval.id}", json={"decision": "once"})
        assert (refused.status_code, "approver" in refused.text) == (403, True)
        allowed = await client.post(
            f"/approvals/{asked.approval.id}", json={"decision": "once"}, headers=here.headers("approver")
        )
        assert allowed.status_code == 200
        await turn_end(watcher)
        for wish in ({"approvalPolicy": "never"}, {"sandbox": {"type": "dangerFullAccess"}}, {"cwd": "/"}):
            answer = await client.post("/threads", json=wish)
            assert (answer.status_code, "approver" in answer.text) == (403, True), wish
        assert (await client.post("/threads", json={"approvalPolicy": "always"})).status_code == 201
        async with following(here.server, thread, additional_headers=here.headers("driver")) as page:
            await page.send({"type": "configure", "approvalPolicy": "never"})
            while not page.errors:
                await page.hear()
            await page.send({"type": "configure", "approvalPolicy": "always"})
            await page.until(
                lambda state: state["settings"]["approvalPolicy"] == "always" if "settings" in state else True
            )
        link = tmp_path / "work"
        link.symlink_to("/")
        answer = await client.post("/threads", json={"cwd": str(link)})
        assert answer.status_code == 403, "a link led out of the directory"


async def test_the_log_says_who_did_what_and_from_where(tmp_path: Path) -> None:
    model = ScriptedModel([call("asking", text="x")], [say("Done.")], [hang()])
    async with role_server(tmp_path, model) as here, http(here.server) as client:
        thread = ThreadId(
            (await client.post("/threads", json={}, headers=here.headers("owner"))).json()["thread"]["id"]
        )
        watcher = await here.engine.watch(thread)
        origin = {"origin": here.server.url}
        async with here.socket("driver", "/flint") as socket:
            await ask(socket, "initialize", {"clientInfo": {"name": "Zed", "version": "1"}})
            await ask(socket, "thread/resume", {"threadId": thread}, 2)
            await ask(socket, "turn/start", {"threadId": thread, "input": [{"type": "text", "text": "go"}]}, 3)
            asked = await question(watcher)
            await client.post(
                f"/approvals/{asked.approval.id}",
                json={"decision": "once"},
                headers={**here.headers("approver"), **origin},
            )
            await turn_end(watcher)
            await ask(socket, "turn/start", {"threadId": thread, "input": [{"type": "text", "text": "again"}]}, 4)
            await client.post(f"/cancel?thread={thread}", headers={**here.headers("owner")})
            await turn_end(watcher)
            await ask(socket, "thread/name/set", {"threadId": thread, "name": "x"}, 5)
        async with following(here.server, thread, additional_headers=here.headers("approver")) as sync:
            await sync.send({"type": "configure", "approvalPolicy": "never"})
            await sync.until(lambda state: True)
            with anyio.fail_after(60):
                while watcher.state.settings.approval_policy != "never":
                    watcher.state = (await watcher.next())[-1].after
        found = [change.record.event for change in await here.engine.history(thread)]
    who = {}
    for event in found:
        match event:
            case TurnStarted(by=by):
                who.setdefault("prompt", by)
            case ItemStarted(item=UserMessage(by=by)):
                who.setdefault("message", by)
            case ApprovalResolved(by=by):
                who["answer"] = by
            case TurnEnded(status="interrupted", by=by):
                who["interrupt"] = by
            case ThreadRenamed(by=by):
                who["name"] = by
            case SettingsChanged(by=by):
                who["settings"] = by
            case _:
                pass
    told = {what: (by.kind, by.name, by.via, by.client) for what, by in who.items()}
    assert told == {
        "prompt": ("token", "driver-1", "flint", "Zed"),
        "message": ("token", "driver-1", "flint", "Zed"),
        "answer": ("token", "approver-1", "page", ""),
        "interrupt": ("token", "owner", "http", ""),
        "name": ("token", "driver-1", "flint", "Zed"),
        "settings": ("token", "approver-1", "sync", ""),
    }


async def test_without_a_token_it_is_the_account_and_a_named_token_still_counts(tmp_path: Path) -> None:
    async with role_server(tmp_path, ScriptedModel(), token=None) as here, http(here.server) as client:
        made = (await client.post("/threads", json={})).json()["thread"]["id"]
        first = next(iter(await here.engine.history(ThreadId(made)))).record.event
        assert (first.by.kind, first.by.name) == ("user", account())
        assert (await client.post("/threads", json={}, headers=here.headers("observer"))).status_code == 403
        TokenFile(tmp_path / "state").revoke("observer-1")
        assert (await client.get("/threads", headers=here.headers("observer"))).status_code == 401


@pytest.mark.parametrize("path", ["/ws?thread={}", "/flint", "/bootstrap"])
async def test_a_revoked_token_loses_its_open_sockets(tmp_path: Path, path: str) -> None:
    async with role_server(tmp_path, ScriptedModel()) as here:
        thread = (await created(here.engine)).id
        async with (
            here.socket("driver", path.format(thread)) as socket,
            here.socket("approver", path.format(thread)) as other,
        ):
            TokenFile(tmp_path / "state").revoke("driver-1")
            with pytest.raises(ConnectionClosed) as closed, anyio.fail_after(60):
                while True:
                    await socket.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
            pong = await other.ping()
            with anyio.fail_after(60):
                await pong


async def test_a_revoked_token_loses_its_open_stream(tmp_path: Path) -> None:
    async with role_server(tmp_path, ScriptedModel()) as here, http(here.server, **here.headers("observer")) as client:
        thread = (await created(here.engine)).id
        async with client.stream("GET", f"/events?thread={thread}") as stream:
            assert stream.status_code == 200
            TokenFile(tmp_path / "state").revoke("observer-1")
            with anyio.fail_after(60):
                try:
                    async for _ in stream.aiter_raw():
                        pass
                except Exception as ended:
                    assert "close" in str(ended).lower() or "read" in str(ended).lower() or not str(ended)
        assert (await client.get("/threads")).status_code == 401


async def test_a_browser_that_is_invited_has_the_role_of_whoever_invited_it(tmp_path: Path) -> None:
    async with role_server(tmp_path, ScriptedModel()) as here, http(here.server) as browser:
        made = (await browser.post("/links", json={}, headers=here.headers("driver"))).json()
        assert (await browser.post("/sign-in", json={"code": made["code"]})).status_code == 200
        status = (await browser.get("/status")).json()
        assert (status["role"], status["user"]) == ("driver", "driver-1")
        cookie = dict(browser.cookies)
        for name, value in cookie.items():  # nobody can make another name of it
            forged = {name: value.replace("driver-1", "approver-1")}
            browser.cookies.clear()
            assert (await browser.get("/status", cookies=forged)).status_code == 401
        browser.cookies.update(cookie)
        TokenFile(tmp_path / "state").revoke("driver-1")
        assert (await browser.get("/status")).status_code == 401


async def test_a_browser_signs_in_with_a_token_typed_in_place_of_a_code(tmp_path: Path) -> None:
    async with role_server(tmp_path, ScriptedModel()) as here, http(here.server) as browser:
        token = here.headers("observer")["authorization"].split()[1]
        assert (await browser.post("/sign-in", json={"code": token[:-1]})).status_code == 401
        assert (await browser.post("/sign-in", json={"code": f" {token}\n"})).status_code == 200
        status = (await browser.get("/status")).json()
        assert (status["role"], status["user"]) == ("observer", "observer-1")
        TokenFile(tmp_path / "state").revoke("observer-1")
        assert (await browser.get("/status")).status_code == 401
