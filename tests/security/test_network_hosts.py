"""Hosts that commands may reach by name: rules, the proxy's gate, the TLS server name."""

import ssl
from collections.abc import Callable
from concurrent.futures import Future

import anyio
import pytest
from anyio.abc import SocketStream
from network_support import NAMES, ONLY_ALLOWED, OTHER, PUBLIC, StandIn, listening, proxying, say
from test_network_proxy import HOSTS, ODD, socks

from hames.domain.approvals import RunCommand
from hames.domain.errors import InvalidCommand
from hames.domain.network import HostPort, NetworkRules, network_rules
from hames.domain.policy import HostGrant, ReadOnly, WorkspaceWrite
from hames.domain.rulings import Verdict, decide
from hames.sandbox.walls.network.client_hello import asked_server_name
from hames.sandbox.walls.network.destinations import Malformed
from hames.sandbox.walls.network.host_gate import ASKED_ABOUT, HostGate
from hames.sandbox.walls.network.outside import upstream_proxies
from hames.sandbox.walls.network.proxy import ProxyLimits


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
