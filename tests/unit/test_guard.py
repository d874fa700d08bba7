"""The guard's judgement: a table of requests, and who may make them."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hames.domain.errors import Misconfigured
from hames.server.guard.gate import Gate, Head, cookie_name, head, judge
from hames.server.guard.middleware import Bucket
from hames.server.guard.token import LINK_SECONDS, LINKS, Keyring, checked, token_in
from hames.server.listener import Address, bind, check, gate_for
from hames.testing.fakes.clock import FakeClock

GATE = Gate(port=4800, hosts=frozenset({"127.0.0.1:4800", "localhost:4800", "[::1]:4800"}))
OWN = "127.0.0.1:4800"


def asked(method: str = "GET", path: str = "/threads", *, kind: str = "http", **headers: str) -> Head:
    given = {"host": OWN, **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in given.items() if value != "-"]
    return head("websocket" if kind == "websocket" else "http", method, path, raw)


def status(request: Head, gate: Gate = GATE, keyring: Keyring | None = None) -> int:
    refusal = judge(request, gate, keyring)
    return refusal.status if refusal else 200


@pytest.mark.parametrize(
    ("host", "code"),
    [
        (OWN, 200),
        ("LocalHost:4800", 200),
        ("[::1]:4800", 200),
        ("127.0.0.1", 421),
        ("127.0.0.1:80", 421),
        ("127.0.0.1:4800.", 421),
        ("evil.example:4800", 421),
        ("user@127.0.0.1:4800", 421),
        ("127.1:4800", 421),
        ("10.0.0.1:4800", 421),
        ("", 421),
        ("-", 400),
    ],
)
def test_the_host_must_be_one_of_our_names(host: str, code: int) -> None:
    assert status(asked(host=host)) == code


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
def test_no_other_host_is_ever_taken(host: str) -> None:
    if host.lower() not in GATE.hosts and host != "-":
        assert status(asked(host=host)) == 421


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"origin": f"http://{OWN}"}, 200),
        ({"origin": f"https://{OWN}"}, 200),
        ({"origin": "http://localhost:4800"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": f"http://{OWN}.evil.example"}, 403),
        ({"origin": "https://good.example"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"origin": f"http://{OWN}", "sec_fetch_site": "cross-site"}, 403),
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_only_our_own_page_or_no_page_at_all_may_ask(headers: dict[str, str], code: int, kind: str) -> None:
    assert status(asked(kind=kind, **headers)) == code


def test_a_page_that_was_named_may_ask_from_elsewhere() -> None:
    gate = Gate(port=4800, hosts=GATE.hosts, origins=frozenset({"https://good.example"}))
    assert status(asked(origin="https://good.example", sec_fetch_site="cross-site"), gate) == 200
    assert status(asked(origin="https://good.example.evil", sec_fetch_site="cross-site"), gate) == 403
    assert status(asked(sec_fetch_site="cross-site"), gate) == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [
        ("/prompt", "application/json", 200),
        ("/prompt", "Application/JSON; charset=utf-8", 200),
        ("/prompt", "text/plain", 415),
        ("/prompt", "-", 415),
        ("/prompt", "application/jsonx", 415),
        ("/prompt", "image/png", 415),
        ("/uploads", "image/png", 200),
        ("/uploads", "image/svg+xml", 415),
        ("/uploads", "application/json", 415),
        ("/cancel", "-", 200),
        ("/cancel", "application/json", 200),
        ("/cancel", "text/plain", 415),
    ],
)
def test_what_changes_something_says_what_it_carries(method: str, path: str, kind: str, code: int) -> None:
    assert status(asked(method, path, content_type=kind)) == code


def test_only_an_empty_cancel_may_leave_its_type_out() -> None:
    assert status(asked("POST", "/cancel", content_length="0")) == 200
    assert status(asked("POST", "/cancel", content_length="2")) == 415
    assert status(asked("POST", "/cancel", transfer_encoding="chunked")) == 415


TOKEN = "correct-horse-battery-staple"


def keyring() -> Keyring:
    return Keyring(TOKEN, FakeClock())


WRAPPED = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 401),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"bearer  {TOKEN}"}, 200),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"sec_websocket_protocol": f"harness.v1, harness.bearer.{WRAPPED}"}, 200),
        ({"sec_websocket_protocol": "harness.v1, harness.bearer.AAAA"}, 401),
        ({"sec_websocket_protocol": "harness.v1, harness.bearer.%%%"}, 401),
        ({"sec_websocket_protocol": f"harness.v1, {TOKEN}"}, 401),
        ({"cookie": f"a=b; {cookie_name(GATE)}={keyring().cookie}"}, 200),
        ({"cookie": f"{cookie_name(GATE)}={TOKEN}"}, 401),
        ({"cookie": f"hames-1={keyring().cookie}"}, 401),
        ({"cookie": "="}, 401),
    ],
)
def test_with_a_token_everybody_is_asked_for_it(headers: dict[str, str], code: int) -> None:
    assert status(asked(**headers), keyring=keyring()) == code
    refusal = judge(asked(kind="websocket", path="/ws", **headers), GATE, keyring())
    assert (refusal.close if refusal else 0) == (4401 if code == 401 else 0)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/", 200),
        ("/assets/a.js", 200),
        ("/t/ses_1", 200),
        ("/icon.svg", 200),
        ("/healthz", 200),
        ("/metrics", 401),
        ("/status", 401),
        ("/openapi.json", 401),
        ("/threads/x.svg", 401),
    ],
)
def test_the_page_itself_is_no_secret(path: str, code: int) -> None:
    assert status(asked(path=path), keyring=keyring()) == code


def test_a_link_opens_the_page_once_and_not_for_long() -> None:
    clock = FakeClock()
    ring = Keyring(TOKEN, clock)
    word = ring.link()
    assert not ring.take_link(TOKEN)
    assert ring.take_link(word)
    assert not ring.take_link(word)
    late = ring.link()
    clock.advance(LINK_SECONDS + 1)
    assert not ring.take_link(late)
    words = [ring.link() for _ in range(LINKS + 1)]
    assert not ring.take_link(words[0])
    assert ring.take_link(words[-1])


@pytest.mark.parametrize("token", ["short", "with a space in it", "ünïcödé-and-long-enough", ""])
def test_a_token_that_could_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(Misconfigured):
        checked(token)


def test_a_token_file_that_others_can_read_is_refused(tmp_path) -> None:
    token_in(tmp_path)
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(Misconfigured):
        token_in(tmp_path)


def test_a_token_file_that_is_a_link_is_refused(tmp_path) -> None:
    (tmp_path / "elsewhere").write_text(TOKEN)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Misconfigured):
        token_in(tmp_path)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.0.0.2", True), ("0.0.0.0", False), ("::", False)],
)
def test_a_door_to_other_machines_needs_a_token(host: str, loopback: bool) -> None:
    address = Address(host=host)
    assert address.is_loopback is loopback
    check(address, TOKEN)
    if loopback:
        check(address, None)
    else:
        with pytest.raises(Misconfigured):
            check(address, None)


def test_behind_an_open_door_addresses_are_names_and_strangers_are_not() -> None:
    gate = gate_for(Address(host="0.0.0.0", names=("Hames.example",)), 4800)
    assert status(asked(host="192.0.2.7:4800"), gate) == 200
    assert status(asked(host="[2001:db8::1]:4800"), gate) == 200
    assert status(asked(host="hames.example"), gate) == 200
    assert status(asked(host="192.0.2.7:80"), gate) == 421
    assert status(asked(host="evil.example:4800"), gate) == 421


def test_answers_are_not_held_back_by_the_network_stack() -> None:
    with bind(Address(port=0)) as door:
        assert door.proto == socket.IPPROTO_TCP


def test_a_port_that_is_taken_is_said_so() -> None:
    with bind(Address(port=0)) as door, pytest.raises(Misconfigured, match="cannot listen"):
        bind(Address(port=door.getsockname()[1]))


def test_a_bucket_lets_so_much_through_and_then_so_much_a_second() -> None:
    clock = FakeClock()
    bucket = Bucket(clock, rate=2.0, burst=3.0)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.advance(1)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    clock.advance(1000)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
