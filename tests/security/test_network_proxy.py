"""Attempts on the proxy that commands reach the network through. The internet of these tests is on the loopback."""

import socket
import ssl
import struct
import subprocess
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from network_support import OWN, PUBLIC, StandIn, listening, proxying, say

from hames.sandbox.walls.network.destinations import Malformed, parse_authority
from hames.sandbox.walls.network.outside import OutsideNetwork, UpstreamProxies, upstream_proxies
from hames.sandbox.walls.network.proxy import ProxyLimits

NAMES: dict[str, list[list[str]]] = {
    "allowed.test": [[PUBLIC]],
    "metadata.test": [["169.254.169.254"]],
    "metadata6.test": [["fd00:ec2::254"]],
    "private.test": [["10.0.0.5"]],
    "loopback.test": [["127.0.0.1"]],
    "loopback6.test": [["::1"]],
    "mapped.test": [["::ffff:127.0.0.1"]],
    "translated.test": [["64:ff9b::7f00:1"]],
    "shared.test": [["100.64.0.1"]],
    "any.test": [["0.0.0.0"]],
    "scoped.test": [["fe80::1%lo"]],
    "mixed.test": [[PUBLIC, "127.0.0.1"]],
    "mixed-late.test": [[PUBLIC, "8.8.8.8", "2606:4700::1111", "1.1.1.1", "9.9.9.9", "10.0.0.5"]],
    "own.test": [[OWN]],
    "broken.test": [["not an address"]],
    "db": [["192.168.1.7"]],
}

HOSTS = [
    *("127.0.0.1", "127.8.8.8", "localhost", "LOCALHOST", "localhost.", "a.localhost", "localhost.localdomain"),
    *("127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.1."),
    *("127.0.0.01", "0", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"),
    *("[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[fe80::1%25lo]", "[fe80::1%lo]"),
    *("[fc00::1]", "[fd00:ec2::254]", "10.0.0.5", "172.16.0.1", "192.168.1.1", "100.64.0.1", "100.100.100.200"),
    *("169.254.169.254", "169.254.0.1", "[::ffff:a9fe:a9fe]", "168.63.129.16", "192.0.0.192", "198.18.0.1"),
    *("192.0.2.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "[ff02::1]", "[2001:db8::1]"),
    *("metadata.google.internal", "printer.local", "router.home.arpa", "metadata.test", "metadata6.test"),
    *("private.test", "loopback.test", "loopback6.test", "mapped.test", "translated.test", "shared.test", "any.test"),
    *("scoped.test", "mixed.test", "mixed-late.test", "own.test", "broken.test", "db", OWN, "PRIVATE.test."),
    *("%31%32%37.0.0.1", "loopback%2etest", "allowed.test@127.0.0.1", "127.0.0.1@allowed.test", "allowed.test\\@db"),
    *("allowed.test#@127.0.0.1", "allowed.test,127.0.0.1", "allowed.test;127.0.0.1", "allowed.test%00.db", "*"),
]
ODD = ["ａllowed.test", "①②⑦.⓪.⓪.①", "127。0。0。1", "loopback\0.test", "allowed.test\0@127.0.0.1", "loop back.test"]


def socks(host: bytes, port: int, *, command: int = 1, kind: int = 3) -> bytes:
    spelled = bytes([len(host)]) + host if kind == 3 else host
    return b"\x05\x01\x00" + bytes([5, command, 0, kind]) + spelled + struct.pack(">H", port)


async def attempted(data: bytes) -> tuple[bytes, StandIn, tuple[str, ...]]:
    """What the proxy answers, what it did for it, and what it noted. A server on the loopback waits to be reached."""
    reached: list[bytes] = []

    async def handle(stream: SocketStream) -> None:
        reached.append(await stream.receive())
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\nreached")
        await stream.aclose()

    async with listening(handle) as port:
        outside = StandIn({name: list(answers) for name, answers in NAMES.items()}, {PUBLIC: port})
        async with proxying(outside, limits=ProxyLimits(request_seconds=2)) as (proxy, at):
            answer = await say(at, data.replace(b"PORT", str(port).encode()), end=True)
        assert reached == []
        return answer, outside, proxy.notes


@pytest.mark.parametrize("host", [*HOSTS, *ODD])
async def test_no_spelling_of_a_host_that_is_not_public_is_reached(host: str) -> None:
    raw = host.encode()
    for data in (
        b"GET http://%b:PORT/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n" % raw,
        b"GET http://%b/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n" % raw,
        b"CONNECT %b:PORT HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n" % raw,
    ):
        answer, outside, _ = await attempted(data)
        assert answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403"), answer
        assert outside.dialled == []
    answer, outside, _ = await attempted(socks(raw.strip(b"[]"), 80))
    assert answer[:2] == b"\x05\x00"
    assert answer[2:4] in (b"\x05\x02", b"\x05\x08")
    assert outside.dialled == []


@pytest.mark.parametrize(
    ("kind", "address"),
    [(1, "127.0.0.1"), (1, "10.0.0.5"), (1, "169.254.169.254"), (1, "0.0.0.0"), (4, "::1"), (4, "::ffff:127.0.0.1")],
)
async def test_no_address_in_binary_is_reached_over_socks(kind: int, address: str) -> None:
    packed = socket.inet_pton(socket.AF_INET if kind == 1 else socket.AF_INET6, address)
    answer, outside, notes = await attempted(socks(packed, 80, kind=kind))
    assert answer[:4] == b"\x05\x00\x05\x02"
    assert outside.dialled == []
    assert notes[0].startswith("refused: ")


@pytest.mark.parametrize(
    "data",
    [
        b"GET http://allowed.test/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST http://allowed.test/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST http://allowed.test/ HTTP/1.1\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\nHost: a\n\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nHost: a\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nA: \0\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nA: b\rC: d\r\n\r\n",
        b"GET http://allowed.test/\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"GET https://allowed.test/ HTTP/1.1\r\n\r\n",
        b"GET ftp://allowed.test/ HTTP/1.1\r\n\r\n",
        b"GET file:///etc/passwd HTTP/1.1\r\n\r\n",
        b"GET http://allowed.test:0/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.test:99999/ HTTP/1.1\r\n\r\n",
        b"GET http://allowed.test:80:80/ HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:443/ HTTP/1.1\r\n\r\n",
        b"CONNECT http://allowed.test:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/0.9\r\n\r\n",
        b"connect allowed.test:443 HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET http://allowed.test/ HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n",
        b"\r\n\r\n",
    ],
)
async def test_a_doubtful_request_is_a_400_and_goes_nowhere(data: bytes) -> None:
    answer, outside, _ = await attempted(data)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"bad request: " in answer
    assert outside.dialled == []


@pytest.mark.parametrize(
    ("data", "answers"),
    [
        (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", (b"",)),
        (socks(b"allowed.test", 80, command=2), (b"\x05\x07",)),
        (socks(b"allowed.test", 80, command=3), (b"\x05\x07",)),
        (socks(b"\x7f\0\0\1", 80, kind=9), (b"\x05\x08",)),
        (socks(b"allowed.test", 0), (b"\x05\x08",)),
        (socks(b"", 80), (b"\x05\x08",)),
        (b"\x05\x01\x02", (b"",)),
        (b"\x05\x00", (b"",)),
        (b"\x05\x01\x00\x05\x01\x00\x03\xffabc", (b"",)),
        (b"\x05\x01\x00\x06\x01\x00\x03\x01a\x00\x50", (b"\x05\x07",)),
    ],
)
async def test_a_doubtful_socks_request_goes_nowhere(data: bytes, answers: tuple[bytes, ...]) -> None:
    answer, outside, _ = await attempted(data)
    if data.startswith(b"\x05\x01\x00"):
        assert answer[2:4] in answers
    else:
        assert answer in (b"", b"\x05\xff") or answer.startswith(b"HTTP/1.1 400")
    assert outside.dialled == []


async def test_what_is_refused_is_said_in_one_sentence_and_kept() -> None:
    answer, _, notes = await attempted(b"GET http://10.0.0.5/ HTTP/1.1\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert body == b"refused: 10.0.0.5:80 is a private address\n"
    assert notes == ("refused: 10.0.0.5:80 is a private address",)
    _, _, notes = await attempted(b"CONNECT metadata.test:80 HTTP/1.1\r\n\r\n")
    assert notes == ("refused: metadata.test:80 is 169.254.169.254, a cloud metadata address",)
    _, _, notes = await attempted(b"CONNECT nowhere.test:443 HTTP/1.1\r\n\r\n")
    assert notes == ("could not connect to nowhere.test:443: the name was not found: name or service not known",)


async def test_notes_are_few_however_much_is_refused() -> None:
    async with proxying(StandIn()) as (proxy, at):
        for number in range(30):
            await say(at, b"CONNECT 10.0.0.%d:80 HTTP/1.1\r\n\r\n" % number, end=True)
        assert len(proxy.notes) == 13
        assert proxy.notes[-1] == "18 more connections were refused or failed"


async def test_a_name_that_is_rebound_is_looked_up_once_and_the_checked_address_is_dialled() -> None:
    async def handle(stream: SocketStream) -> None:
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\npublic")
        await stream.aclose()

    async with listening(handle) as port:
        for answers in ([[PUBLIC], ["127.0.0.1"]], [[PUBLIC], ["169.254.169.254"]]):
            outside = StandIn({"rebound.test": answers}, {PUBLIC: port})
            async with proxying(outside) as (_, at):
                answer = await say(at, b"GET http://rebound.test/ HTTP/1.1\r\n\r\n")
                assert answer.endswith(b"public")
                assert (outside.looked_up, outside.dialled) == (["rebound.test"], [(PUBLIC, 80)])
                # The second time it is private, and the connection of the first does not help.
                answer = await say(at, b"GET http://rebound.test/ HTTP/1.1\r\n\r\n", end=True)
                assert answer.startswith(b"HTTP/1.1 403 ")
                assert outside.dialled == [(PUBLIC, 80)]


async def test_a_second_request_on_a_connection_is_not_served() -> None:
    heard: list[bytes] = []

    async def handle(stream: SocketStream) -> None:
        heard.append(b"")
        while not (b"\r\n\r\n" in heard[-1] and heard[-1].endswith(sent)):
            heard[-1] += await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await stream.send_eof()
        while True:
            heard[-1] += await stream.receive()

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        for body in (b"", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n"):
            sent = {b"": b"", b"Content-Length: 3\r\n": b"abc"}.get(body, b"3\r\nabc\r\n0\r\n\r\n")
            request = b"POST http://allowed.test/1 HTTP/1.1\r\n" + body + b"\r\n" + sent
            async with proxying(outside) as (_, at):
                answer = await say(at, request + b"GET http://10.0.0.5/2 HTTP/1.1\r\n\r\n")
            assert answer.count(b"HTTP/1.1 ") == 1
            assert b"connection: close\r\n" in answer
            assert heard[-1].startswith(b"POST /1 HTTP/1.1\r\nhost: allowed.test\r\n")
            assert heard[-1].endswith(sent)
            assert b"/2" not in heard[-1]
        assert outside.dialled == [(PUBLIC, 80)] * 3


async def test_bodies_go_both_ways_and_an_early_answer_is_relayed() -> None:
    async def handle(stream: SocketStream) -> None:
        data = await stream.receive()
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        if data.startswith(b"POST /early"):
            await stream.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        elif b"expect: 100-continue" in data:
            await stream.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            data = b""
            while not data.endswith(b"0\r\n\r\n"):
                data += await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\n\r\n" + str(len(data)).encode())
        await stream.aclose()

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        async with proxying(outside) as (_, at):
            chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            head = b"POST http://allowed.test/ HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
            answer = await say(at, head + chunk * 40 + b"0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
            assert answer.endswith(str(len(chunk) * 40 + 5).encode())
            answer = await say(at, b"POST http://allowed.test/early HTTP/1.1\r\nContent-Length: 99999999\r\n\r\nabc")
            assert answer.startswith(b"HTTP/1.1 413 ")
            answer = await say(at, b"POST http://allowed.test/x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
            assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 502 "))


async def test_a_tunnel_carries_what_it_is_given_and_each_side_may_end_first() -> None:
    async def handle(stream: SocketStream) -> None:
        data = b""
        try:
            while True:
                data += await stream.receive()
        except anyio.EndOfStream:
            await stream.send(data[::-1])
            await stream.aclose()

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        async with proxying(outside) as (proxy, at):
            for ask in (b"CONNECT allowed.test:4430 HTTP/1.1\r\n\r\n", socks(b"allowed.test", 4430)):
                payload = bytes(range(256)) * 20_000
                answer = await say(at, ask + payload, end=True)
                assert answer.endswith(payload[::-1])
            assert outside.dialled == [(PUBLIC, 4430)] * 2
            assert proxy.notes == ("network: reached allowed.test:4430 (10.2 MB received, 10.2 MB sent)",)


async def test_five_hundred_connections_at_once_are_served_a_few_at_a_time() -> None:
    most, now = 0, 0

    async def handle(stream: SocketStream) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\n\r\nok")
        await stream.aclose()
        now -= 1

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        answers: list[bytes] = []

        async def ask(at: int) -> None:
            answers.append(await say(at, b"GET http://allowed.test/ HTTP/1.1\r\n\r\n"))

        with anyio.fail_after(60):
            limits = ProxyLimits(connections=20)
            async with proxying(outside, limits=limits) as (_, at), anyio.create_task_group() as tasks:
                for _ in range(500):
                    tasks.start_soon(ask, at)
        assert [answer[-2:] for answer in answers] == [b"ok"] * 500
        assert most <= 20


async def test_a_silent_connection_ends_and_a_slow_download_does_not() -> None:
    let_go = anyio.Event()

    async def handle(stream: SocketStream) -> None:
        await stream.receive()
        for _ in range(8):  # longer than the limit, and never silent for as long as it
            await stream.send(b"x")
            await anyio.sleep(0.35)
        await let_go.wait()
        await stream.aclose()

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        limits = ProxyLimits(idle_seconds=2, request_seconds=0.5)
        async with proxying(outside, limits=limits) as (_, at):
            answer = await say(at, b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\nhello")
            assert answer.endswith(b"\r\n\r\nxxxxxxxx")
            assert await say(at, b"GET http://allowed.test/ HT") == b""
        let_go.set()


async def test_stopping_closes_the_listener_and_every_connection() -> None:
    async def handle(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await anyio.sleep_forever()

    async with listening(handle) as port:
        outside = StandIn({"allowed.test": [[PUBLIC]]}, {PUBLIC: port})
        async with proxying(outside) as (proxy, at), await anyio.connect_tcp("127.0.0.1", at) as stream:
            await stream.send(b"CONNECT allowed.test:443 HTTP/1.1\r\n\r\n")
            assert b"200" in await stream.receive()
            proxy.stop()
            with anyio.fail_after(60), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                while True:
                    await stream.receive()
            with pytest.raises(OSError):
                await anyio.connect_tcp("127.0.0.1", at)


# The real way out, as far as the loopback goes


async def test_our_own_addresses_are_known_without_sending_anything() -> None:
    import ipaddress

    outside = OutsideNetwork()
    assert outside.is_this_machine(ipaddress.ip_address("127.0.0.1"))
    assert outside.is_this_machine(ipaddress.ip_address("127.1.2.3"))
    assert not outside.is_this_machine(ipaddress.ip_address("8.8.8.8"))


async def test_names_of_this_machine_are_looked_up_and_refused() -> None:
    """`/etc/hosts` and the like: the real resolver, and a server that would be reached."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        for name in {"ip6-localhost", "localhost", socket.gethostname()}:
            try:
                authority = str(parse_authority(f"{name}:{port}"))
            except Malformed:
                continue
            async with proxying(OutsideNetwork()) as (proxy, at):
                answer = await say(at, f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode(), end=True)
            assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 502"), (name, answer)
            assert len(proxy.notes) == 1
        with pytest.raises(BlockingIOError):
            server.accept()


# The user's own proxy


async def asked_upstream(data: bytes, environ: dict[str, str], answer: bytes) -> tuple[bytes, bytes, StandIn]:
    heard: list[bytes] = []

    async def handle(stream: SocketStream) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            received += await stream.receive()
        heard.append(received)
        await stream.send(answer)
        await stream.aclose()

    async with listening(handle) as port:
        names = {"proxy.corp.test": [["127.0.0.1"]], "known.test": [[PUBLIC]], "inside.test": [["10.0.0.5"]]}
        outside = StandIn({**names, "fake.test": [["198.18.0.7"]]}, {"127.0.0.1": port, PUBLIC: port})
        async with proxying(outside, upstream=upstream_proxies(environ)) as (_, at):
            return await say(at, data, end=True), b"".join(heard), outside


CORP = {"HTTPS_PROXY": "http://me:p%40ss@proxy.corp.test:3128", "http_proxy": "proxy.corp.test:3128"}


@pytest.mark.parametrize("host", ["known.test", "unknown.test", "fake.test"])
async def test_the_users_proxy_is_asked_for_what_is_public_by_name(host: str) -> None:
    name = host.encode()
    data = b"CONNECT %b:443 HTTP/1.1\r\n\r\nhi" % name
    answer, heard, outside = await asked_upstream(data, CORP, b"HTTP/1.1 200 fine\r\nA: b\r\n\r\nhello")
    assert heard == b"CONNECT %b:443 HTTP/1.1\r\nhost: %b:443\r\nproxy-authorization: Basic bWU6cEBzcw==\r\n\r\n" % (
        name,
        name,
    )
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nhello"
    assert outside.dialled == [("127.0.0.1", 3128)]
    data = b"GET http://%b/a HTTP/1.1\r\nProxy-Authorization: mine\r\n\r\n" % name
    answer, heard, _ = await asked_upstream(data, CORP, b"HTTP/1.1 200 OK\r\n\r\nhello")
    assert heard.startswith(b"GET http://%b:80/a HTTP/1.1\r\nhost: %b\r\n" % (name, name))
    assert b"uthorization" not in heard
    assert answer.endswith(b"hello")


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.5", "localhost", "inside.test", "x.internal", "198.18.0.7"])
async def test_the_users_proxy_is_never_asked_for_what_is_private(host: str) -> None:
    for data in (f"CONNECT {host}:443 HTTP/1.1\r\n\r\n", f"GET http://{host}/ HTTP/1.1\r\n\r\n"):
        answer, heard, outside = await asked_upstream(data.encode(), CORP, b"HTTP/1.1 200 OK\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert (heard, outside.dialled) == (b"", [])


async def test_a_proxy_that_refuses_or_cannot_be_used_is_said_in_words() -> None:
    data = b"CONNECT known.test:443 HTTP/1.1\r\n\r\n"
    answer, _, _ = await asked_upstream(data, CORP, b"HTTP/1.1 407 Who are you\r\n\r\n")
    assert answer.endswith(b"could not connect to known.test:443: the proxy in HTTPS_PROXY answered 407\n")
    answer, _, _ = await asked_upstream(data, CORP, b"nonsense\r\n\r\n")
    assert answer.endswith(b"the proxy in HTTPS_PROXY did not answer\n")
    for value in ("socks5://127.0.0.1:1", "http://", "http://a:b"):
        answer, heard, outside = await asked_upstream(data, {"ALL_PROXY": value}, b"")
        assert b"the proxy in ALL_PROXY cannot be used: only http:// and https:// proxies can" in answer
        assert (heard, outside.dialled) == (b"", [])


@pytest.mark.parametrize("value", ["*", "known.test", ".test", "*.test", "KNOWN.test:443", "a, test"])
async def test_no_proxy_goes_around_it_and_is_checked_like_any_other(value: str) -> None:
    environ = {**CORP, "NO_PROXY": value}
    _, _, outside = await asked_upstream(b"CONNECT known.test:443 HTTP/1.1\r\n\r\n", environ, b"")
    assert outside.dialled == [(PUBLIC, 443)]
    if value != "known.test" and "443" not in value:
        answer, _, outside = await asked_upstream(b"CONNECT inside.test:443 HTTP/1.1\r\n\r\n", environ, b"")
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert outside.dialled == []


@pytest.mark.parametrize("value", ["", "other.test", "nown.test", "known.test:80", "10.0.0.0/8", "known.test.com"])
async def test_no_proxy_names_only_what_it_names(value: str) -> None:
    environ = {**CORP, "NO_PROXY": value}
    answer = b"HTTP/1.1 200 OK\r\n\r\n"
    _, heard, outside = await asked_upstream(b"CONNECT known.test:443 HTTP/1.1\r\n\r\n", environ, answer)
    assert heard
    assert outside.dialled == [("127.0.0.1", 3128)]


def test_a_networks_addresses_may_be_left_to_no_proxy() -> None:
    proxies = upstream_proxies({**CORP, "no_proxy": "8.8.0.0/16,2606:4700::/32"})
    for text, direct in (("8.8.8.8:53", True), ("9.9.9.9:53", False), ("[2606:4700::1]:80", True)):
        assert (proxies.choose(parse_authority(text), plain=False) is None) is direct
    assert upstream_proxies({}) == UpstreamProxies()


@pytest.mark.needs("openssl")
async def test_the_users_proxy_may_speak_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=proxy.corp.test"),
            *("-addext", "subjectAltName=DNS:proxy.corp.test", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    heard: list[bytes] = []

    async def handle(stream: SocketStream) -> None:
        from anyio.streams.tls import TLSStream

        async with await TLSStream.wrap(stream, ssl_context=context, server_side=True) as inner:
            heard.append(await inner.receive())
            await inner.send(b"HTTP/1.1 200 OK\r\n\r\nhello")

    async with listening(handle) as port:
        outside = StandIn({"proxy.corp.test": [["127.0.0.1"]]}, {"127.0.0.1": port})
        upstream = upstream_proxies({"HTTPS_PROXY": "https://proxy.corp.test"})
        async with proxying(outside, upstream=upstream) as (_, at):
            answer = await say(at, b"CONNECT known.test:443 HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"hello")
    assert heard[0].startswith(b"CONNECT known.test:443 ")
    assert outside.dialled == [("127.0.0.1", 443)]
