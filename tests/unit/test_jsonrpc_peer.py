"""The peer, held to the table of readings for both of its rules."""

import doctest
import json
from typing import Any

import pytest

from hames.codecs import jsonrpc_peer as jsonrpc
from hames.codecs.jsonrpc_peer import (
    Caller,
    JsonRpcPeer,
    JsonRpcRefusal,
    JsonRpcReply,
    JsonRpcRequest,
    JsonRpcResponse,
    JsonRpcRules,
    Notification,
    RpcError,
    ServerRequest,
)
from hames.codecs.lines import TooLong

BOOTSTRAP = JsonRpcRules(version=True, batches=True, loose_ids=True, scalar_params=-32600)
FLINT = JsonRpcRules(version=False, batches=False, loose_ids=False, scalar_params=-32602, opening="initialize")
METHODS = frozenset({"initialize", "hello"})


def bootstrap() -> JsonRpcPeer:
    return JsonRpcPeer(BOOTSTRAP, METHODS)


def flint() -> JsonRpcPeer:
    """Already opened."""
    peer = JsonRpcPeer(FLINT, METHODS)
    assert answered(peer, b'{"id":0,"method":"initialize"}') == [{"id": 0, "result": "done"}]
    return peer


def answered(peer: JsonRpcPeer, line: bytes | TooLong) -> list[Any]:
    """What leaves when every request is carried out."""
    out = b""
    for message in peer.receive(line):
        if isinstance(message, JsonRpcRequest):
            out += peer.result(message, "done")
        elif isinstance(message, JsonRpcRefusal):
            out += message.line
    return [json.loads(text) for text in out.splitlines()]


def refusals(peer: JsonRpcPeer, line: bytes | TooLong) -> list[tuple[int, Any]]:
    """Code and id of each error, checked for its form."""
    found: list[tuple[int, Any]] = []
    for answer in answered(peer, line):
        for one in answer if isinstance(answer, list) else [answer]:
            if "error" in one:
                assert set(one) <= {"jsonrpc", "id", "error"}
                assert isinstance(one["error"]["message"], str)
                found.append((one["error"]["code"], one["id"]))
    return found


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(jsonrpc).failed == 0


@pytest.mark.spec("bootstrap/transport-jsonrpc")
def test_answers_of_the_first_kind_carry_the_version_and_those_of_the_second_do_not() -> None:
    assert answered(bootstrap(), b'{"jsonrpc":"2.0","id":1,"method":"hello"}') == [
        {"jsonrpc": "2.0", "id": 1, "result": "done"}
    ]
    assert answered(flint(), b'{"id":1,"method":"hello"}') == [{"id": 1, "result": "done"}]
    assert b"jsonrpc" in bootstrap().notification("x", {})
    assert b"jsonrpc" not in flint().notification("x", {})


# The table, row by row: (line, code and id in bootstrap, code and id in flint). None: carried out or silent.
NOTHING: list[tuple[int, Any]] = []
ROWS: list[tuple[str, bytes | TooLong, list[tuple[int, Any]], list[tuple[int, Any]]]] = [
    ("not JSON", b"{", [(-32700, None)], [(-32700, None)]),
    ("NaN", b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"x":NaN}}', [(-32700, None)], [(-32700, None)]),
    ("bad UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', [(-32700, None)], [(-32700, None)]),
    ("control", b'{"jsonrpc":"2.0","id":1,"method":"a\x01"}', [(-32700, None)], [(-32700, None)]),
    ("too deep", b"[" * 100_000, [(-32700, None)], [(-32700, None)]),
    ("too long", TooLong(limit=16 << 20), [(-32600, None)], [(-32600, None)]),
    *(
        (f"too long, with {head[:40]!r}", TooLong(limit=9, head=head), [(-32600, found)], [(-32600, found)])
        for head, found in (
            (b'{"jsonrpc":"2.0","id":7,"method":"hello","params":{"id":8', 7),
            (b'{"jsonrpc":"2.0","method":"hello","id":"a b","params":{', "a b"),
            (b' { "id" : -3 , "method" : "hello"', -3),
            (b'{"id":7,"jsonrpc":"2.0","method":"hello"', 7),
            (b'{"jsonrpc":"2.0","method":"hello","params":{"id":8,"method":"x"', None),
            (b'{"jsonrpc":"2.0","id":"ours","result":{"text":"', None),
            (b'{"jsonrpc":"2.0","id":"\\u0041","method":"hello"', None),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"hello"', None),
            (b'{"jsonrpc":"2.0","id":12', None),
        )
    ),
    ("a number", b"1", [(-32600, None)], [(-32600, None)]),
    ("a string", b'"x"', [(-32600, None)], [(-32600, None)]),
    ("null", b"null", [(-32600, None)], [(-32600, None)]),
    ("empty batch", b"[]", [(-32600, None)], [(-32600, None)]),
    ("batch of numbers", b"[1,2]", [(-32600, None), (-32600, None)], [(-32600, None)]),
    ("nested batch", b"[[]]", [(-32600, None)], [(-32600, None)]),
    ("a batch", b'[{"jsonrpc":"2.0","id":1,"method":"hello"}]', NOTHING, [(-32600, None)]),
    ("no version", b'{"id":1,"method":"hello"}', [(-32600, 1)], NOTHING),
    ("other version", b'{"jsonrpc":"1.0","id":1,"method":"hello"}', [(-32600, 1)], NOTHING),
    ("version 2", b'{"jsonrpc":2.0,"id":1,"method":"hello"}', [(-32600, 1)], NOTHING),
    ("no method", b'{"jsonrpc":"2.0","id":1}', [(-32600, 1)], [(-32600, 1)]),
    ("method a number", b'{"jsonrpc":"2.0","id":"a","method":7}', [(-32600, "a")], [(-32600, "a")]),
    ("method null", b'{"jsonrpc":"2.0","id":"a","method":null}', [(-32600, "a")], [(-32600, "a")]),
    ("the standard's own", b'{"jsonrpc":"2.0","method":1,"params":"bar"}', [(-32600, None)], [(-32600, None)]),
    ("nothing of ours", b'{"foo":1}', [(-32600, None)], [(-32600, None)]),
    ("id a fraction", b'{"jsonrpc":"2.0","id":1.5,"method":"hello"}', NOTHING, [(-32600, None)]),
    ("id huge fraction", b'{"jsonrpc":"2.0","id":1e400,"method":"hello"}', NOTHING, [(-32600, None)]),
    ("id null", b'{"jsonrpc":"2.0","id":null,"method":"hello"}', NOTHING, [(-32600, None)]),
    ("id true", b'{"jsonrpc":"2.0","id":true,"method":"hello"}', [(-32600, None)], [(-32600, None)]),
    ("id array", b'{"jsonrpc":"2.0","id":[1],"method":"hello"}', [(-32600, None)], [(-32600, None)]),
    ("id object", b'{"jsonrpc":"2.0","id":{},"method":"hello"}', [(-32600, None)], [(-32600, None)]),
    ("params number", b'{"jsonrpc":"2.0","id":1,"method":"hello","params":7}', [(-32600, 1)], [(-32602, 1)]),
    ("params false", b'{"jsonrpc":"2.0","id":1,"method":"hello","params":false}', [(-32600, 1)], [(-32602, 1)]),
    ("params string", b'{"jsonrpc":"2.0","id":1,"method":"hello","params":""}', [(-32600, 1)], [(-32602, 1)]),
    ("params array", b'{"jsonrpc":"2.0","id":1,"method":"hello","params":["x"]}', [(-32602, 1)], [(-32602, 1)]),
    ("params null", b'{"jsonrpc":"2.0","id":1,"method":"hello","params":null}', NOTHING, NOTHING),
    ("unknown method", b'{"jsonrpc":"2.0","id":1,"method":"Hello"}', [(-32601, 1)], [(-32601, 1)]),
    ("dunder method", b'{"jsonrpc":"2.0","id":1,"method":"__init__"}', [(-32601, 1)], [(-32601, 1)]),
    ("empty method", b'{"jsonrpc":"2.0","id":1,"method":""}', [(-32601, 1)], [(-32601, 1)]),
    ("method before params", b'{"jsonrpc":"2.0","id":1,"method":"no","params":[]}', [(-32601, 1)], [(-32601, 1)]),
    ("shape before method", b'{"jsonrpc":"2.0","id":1,"method":"no","params":1}', [(-32600, 1)], [(-32601, 1)]),
    ("id twice", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"hello"}', [(-32600, None)], [(-32600, None)]),
    (
        "member twice, deep",
        b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{"a":{"b":1,"b":1}}}',
        [(-32600, None)],
        [(-32600, None)],
    ),
    ("unknown members", b'{"jsonrpc":"2.0","id":1,"method":"hello","extra":1,"_meta":5}', NOTHING, NOTHING),
]


@pytest.mark.spec(
    "bootstrap/error-parse",
    "bootstrap/error-invalid-request",
    "bootstrap/error-method-not-found",
    "bootstrap/error-invalid-params",
)
@pytest.mark.parametrize(("line", "expected"), [row[1:3] for row in ROWS], ids=[row[0] for row in ROWS])
def test_bootstrap_answers_as_the_table_says(line: bytes | TooLong, expected: list[tuple[int, Any]]) -> None:
    assert refusals(bootstrap(), line) == expected


@pytest.mark.parametrize(("line", "expected"), [(row[1], row[3]) for row in ROWS], ids=[row[0] for row in ROWS])
def test_flint_answers_as_the_table_says(line: bytes | TooLong, expected: list[tuple[int, Any]]) -> None:
    assert refusals(flint(), line) == expected


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"hello"}',
        b'{"jsonrpc":"2.0","method":"no.such","params":{}}',
        b'{"jsonrpc":"2.0","method":"hello","params":7}',
        b'{"method":"hello"}',
        b'{"jsonrpc":"1.0","method":"hello"}',
        b'{"jsonrpc":"2.0","method":"hello","params":{"a":1,"a":2}}',
        b'{"jsonrpc":"2.0","method":"hello","method":"hello"}',
        b'[{"jsonrpc":"2.0","method":"hello"},{"jsonrpc":"2.0","method":"no"}]',
    ],
)
def test_a_notification_is_never_answered_and_never_a_request(line: bytes) -> None:
    for message in bootstrap().receive(line):
        assert isinstance(message, Notification)


@pytest.mark.parametrize(
    "text",
    [
        b"1",
        b"-7",
        b"9223372036854775808",
        b"9" * 5000,
        b'""',
        b'"a-1"',
        b'"\\ud800"',
        b'"\xc3\xa9"',
        b"1.5",
        b"null",
        b"1e400",
        b"1e3",
        b"1.0",
        b"-0.50",
        b"12345678901234567890.123456789",
    ],
)
def test_an_id_comes_back_as_it_came(text: bytes) -> None:
    peer = bootstrap()
    [request] = peer.receive(b'{"jsonrpc":"2.0","id":' + text + b',"method":"hello","params":{"x":"\\ud800"}}')
    assert isinstance(request, JsonRpcRequest)
    assert peer.result(request, 1) == b'{"jsonrpc":"2.0","id":' + text + b',"result":1}\n'
    assert request.params == {"x": "\ufffd"}


def test_fractional_ids_of_a_batch_come_back_as_they_came() -> None:
    peer = bootstrap()
    one = b'{"jsonrpc":"2.0","id":1.10,"method":"hello","params":{"x":1.10}}'
    first, second = peer.receive(b"[" + one + b',7,{"jsonrpc":"2.0","id":2,"method":"hello"}]')
    assert isinstance(first, JsonRpcRequest) and isinstance(second, JsonRpcRequest)
    assert first.params == {"x": 1.1}
    peer.result(first, 1)
    assert b'"id":1.10,' in peer.result(second, 2)


def test_a_batch_is_answered_with_one_array_when_all_of_it_is_done() -> None:
    peer = bootstrap()
    first, second = peer.receive(
        b'[{"jsonrpc":"2.0","id":1,"method":"hello"},{"foo":1},{"jsonrpc":"2.0","method":"hello"},7,'
        b'{"jsonrpc":"2.0","id":2,"method":"no"},{"jsonrpc":"2.0","id":"9","method":"hello"}]'
    )[::2]
    assert isinstance(first, JsonRpcRequest)
    assert isinstance(second, JsonRpcRequest)
    assert peer.result(second, "b") == b""
    answers = json.loads(peer.error(first, -32603, "broken"))
    assert [(one["id"], one.get("result", one.get("error", {}).get("code"))) for one in answers] == [
        (None, -32600),
        (None, -32600),
        (2, -32601),
        ("9", "b"),
        (1, -32603),
    ]


def test_a_batch_without_a_request_says_its_refusals_at_once() -> None:
    [refusal] = bootstrap().receive(b'[1,{"jsonrpc":"2.0","id":5,"method":"no"}]')
    assert isinstance(refusal, JsonRpcRefusal)
    assert [one["id"] for one in json.loads(refusal.line)] == [None, 5]


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":99,"result":{}}',
        b'{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}',
        b'{"id":99,"result":1,"error":2}',
        b'{"result":1}',
        b'[{"jsonrpc":"2.0","id":99,"result":{}}]',
    ],
)
def test_a_stray_response_is_ignored(line: bytes) -> None:
    assert bootstrap().receive(line) == []


def test_nothing_but_the_opening_is_served_first_and_a_failed_opening_opens_nothing() -> None:
    peer = JsonRpcPeer(FLINT, METHODS)
    assert refusals(peer, b'{"id":1,"method":"hello"}') == [(-32000, 1)]
    assert refusals(peer, b'{"id":1,"method":"no/such"}') == [(-32000, 1)]
    [request] = peer.receive(b'{"id":2,"method":"initialize","params":{}}')
    assert isinstance(request, JsonRpcRequest)
    peer.error(request, -32602, "bad clientInfo")
    assert refusals(peer, b'{"id":3,"method":"hello"}') == [(-32000, 3)]
    assert answered(peer, b'{"id":4,"method":"initialize"}') == [{"id": 4, "result": "done"}]
    assert answered(peer, b'{"id":5,"method":"hello"}') == [{"id": 5, "result": "done"}]
    assert refusals(peer, b'{"id":6,"method":"initialize"}') == [(-32600, 6)]


def test_without_a_handshake_the_opening_may_come_late_or_twice_or_never() -> None:
    peer = bootstrap()
    line = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
    assert answered(peer, b'{"jsonrpc":"2.0","id":0,"method":"hello"}')[0]["result"] == "done"
    assert answered(peer, line) == answered(peer, line)


def asked(peer: JsonRpcPeer) -> Any:
    return json.loads(peer.ask("may/I", {"what": "run"}, "apr_1"))


def test_what_we_ask_has_an_id_of_its_own_and_its_first_answer_counts() -> None:
    peer = flint()
    question = asked(peer)
    assert question["method"] == "may/I"
    assert peer.is_asking("apr_1")
    answer = json.dumps({"id": question["id"], "result": {"decision": "accept"}}).encode()
    [response] = peer.receive(answer)
    assert response == JsonRpcResponse(request_id="apr_1", result={"decision": "accept"})
    assert not peer.is_asking("apr_1")
    assert peer.receive(answer) == []


@pytest.mark.parametrize("wrong", [1, "1", True, None, 1.0, [], "apr_2"])
def test_an_answer_with_another_id_does_nothing(wrong: Any) -> None:
    peer = flint()
    asked(peer)
    assert peer.receive(json.dumps({"id": wrong, "result": {"decision": "accept"}}).encode()) == []
    assert peer.is_asking("apr_1")


def test_an_answer_to_what_is_settled_does_nothing() -> None:
    peer = flint()
    question = asked(peer)
    peer.withdraw("apr_1")
    assert peer.receive(json.dumps({"id": question["id"], "result": {}}).encode()) == []


def test_a_caller_tells_requests_notifications_and_replies_apart_and_skips_the_rest() -> None:
    caller = Caller(version=False)
    assert caller.read(b'{"id":"a","method":"may/I"}') == ServerRequest(id="a", method="may/I", params=None)
    assert caller.read(b'{"method":"news","params":{"n":1}}') == Notification(method="news", params={"n": 1})
    assert caller.read(b'{"id":1,"result":[]}') == JsonRpcReply(number=1, result=[])
    refused = RpcError(code=-1, message="no", data=2)
    assert caller.read(b'{"id":1,"error":{"code":-1,"message":"no","data":2}}') == JsonRpcReply(number=1, error=refused)
    for line in (b"{", b"[]", b"\xff", b'{"id":"x","result":1}', b'{"id":null,"error":{}}', b"[" * 100_000):
        assert caller.read(line) is None
    assert caller.read(TooLong(limit=1)) is None


def test_a_caller_numbers_its_requests() -> None:
    caller = Caller(version=True)
    assert [caller.request("go", {})[0] for _ in range(3)] == [1, 2, 3]
    assert json.loads(caller.result("a", 1)) == {"jsonrpc": "2.0", "id": "a", "result": 1}
    assert json.loads(caller.error(7, -32601, "no")) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32601, "message": "no"},
    }


def test_the_answer_to_our_request_brings_its_context_back() -> None:
    peer = flint()
    peer.ask("fs/read", {}, "r1", context="the file")
    [response] = peer.receive(b'{"id":"r1","error":{"code":1,"message":"no"}}')
    assert isinstance(response, JsonRpcResponse)
    assert (response.context, response.error) == ("the file", {"code": 1, "message": "no"})
