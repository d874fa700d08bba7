"""Hosts that commands may reach by name: the proxy's gate, the TLS server name, questions, and a real sandbox."""

import ssl
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Literal

import anyio
import pytest
from anyio.abc import SocketStream
from msgspec.structs import replace
from network_support import PUBLIC, StandIn, listening, proxying, say, web_server
from test_network_access import Site
from test_network_proxy import HOSTS, ODD, socks
from walls import bubblewraps, run, workspace

from hames.core.engine import Engine
from hames.core.watcher import Watcher
from hames.domain.approvals import Harmless, RunCommand
from hames.domain.commands import InterruptTurn, ReadThread, ResolveApproval
from hames.domain.errors import InvalidCommand
from hames.domain.events import ApprovalRequested, ApprovalResolved, TurnEnded
from hames.domain.items import CommandExecution, ToolCall, ToolItem, ToolResult
from hames.domain.network import HostPort, NetworkRules, network_rules
from hames.domain.policy import ApprovalPolicy, Decision, HostGrant, ReadOnly, SandboxPolicy, WorkspaceWrite
from hames.domain.rules import Rule
from hames.domain.rulings import Verdict, decide
from hames.domain.state import ThreadState
from hames.ports import Job, Tell, ToolSpec
from hames.sandbox.local import LocalSandbox, SandboxSettings
from hames.sandbox.trust.rules.book import FileRuleBook
from hames.sandbox.walls.network.client_hello import asked_server_name
from hames.sandbox.walls.network.destinations import Destination, Malformed
from hames.sandbox.walls.network.host_gate import ASKED_ABOUT, HostGate
from hames.sandbox.walls.network.outside import upstream_proxies
from hames.sandbox.walls.network.proxy import ProxyLimits
from hames.testing.fakes.model import ScriptedModel, call
from hames.testing.fakes.model import say as reply
from situated_engine import results, situated_engine
from support import created, engine, question, started, turn_end, until

OTHER = "93.184.216.35"
NAMES: dict[str, list[list[str]]] = {
    "allowed.test": [[PUBLIC]],
    "denied.test": [[OTHER]],
    "private.test": [["10.0.0.5"]],
    "loopback.test": [["127.0.0.1"]],
}
ONLY_ALLOWED = NetworkRules(allow=("allowed.test", "private.test", "loopback.test"))


def hello(name: str | None, *, size: int | None = None) -> bytes:
    """A real first message of TLS. `size`: the same message in TLS records of so many bytes."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    whole = outgoing.read()
    if size is None:
        return whole
    body = whole[5:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(whole[:3] + len(piece).to_bytes(2, "big") + piece for piece in pieces)


def answers(given: Callable[[HostPort], str], asked: list[HostPort]) -> Callable[[HostPort], str]:
    def ask(to: HostPort) -> str:
        asked.append(to)
        return given(to)

    return ask


FIRST_WORDS = hello("allowed.test")


async def attempted(data: bytes, gate: HostGate, *, names: dict[str, list[list[str]]] = NAMES) -> tuple[bytes, StandIn]:
    """What the proxy answers, and what it did. Both servers only say that they were reached."""

    async def handle(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\nreached")
        await stream.aclose()

    async with listening(handle) as port:
        outside = StandIn({name: list(found) for name, found in names.items()}, {PUBLIC: port, OTHER: port})
        async with proxying(outside, limits=ProxyLimits(request_seconds=2), gate=gate) as (_, at):
            return await say(at, data, end=True), outside


# Patterns


@pytest.mark.parametrize(
    "entry",
    [
        *("", "*.", "*.org", "a.*.org", "*a.org", "http://a.org", "a.org/x", "1.2.3.4", "127.1", "0x7f.1", "[::1]:80"),
        *("::1", "a.org:0", "a.org:99999", "a.org:x", "a.org:", "u@a.org", "@unknown", "ａ.org", "a b.org", "a..org"),
        "-.org",
    ],
)
def test_an_entry_that_names_no_host_is_refused(entry: str) -> None:
    with pytest.raises(InvalidCommand, match="network: "):
        network_rules((entry,))


def test_a_deny_is_stronger_than_everything_else() -> None:
    rules = NetworkRules(allow=("*", "evil.test:8443"), deny=("evil.test",))
    to = HostPort(host="evil.test", port=8443)
    intent = RunCommand(command="x", cwd="/", connects_to=to, is_running=True)
    for access in (False, True):
        for policy in ("never", "onRequest", "unlessTrusted", "always"):
            ruling = decide(
                intent,
                policy=policy,
                sandbox=WorkspaceWrite(network_access=access, network=rules),
                grants=(HostGrant(host="evil.test", port=8443),),
                verdict=Verdict(trusted=True),
            )
            assert ruling.action == "deny"


@pytest.mark.parametrize(
    ("policy", "action"), [("never", "deny"), ("onRequest", "ask"), ("unlessTrusted", "ask"), ("always", "ask")]
)
def test_a_host_that_is_not_named_is_asked_about_where_somebody_can_be_asked(policy: str, action: str) -> None:
    intent = RunCommand(command="x", cwd="/", connects_to=HostPort(host="new.test", port=443), is_running=True)

    def ruled(sandbox: object, grants: tuple[HostGrant, ...] = ()) -> str:
        return decide(
            intent,
            policy=policy,  # type: ignore[arg-type]
            sandbox=sandbox,  # type: ignore[arg-type]
            grants=grants,
            verdict=Verdict(trusted=True),
        ).action

    assert ruled(WorkspaceWrite(network=NetworkRules())) == action
    assert ruled(WorkspaceWrite(network=NetworkRules(allow=("new.test",)))) == "allow"
    assert ruled(WorkspaceWrite(network=NetworkRules()), (HostGrant(host="new.test", port=443),)) == "allow"
    assert ruled(WorkspaceWrite(network=NetworkRules()), (HostGrant(host="new.test", port=80),)) == action
    assert ruled(WorkspaceWrite()) == "deny"
    assert ruled(ReadOnly()) == "deny"


# The gate in the proxy


NOT_NAMED = ["denied.test", "DENIED.test.", "x.allowed.test", "allowed.test.denied.test"]


async def test_no_spelling_of_a_host_that_is_not_named_is_reached() -> None:
    asked: list[HostPort] = []
    async with listening(_reached) as port:
        outside = StandIn({name: list(found) for name, found in NAMES.items()}, {PUBLIC: port, OTHER: port})
        for host in (*HOSTS, *ODD, *NOT_NAMED):
            raw = host.encode()
            gate = HostGate(ONLY_ALLOWED, ask=answers(lambda to: "was declined by the user", asked))
            async with proxying(outside, limits=ProxyLimits(request_seconds=2), gate=gate) as (_, at):
                for data in (
                    b"GET http://%b/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n" % raw,
                    b"CONNECT %b:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n" % raw + FIRST_WORDS,
                    socks(raw.strip(b"[]")[:255], 443),
                ):
                    await say(at, data, end=True)
                    assert outside.dialled == [], host
    assert asked
    assert all(to.host not in ("127.0.0.1", "localhost") for to in asked)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET http://allowed.test/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 200"),
        (b"GET http://allowed.test:8080/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 403"),
        (b"CONNECT allowed.test:22 HTTP/1.1\r\n\r\n", b"HTTP/1.1 403"),
        (b"GET http://93.184.216.34/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", b"HTTP/1.1 403"),
        (b"CONNECT 93.184.216.34:443 HTTP/1.1\r\n\r\n", b"HTTP/1.1 403"),
        (b"GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", b"HTTP/1.1 403"),
        (b"GET http://allowed.test@denied.test/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET http://private.test/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 403"),
        (b"GET http://loopback.test/ HTTP/1.1\r\n\r\n", b"HTTP/1.1 403"),
    ],
)
async def test_only_named_hosts_are_reached_and_only_on_the_usual_ports(data: bytes, status: bytes) -> None:
    answer, outside = await attempted(data, HostGate(ONLY_ALLOWED))
    assert answer[:12] == status
    assert len(outside.dialled) == (1 if status.endswith(b"200") else 0)


async def test_a_named_host_that_is_rebound_is_dialled_at_the_checked_address_or_not_at_all() -> None:
    names = {"allowed.test": [[PUBLIC], ["127.0.0.1"], ["169.254.169.254"]]}
    gate = HostGate(NetworkRules(allow=("allowed.test",)))
    data = b"GET http://allowed.test/ HTTP/1.1\r\n\r\n"
    answer, outside = await attempted(data, gate, names=names)
    assert (answer[:12], outside.dialled) == (b"HTTP/1.1 200", [(PUBLIC, 80)])
    for again in (names["allowed.test"][1:], names["allowed.test"][2:]):
        answer, outside = await attempted(data, gate, names={"allowed.test": again})
        assert (answer[:12], outside.dialled) == (b"HTTP/1.1 403", [])


async def test_a_users_proxy_is_not_asked_for_what_is_not_named() -> None:
    async def handle(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")

    async with listening(handle) as port:
        outside = StandIn({**NAMES, "corp.test": [[PUBLIC]]}, {PUBLIC: port})
        upstream = upstream_proxies({"HTTPS_PROXY": "http://corp.test:3128", "HTTP_PROXY": "http://corp.test:3128"})
        async with proxying(outside, upstream=upstream, gate=HostGate(ONLY_ALLOWED)) as (_, at):
            for data in (b"CONNECT denied.test:443 HTTP/1.1\r\n\r\n", b"GET http://denied.test/ HTTP/1.1\r\n\r\n"):
                assert (await say(at, data, end=True))[:12] == b"HTTP/1.1 403"
        assert outside.dialled == []


# TLS


def test_the_server_name_is_found_in_any_number_of_pieces() -> None:
    for whole in (hello("Allowed.Test"), hello("allowed.test", size=1), hello("allowed.test", size=100)):
        assert asked_server_name(whole) == "allowed.test"
        assert asked_server_name(whole + b"more") == "allowed.test"
        for end in range(0, len(whole), 7):
            assert asked_server_name(whole[:end]) is None


def test_a_first_message_that_is_damaged_names_nobody() -> None:
    whole = hello("allowed.test")
    for at in range(len(whole)):
        for value in (0, 1, 0x7F, 0xFF):
            try:
                found = asked_server_name(whole[:at] + bytes([value]) + whole[at + 1 :])
            except Malformed:
                continue
            assert found is None or isinstance(found, str)


def grown(whole: bytes, kind: int, body: bytes) -> bytes:
    """The same message with one more extension."""
    more = kind.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body
    handshake = whole[5:]
    at = 4 + 2 + 32
    at += 1 + handshake[at]
    at += 2 + int.from_bytes(handshake[at : at + 2], "big")
    at += 1 + handshake[at]
    size = int.from_bytes(handshake[at : at + 2], "big") + len(more)
    handshake = handshake[:at] + size.to_bytes(2, "big") + handshake[at + 2 :] + more
    handshake = handshake[:1] + (len(handshake) - 4).to_bytes(3, "big") + handshake[4:]
    return whole[:3] + len(handshake).to_bytes(2, "big") + handshake


NOT_FOR_IT = {
    "another name": hello("denied.test"),
    "another name in pieces": hello("denied.test", size=3),
    "no name": hello(None),
    "a name below it": hello("x.allowed.test"),
    "an encrypted name": grown(hello("allowed.test"), 0xFE0D, b"\0" * 8),
    "two names": grown(hello("allowed.test"), 0, b"\0\x0e\0\0\x0bdenied.test"),
    "plain HTTP": b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n",
    "ssh": b"SSH-2.0-x\r\n",
    "TLS of 1995": b"\x80\x2e\x01\x00\x02" + b"\0" * 44,
    "endless": b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + b"\0" * 70_000,
    "nothing": b"",
}


@pytest.mark.parametrize("what", NOT_FOR_IT)
@pytest.mark.parametrize("way", ["CONNECT", "SOCKS"])
async def test_a_tunnel_to_a_named_host_is_not_used_for_another(what: str, way: str) -> None:
    ask = b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n" if way == "CONNECT" else socks(b"allowed.test", 443)
    answer, _ = await attempted(ask + NOT_FOR_IT[what], HostGate(ONLY_ALLOWED))
    assert b"reached" not in answer


@pytest.mark.parametrize(
    ("port", "sent", "reached"),
    [
        (443, hello("ALLOWED.test"), True),
        (443, hello("allowed.test", size=50), True),
        (8443, hello("allowed.test"), True),
        (8443, hello("denied.test"), False),
        (8443, b"hello, this is another protocol", True),
    ],
)
async def test_a_tunnel_for_the_named_host_is_passed_on(port: int, sent: bytes, *, reached: bool) -> None:
    gate = HostGate(NetworkRules(allow=("allowed.test", "allowed.test:8443")))
    answer, _ = await attempted(b"CONNECT allowed.test:%d HTTP/1.1\r\n\r\n" % port + sent, gate)
    assert (b"reached" in answer) == reached


async def test_a_server_may_speak_first_on_a_named_port() -> None:
    async def handle(stream: SocketStream) -> None:
        await stream.send(b"220 hello\r\n")
        await stream.send(b"you said " + await stream.receive())
        await stream.aclose()

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        gate = HostGate(NetworkRules(allow=("allowed.test:25",)))
        async with proxying(outside, gate=gate) as (_, at), await anyio.connect_tcp("127.0.0.1", at) as stream:
            with anyio.fail_after(60):
                await stream.send(b"CONNECT allowed.test:25 HTTP/1.1\r\n\r\n")
                said = b""
                while b"220 hello" not in said:
                    said += await stream.receive()
                await stream.send(b"EHLO x")
                while b"EHLO" not in said:
                    said += await stream.receive()


# Questions in the proxy


async def test_each_host_is_asked_about_once_and_the_answer_is_for_this_command() -> None:
    asked: list[HostPort] = []
    gate = HostGate(NetworkRules(), ask=answers(lambda to: "" if to.host == "allowed.test" else "was declined", asked))
    async with listening(_reached) as port:
        outside = StandIn({name: list(found) for name, found in NAMES.items()}, {PUBLIC: port, OTHER: port})
        async with proxying(outside, gate=gate) as (proxy, at):
            statuses: list[bytes] = []

            async def one(host: bytes) -> None:
                statuses.append((await say(at, b"GET http://%b/ HTTP/1.1\r\n\r\n" % host))[:12])

            async with anyio.create_task_group() as tasks:
                for host in (b"allowed.test", b"denied.test") * 5:
                    tasks.start_soon(one, host)
            assert sorted(statuses) == [b"HTTP/1.1 200"] * 5 + [b"HTTP/1.1 403"] * 5
            assert "refused: denied.test:80 was declined" in proxy.notes
    assert sorted(map(str, asked)) == ["allowed.test:80", "denied.test:80"]


async def _reached(stream: SocketStream) -> None:
    await stream.receive()
    await stream.send(b"HTTP/1.1 200 OK\r\n\r\nreached")
    await stream.aclose()


async def test_a_command_that_wants_very_many_hosts_is_not_asked_about_for_ever() -> None:
    asked: list[HostPort] = []
    gate = HostGate(NetworkRules(), ask=answers(lambda to: "was declined", asked))
    async with proxying(StandIn(), gate=gate) as (_, at):
        for number in range(ASKED_ABOUT + 3):
            answer = await say(at, b"GET http://h%d.test/ HTTP/1.1\r\n\r\n" % number)
            assert answer.startswith(b"HTTP/1.1 403")
    assert len(asked) == ASKED_ABOUT


async def test_a_question_that_is_open_when_the_command_ends_does_not_keep_the_proxy() -> None:
    never: Future[str] = Future()
    asked = anyio.Event()
    token = anyio.lowlevel.current_token()

    def ask(to: HostPort) -> str:
        anyio.from_thread.run_sync(asked.set, token=token)
        return never.result()

    with anyio.fail_after(60):
        async with (
            proxying(StandIn(), gate=HostGate(NetworkRules(), ask=ask)) as (_, at),
            await anyio.connect_tcp("127.0.0.1", at) as stream,
        ):
            await stream.send(b"GET http://new.test/ HTTP/1.1\r\n\r\n")
            await asked.wait()
    never.cancel()


async def test_more_than_the_limit_of_bytes_ends_every_connection() -> None:
    async def handle(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send(b"x" * 65536)

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        limits = ProxyLimits(most_bytes=1_000_000)
        async with proxying(outside, limits=limits, gate=HostGate(ONLY_ALLOWED)) as (proxy, at):
            answer = await say(at, b"GET http://allowed.test/ HTTP/1.1\r\n\r\n")
            assert len(answer) < 2_000_000
            assert proxy.notes[1] == "the network was closed: this command sent and received more than 1.0 MB"
            with pytest.raises(OSError):
                await anyio.connect_tcp("127.0.0.1", at)


# A real sandbox

needs_walls = pytest.mark.needs("bwrap", "bash", "curl")


@needs_walls
async def test_named_hosts_are_reached_and_the_rest_fails_closed_with_a_sentence() -> None:
    with workspace() as here, web_server(Site) as port:
        for bubblewrap in bubblewraps()[:1]:
            outside = StandIn({name: list(found) for name, found in NAMES.items()}, {PUBLIC: port, OTHER: port})
            sandbox = LocalSandbox(SandboxSettings(bubblewrap=bubblewrap), outside=outside)
            command = (
                "curl -s http://allowed.test/page; curl -s http://denied.test/;"
                " curl -s --noproxy '*' -m 3 http://allowed.test/ || echo no way around: $?;"
                " (echo > /dev/tcp/93.184.216.34/80) 2>/dev/null || echo no raw socket"
            )
            done = await run(command, here, WorkspaceWrite(network=ONLY_ALLOWED), sandbox=sandbox)
            sandbox.close()
            assert "allowed.test/page" in done.text
            assert "no way around" in done.text
            assert "no raw socket" in done.text
            assert done.notes[0].startswith("network: reached allowed.test:80 (")
            assert done.notes[1].startswith("refused: denied.test:80 is not an allowed host")
            assert outside.dialled == [(PUBLIC, 80)]


@needs_walls
async def test_without_a_named_host_and_without_anybody_to_ask_there_is_no_network_at_all() -> None:
    with workspace() as here:
        sandbox = LocalSandbox(outside=StandIn())
        done = await run("echo proxy: $HTTP_PROXY", here, WorkspaceWrite(network=NetworkRules()), sandbox=sandbox)
        sandbox.close()
        assert done.text == "proxy:\n"


@pytest.mark.needs("bash")
async def test_where_hosts_cannot_be_named_a_command_runs_without_network() -> None:
    from hames.sandbox.walls import landlock

    if landlock.abi() == 0:
        pytest.skip("this kernel has no Landlock")
    with workspace() as here:
        sandbox = LocalSandbox(SandboxSettings(bubblewrap="/nonexistent/bwrap", allow_degraded=True))
        done = await run("echo ran $HTTP_PROXY", here, WorkspaceWrite(network=ONLY_ALLOWED), sandbox=sandbox)
        assert done.text == "ran\n"


# Questions of a real command


ASKING = WorkspaceWrite(network=NetworkRules())


def site_network(port: int) -> StandIn:
    return StandIn({"site.test": [[PUBLIC]], "other.test": [[PUBLIC]]}, {PUBLIC: port})


def asking_engine(model: ScriptedModel, here: Path, port: int) -> AbstractAsyncContextManager[Engine]:
    return situated_engine(model, here, policy="onRequest", sandbox=ASKING, outside=site_network(port))


async def answered(watcher: Watcher, house: Engine, decision: Decision, note: str = "") -> ApprovalRequested:
    asked = await question(watcher)
    await house.execute(ResolveApproval(approval_id=asked.approval.id, decision=decision, note=note))
    return asked


@needs_walls
async def test_a_person_allows_a_host_once_then_for_the_thread_and_then_is_not_asked_again() -> None:
    fetch = [call("shell", command="curl -sS http://site.test/page")]
    model = ScriptedModel(fetch, fetch, fetch, [reply("done")])
    with workspace() as here, web_server(Site) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            first = await answered(watcher, house, "once")
            second = await answered(watcher, house, "always")
            await turn_end(watcher)
            state = await house.execute(ReadThread(thread_id=thread.id))
    intent = first.approval.intent
    assert isinstance(intent, RunCommand)
    assert (intent.connects_to, intent.command) == (
        HostPort(host="site.test", port=80),
        "curl -sS http://site.test/page",
    )
    assert first.approval.reason == "connects to site.test:80, which is not an allowed host"
    assert first.approval.item_id != second.approval.item_id
    assert isinstance(state, ThreadState)
    assert state.grants == (HostGrant(host="site.test", port=80),)
    told = results(model.requests[-1])
    assert len(told) == 3
    assert all("site.test/page" in text and "[network: reached site.test:80 (" in text for text in told)


@needs_walls
@pytest.mark.parametrize("policy", ["onRequest", "unlessTrusted"])
async def test_a_person_declines_a_host_and_the_command_is_told_in_one_sentence(policy: str) -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page")], [reply("done")])
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(model, here, policy=policy, sandbox=ASKING, outside=outside) as house:  # type: ignore[arg-type]
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            if policy == "unlessTrusted":
                await answered(watcher, house, "once")
            await answered(watcher, house, "reject", note="not today")
            await turn_end(watcher)
    (told,) = results(model.requests[-1])
    assert told.startswith("refused: site.test:80 was declined by the user (not today)\n")
    assert outside.dialled == []


@needs_walls
async def test_a_command_that_is_stopped_while_it_waits_takes_its_question_back() -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page", timeout_seconds=1)], [reply("done")])
    with workspace() as here, web_server(Site) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            changes = await turn_end(watcher)
    resolved = [change.record.event for change in changes if isinstance(change.record.event, ApprovalResolved)]
    assert [event.decision for event in resolved] == ["void"]
    assert changes[-1].after.approvals == ()
    assert "killed: it ran longer than 1 s" in results(model.requests[-1])[0]


@needs_walls
async def test_a_turn_that_is_interrupted_while_a_connection_waits_keeps_that_the_command_ran() -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page")], [reply("done")])
    with workspace() as here, web_server(Site) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            await question(watcher)
            await house.execute(InterruptTurn(thread_id=thread.id))
            changes = await until(watcher, lambda event: isinstance(event, TurnEnded))
    last = changes[-1].after
    assert last.approvals == ()
    assert last.turns[-1].unanswered == ()
    (item,) = (item for item in last.turns[-1].items if isinstance(item, CommandExecution))
    assert item.status == "interrupted"


@needs_walls
async def test_a_process_in_the_background_reaches_named_hosts_and_asks_nobody() -> None:
    command = "curl -sS http://site.test/page; curl -sS http://other.test/"
    model = ScriptedModel([call("shell", command=command, background=True)], [reply("done")])
    rules = WorkspaceWrite(network=NetworkRules(allow=("site.test",)))
    with workspace() as here, web_server(Site) as port:
        async with situated_engine(model, here, policy="onRequest", sandbox=rules, outside=site_network(port)) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            changes = await turn_end(watcher)
    assert not any(isinstance(change.record.event, ApprovalRequested) for change in changes)
    assert "site.test/page" in results(model.requests[-1])[0]


@needs_walls
async def test_a_page_is_fetched_by_the_same_rules_and_a_redirect_is_asked_about() -> None:
    class Moved(Site):
        def do_GET(self) -> None:
            if self.headers["Host"] == "site.test" and self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "http://other.test/there")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                super().do_GET()

    fetch = [call("web_fetch", url="http://site.test/moved")]
    model = ScriptedModel(fetch, fetch, [reply("done")])
    with workspace() as here, web_server(Moved) as port:
        async with asking_engine(model, here, port) as house:
            thread = await created(house)
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            hosts: list[str] = []
            for decision in ("always", "once", "reject"):
                asked = (await answered(watcher, house, decision)).approval.intent
                assert isinstance(asked, RunCommand)
                hosts.append(str(asked.connects_to))
            changes = await turn_end(watcher)
    assert hosts == ["site.test:80", "other.test:80", "other.test:80"]
    first, second = (item for item in changes[-1].after.turns[-1].items if isinstance(item, ToolCall))
    assert first.result is not None
    assert "other.test/there" in first.result.text
    assert second.result is not None
    assert "refused: other.test:80 was declined by the user" in second.result.text


class ConnectingTool:
    """A tool whose command wants to connect somewhere, and that waits for the answer a moment only."""

    spec = ToolSpec(name="connect", description="Connects.", schema={"type": "object"})

    async def prepare(self, job: Job) -> "ConnectingTool":
        self.item = ToolCall(id=job.item_id, step=job.step, call_id=job.call.id, name="connect", arguments={})
        self.intent = Harmless()
        self._ask = job.ask_host
        return self

    async def run(self, tell: Tell, policy: SandboxPolicy) -> ToolItem:
        assert isinstance(self._ask, partial)
        why = await self._ask("connect", "/", HostPort(host="new.test", port=443), seconds=0.05)
        return replace(self.item, status="completed", result=ToolResult(text=why))


async def test_a_connection_that_nobody_answers_for_is_refused_after_its_time_and_the_question_taken_back() -> None:
    model = ScriptedModel([call("connect")], [reply("done")])
    async with engine(model, ConnectingTool(), policy="onRequest") as house:
        thread = await created(house, sandbox=ASKING)
        watcher = await house.watch(thread.id)
        await started(house, thread.id)
        changes = await turn_end(watcher)
    assert results(model.requests[-1]) == ["is not an allowed host, and nobody answered within 0.05 s"]
    resolved = [change.record.event for change in changes if isinstance(change.record.event, ApprovalResolved)]
    assert [event.decision for event in resolved] == ["void"]


# Rules about hosts


OPEN = WorkspaceWrite(network_access=True)
HIDDEN_NAME = "h=site; curl -sS http://$h.test/page"
"""The rules cannot read the host out of it, so it is the connection that is asked about."""


def no_rules(_: str) -> tuple[Rule, ...]:
    return ()


@needs_walls
@pytest.mark.parametrize(
    ("sandbox", "pattern"),
    [(OPEN, "site.test"), (WorkspaceWrite(network=NetworkRules(allow=("site.test",))), "*.site.test")],
    ids=["every-host", "allowed-host"],
)
async def test_a_rule_asks_about_a_host_that_the_sandbox_allows(sandbox: SandboxPolicy, pattern: str) -> None:
    model = ScriptedModel(*[[call("shell", command=HIDDEN_NAME)]] * 2, [reply("done")])
    book = FileRuleBook(no_rules, lambda rule: rule)
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(
            model, here, policy="onRequest", sandbox=sandbox, outside=outside, rulebook=book
        ) as house:
            thread = await created(house, rules=(Rule(action="ask", host=pattern),))
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            first = await answered(watcher, house, "always")
            await answered(watcher, house, "reject", "not now")
            await turn_end(watcher)
    assert first.approval.reason.startswith(f"`site.test` is asked about by the rule ask host `{pattern}`")
    allowed, declined = results(model.requests[-1])
    assert "[network: reached site.test:80 (" in allowed
    assert "refused: site.test:80 was declined by the user (not now)" in declined


@needs_walls
async def test_a_command_that_names_the_host_is_asked_about_once() -> None:
    model = ScriptedModel([call("shell", command="curl -sS http://site.test/page")], [reply("done")])
    book = FileRuleBook(no_rules, lambda rule: rule)
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(
            model, here, policy="onRequest", sandbox=OPEN, outside=outside, rulebook=book
        ) as house:
            thread = await created(house, rules=(Rule(action="ask", host="site.test"),))
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            first = await answered(watcher, house, "once")
            rest = await until(watcher, lambda event: isinstance(event, TurnEnded))
    intent = first.approval.intent
    assert isinstance(intent, RunCommand) and intent.connects_to is None
    assert not any(isinstance(change.record.event, ApprovalRequested) for change in rest)
    [told] = results(model.requests[-1])
    assert "[network: reached site.test:80 (" in told


@needs_walls
@pytest.mark.parametrize(("action", "policy"), [("deny", "onRequest"), ("ask", "never")])
async def test_no_rule_about_a_host_is_passed_by_a_name_that_it_covers(
    action: Literal["deny", "ask"], policy: ApprovalPolicy
) -> None:
    """In a rule `*.site.test` is about `site.test`, too."""
    model = ScriptedModel([call("shell", command=HIDDEN_NAME)], [reply("done")])
    book = FileRuleBook(no_rules, lambda rule: rule)
    with workspace() as here, web_server(Site) as port:
        outside = site_network(port)
        async with situated_engine(model, here, policy=policy, sandbox=OPEN, outside=outside, rulebook=book) as house:
            thread = await created(house, rules=(Rule(action=action, host="*.site.test"),))
            watcher = await house.watch(thread.id)
            await started(house, thread.id)
            await turn_end(watcher)
    [told] = results(model.requests[-1])
    assert "refused: site.test:80" in told
    assert "reached" not in told


async def test_an_address_is_no_way_around_a_host_that_is_asked_about() -> None:
    gate = HostGate(NetworkRules(ask=("site.test",)), every_host=True)
    assert "address" in await gate.refusal(Destination(host=PUBLIC, port=80))
    assert await gate.refusal(Destination(host="other.test", port=80)) == ""
    assert "by a rule" in await gate.refusal(Destination(host="site.test", port=8443))
