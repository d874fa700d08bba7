"""The network attacks of the threat list (9 to 15: malformed, slow and hostile requests), against the real listener."""

import socket
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest
from msgspec.structs import replace
from net_support import MIB, house, threads
from websockets.exceptions import ConnectionClosed

from hames.clock_and_ids import SystemClock
from hames.protocols.sse.encoder import SseEncoder
from hames.testing.fakes.model import ScriptedModel, call, hang, say
from server_support import HandClock, closes, events, following, http, port_of, raw, running
from support import created, engine

# NET-9


GET = b"GET /status HTTP/1.1\r\n"


HOST = b"Host: %b\r\n"


POST = b"POST /cancel HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"


ABUSES: dict[str, bytes] = {
    "two hosts": GET + HOST + b"Host: evil.example\r\n\r\n",
    "the same host twice": GET + HOST + b"Host: %b\r\n\r\n",
    "no host": GET + b"\r\n",
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "the same length twice": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "a list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "a signed length": POST + b"Content-Length: +2\r\n\r\n{}",
    "encoding and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "length and encoding": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "trailers": POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nHost: evil.example\r\n\r\n",
    "a folded header": GET + HOST + b"X-A: b\r\n c\r\n\r\n",
    "a folded host": GET + b"Host: %b\r\n .evil.example\r\n\r\n",
    "a space before the colon": GET + b"Host : %b\r\n\r\n",
    "an absolute address": b"GET http://evil.example/status HTTP/1.1\r\n" + HOST + b"\r\n",
    "our own absolute address": b"GET http://%b/status HTTP/1.1\r\n" + HOST + b"\r\n",
    "an authority": b"CONNECT evil.example:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a scheme-relative address": b"GET //evil.example/status HTTP/1.1\r\n" + HOST + b"\r\n",
    "a fragment": b"GET /status#x HTTP/1.1\r\n" + HOST + b"\r\n",
    "bare line feeds": b"GET /status HTTP/1.1\nHost: %b\n\n",
    "a bare carriage return": GET + HOST + b"X-A: b\rX-C: d\r\n\r\n",
    "a NUL in a value": GET + HOST + b"X-A: b\0c\r\n\r\n",
    "a control character in the address": b"GET /\x01 HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /status\r\n\r\n",
    "HTTP/2 by force": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a header of 64 KiB": GET + HOST + b"X-A: " + b"a" * 65536 + b"\r\n\r\n",
    "an address of 64 KiB": b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "many headers": GET + HOST + b"".join(b"X-%d: y\r\n" % n for n in range(8000)) + b"\r\n",
    "a head that never ends": GET + HOST + b"X-A: " + b"a" * 40_000,
}


@pytest.mark.parametrize("abuse", ABUSES.values(), ids=ABUSES.keys())
async def test_net_9_a_request_that_two_readers_could_read_differently_is_refused(tmp_path: Path, abuse: bytes) -> None:
    async with house(tmp_path, ScriptedModel([hang()])) as (_, server):
        host = server.url.removeprefix("http://").encode()
        answer = await raw(server, abuse.replace(b"%b", host))
        assert answer.startswith(b"HTTP/1.1 400 "), answer[:200]
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"connection: close" in answer.lower()


async def test_net_9_a_second_request_behind_a_broken_one_is_not_served(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        host = server.url.removeprefix("http://").encode()
        broken = ABUSES["encoding and length"].replace(b"%b", host)
        answer = await raw(server, broken + GET + (HOST % host) + b"\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b" 200 " not in answer


async def test_net_9_requests_behind_each_other_are_served_in_order(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server):
        host = server.url.removeprefix("http://").encode()
        one = b"GET /healthz HTTP/1.1\r\nHost: %b\r\n\r\n" % host
        last = b"GET /healthz HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host
        answer = await raw(server, one + one + last)
        assert answer.count(b"HTTP/1.1 200 OK") == 3


# NET-10


async def test_net_10_two_hundred_trickling_connections_keep_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hames.server.http.connection.HEAD_SECONDS", 1.0)
    async with house(tmp_path) as (_, server), http(server) as honest:
        before = psutil.Process().memory_info().rss
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(200)]
        for stream in streams:
            with suppress(anyio.BrokenResourceError, OSError):  # the oldest were let go for the newest
                await stream.send(b"G")
        for _ in range(20):
            with anyio.fail_after(60):
                assert (await honest.get("/healthz")).status_code == 200
        for stream in streams:
            assert await closes(stream)
            await stream.aclose()
        assert psutil.Process().memory_info().rss - before < 32 * MIB


async def test_net_10_of_many_that_say_nothing_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hames.server.http.connection.HEAD_SECONDS", 600.0)
    monkeypatch.setattr("hames.server.http.connection.SILENT_SECONDS", 0.0)
    async with house(tmp_path) as (_, server):
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(100)]
        assert all([await closes(stream) for stream in streams[:30]])
        async with http(server) as honest:
            assert (await honest.get("/healthz")).status_code == 200
        for stream in streams:
            await stream.aclose()


async def test_net_10_many_honest_clients_at_once_are_all_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All connect before the first of them says anything, and on a busy machine that takes longer than a moment.
    monkeypatch.setattr("hames.server.http.connection.SILENT_SECONDS", 60.0)
    monkeypatch.setattr("hames.server.http.connection.HEAD_SECONDS", 60.0)
    async with house(tmp_path) as (_, server):
        host = server.url.removeprefix("http://").encode()
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(200)]
        for stream in streams:
            await stream.send(b"GET /healthz HTTP/1.1\r\nHost: %b\r\n\r\n" % host)
        for stream in streams:
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 200 ")
            await stream.aclose()


async def test_net_10_when_the_house_is_full_a_silent_one_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hames.server.http.connection.CONNECTIONS", 20)
    async with house(tmp_path) as (_, server):
        streams = [await anyio.connect_tcp("127.0.0.1", port_of(server)) for _ in range(40)]
        async with http(server) as honest:
            assert (await honest.get("/healthz")).status_code == 200
        assert await closes(streams[0])
        for stream in streams:
            await stream.aclose()


async def test_net_10_a_body_that_trickles_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hames.server.http.connection.BODY_SECONDS", 0.5)
    async with house(tmp_path) as (its_engine, server):
        host = server.url.removeprefix("http://").encode()
        async with await anyio.connect_tcp("127.0.0.1", port_of(server)) as stream:
            await stream.send(b"POST /prompt HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n" % host)
            await stream.send(b"Content-Length: 100\r\n\r\n{")
            assert await closes(stream)
        assert await threads(its_engine) == 0


async def test_net_10_an_event_reader_that_stops_reading_is_dropped_and_memory_stays_flat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hames.protocols.sse.encoder.SseEncoder.rules", replace(SseEncoder.rules, patience_s=1.0))
    model = ScriptedModel(*[[say("x" * 200_000, pieces=1)] for _ in range(60)])
    async with house(tmp_path, model) as (its_engine, server), http(server) as client:
        thread = await created(its_engine)
        host = server.url.removeprefix("http://").encode()
        lazy = await anyio.connect_tcp("127.0.0.1", port_of(server))
        raw_socket: socket.socket = lazy.extra(anyio.abc.SocketAttribute.raw_socket)
        raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await lazy.send(b"GET /events?thread=%b HTTP/1.1\r\nHost: %b\r\n\r\n" % (thread.id.encode(), host))
        async with events(client, f"/events?thread={thread.id}") as reader:
            before = psutil.Process().memory_info().rss
            for _ in range(60):
                answer = await client.post("/prompt", params={"thread": thread.id}, json={"content": "more"})
                assert answer.status_code == 200
                await reader.until("status", state="idle")
            assert len([event for event in reader.events if event["type"] == "text"]) == 60
            grown = psutil.Process().memory_info().rss - before
        with anyio.fail_after(60):
            while server.service.fanout.follower_count(SseEncoder):
                await anyio.sleep(0.05)  # until the server has noticed
        assert grown < 64 * MIB
        await lazy.aclose()


# NET-11


@pytest.mark.parametrize("poison", ["\n\ndata: {}\n\n", "\r\rid: 999\r\r", "\r\nevent: evil\r\n", "id: 7\n\n"])
async def test_net_11_text_cannot_forge_an_event(tmp_path: Path, poison: str) -> None:
    model = ScriptedModel([say(f"a{poison}b"), call("echo", text=poison)], [say("done")])
    async with house(tmp_path, model) as (_, server), http(server) as client:
        async with events(client) as reader:
            await client.post("/prompt", json={"content": f"p{poison}q"})
            await reader.until("status", state="idle")
        kinds = [event["type"] for event in reader.events if event["type"] != "status"]
        assert kinds == ["user", "text", "tool_call", "tool_result", "text"]
        assert reader.events[1]["content"] == f"p{poison}q"
        assert reader.last_id != "999"


# NET-13


POISON = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) <script>alert(1)</script>"


async def test_net_13_hostile_text_is_json_and_nothing_else(tmp_path: Path) -> None:
    model = ScriptedModel([say(POISON), call("echo", text=POISON)], [say("done")])
    async with house(tmp_path, model) as (_, server), http(server) as client:
        made = await client.post("/threads", json={"title": POISON})
        thread = made.json()["thread"]["id"]
        async with following(server, thread) as page:
            await page.hear()
            await page.send({"type": "submit", "prompt": POISON})
            state = await page.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)
        assert state["messages"][0]["content"] == state["messages"][1]["content"] == POISON
        for path in (f"/threads/{thread}", "/threads", f"/threads/{thread}/timeline", f"/threads/{POISON}"):
            answer = await client.get(path)
            assert answer.headers["content-type"] == "application/json"
            assert answer.headers["x-content-type-options"] == "nosniff"
        output = state["messages"][1]["toolCalls"][0]["id"]
        plain = await client.get(f"/threads/{thread}/tools/{output}/output")
        assert plain.headers["content-type"].startswith("text/plain")
        assert plain.headers["x-content-type-options"] == "nosniff"
        exported = await client.get(f"/threads/{thread}/export")
        assert "attachment" in exported.headers["content-disposition"]


async def test_net_13_the_page_runs_no_script_but_its_own(tmp_path: Path) -> None:
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text('<!doctype html><script type="module" src="/assets/a.js"></script>')
    (page / "assets" / "a.js").write_text("1")
    (tmp_path / "secret.js").write_text("secret")
    (page / "link.js").symlink_to(tmp_path / "secret.js")
    async with (
        engine(ScriptedModel(), clock=SystemClock()) as its_engine,
        running(its_engine, tmp_path / "data", page=page) as server,
        http(server) as client,
    ):
        for path in ("/", "/t/ses_1", "/assets/a.js"):
            answer = await client.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self';" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
        host = server.url.removeprefix("http://").encode()
        request = b"GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n"
        for path in ("/link.js", "/assets/../../secret.js", "/assets/%2e%2e/%2e%2e/secret.js", "/secret.js"):
            got = await raw(server, request % (path.encode(), host))
            assert got.startswith(b"HTTP/1.1 404 ")


# NET-14


async def test_net_14_paths_are_made_of_our_own_words(tmp_path: Path) -> None:
    evil = [call("__proto__", constructor={"prototype": 1}), call("constructor"), call("0")]
    model = ScriptedModel(*[[one] for one in evil], [say("done")])
    async with house(tmp_path, model) as (_, server), following(server) as page:
        await page.hear()
        await page.send({"type": "submit", "prompt": "__proto__", "id": "constructor"})
        await page.until(lambda state: state["status"] == "idle" and len(state["messages"]) > 1)
        steps = {
            step
            for message in page.heard
            if message["type"] == "delta"
            for operation in message["operations"]
            for step in operation["path"]
        }
        assert steps
        assert not steps & {"__proto__", "constructor", "prototype"}


# NET-15


async def test_net_15_nonsense_and_floods_of_commands_never_start_two_runs(tmp_path: Path) -> None:
    model = ScriptedModel([hang()])
    async with house(tmp_path, model) as (_, server), following(server) as client:
        await client.hear()
        await client.send({"type": "sudo"})
        await client.send(*[{"type": "cancel"}] * 10_000)
        await client.send(*[{"type": "submit", "prompt": "go", "id": f"p{n}"} for n in range(40)])
        await client.send(*[{"type": "submit", "prompt": "go", "id": f"q{n}"} for n in range(5)])
        state = await client.until(lambda state: len(state["queue"]) == 32)
        while len(client.errors) < 2 + 12:
            await client.hear()
        assert state["status"] == "running"
        assert [message["role"] for message in state["messages"]] == ["user", "assistant"]
        assert len(model.requests) == 1
        assert {error["submitId"] for error in client.errors[2:]} == {
            *(f"p{n}" for n in range(33, 40)),
            *(f"q{n}" for n in range(5)),
        }


async def test_net_15_a_client_that_only_talks_nonsense_is_let_go(tmp_path: Path) -> None:
    async with house(tmp_path) as (_, server), following(server) as client:
        await client.hear()
        with pytest.raises(ConnectionClosed):
            for _ in range(40):
                await client.socket.send("nonsense")
                await client.hear()
        assert client.socket.close_code == 1008
        assert len(client.errors) == 21


async def test_a_flood_of_requests_is_answered_with_patience(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        engine(ScriptedModel(), clock=clock) as its_engine,
        running(its_engine, tmp_path / "data") as server,
        http(server) as client,
    ):
        codes = [(await client.post("/cancel")).status_code for _ in range(203)]
        assert codes == [200] * 200 + [429] * 3
        assert (await client.get("/threads")).status_code == 200
        await clock.advance(1)
        assert (await client.post("/cancel")).status_code == 200


async def test_a_body_that_is_too_long_is_refused_unread(tmp_path: Path) -> None:
    async with house(tmp_path) as (its_engine, server), http(server) as client:
        answer = await client.post("/prompt", content=b" " * (MIB + 1), headers={"content-type": "application/json"})
        assert answer.status_code == 413
        host = server.url.removeprefix("http://").encode()
        head = b"POST /prompt HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n" % host
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        got = await raw(server, head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 17, wait=2)
        assert got.startswith(b"HTTP/1.1 413 ")
        assert await threads(its_engine) == 0
