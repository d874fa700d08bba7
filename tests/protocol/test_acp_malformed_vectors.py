"""ACP, message by message: what is no good request, and `initialize`."""

import json
from typing import Any

import pytest
from acp_messages import BOTH, THREAD, ask, fresh, initialize, opened

from acp_schema import check_message
from hames.testing.checks.session import receive

LINES: list[tuple[str, int]] = [
    ("{", -32700),
    ("not json", -32700),
    ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}', -32700),
    ("[]", -32600),
    ('[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600),
    ("null", -32600),
    ("3", -32600),
    ('"session/list"', -32600),
    ("{}", -32600),
    ('{"id":1}', -32600),
    ('{"id":1,"method":"session/list"}', -32600),
    ('{"jsonrpc":"1.0","id":1,"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":3}', -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":true,"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":1,"id":2,"method":"session/list"}', -32600),
    ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":[]}', -32602),
    ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":3}', -32602),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("line", "code"), LINES)
def test_a_malformed_message_is_answered(version: int, line: str, code: int) -> None:
    actions, said = receive(opened(version), line.encode())
    assert actions == []
    [answer] = [json.loads(one) for one in said.splitlines()]
    assert answer["error"]["code"] == code
    check_message(version, answer)


UNKNOWN = {
    1: [
        "no/such",
        "",
        "session",
        "session/New",
        "auth/login",
        "auth/logout",
        "tool_call/cancel",
        "terminal/cancel",
        "session/archive",
        "session/update",
        "session/request_permission",
        "fs/read_text_file",
        "terminal/create",
        "elicitation/create",
        "providers/list",
        "_hames/unknown",
        "_session/steering",
    ],
    2: [
        "no/such",
        "authenticate",
        "logout",
        "session/load",
        "session/set_mode",
        "session/archive",
        "session/update",
        "fs/write_text_file",
        "terminal/output",
        "_hames/unknown",
    ],
}


@pytest.mark.parametrize(("version", "method"), [(version, one) for version in BOTH for one in UNKNOWN[version]])
def test_a_method_that_the_version_does_not_have_is_refused_at_once(version: int, method: str) -> None:
    actions, [answer] = ask(opened(version), method, {"sessionId": THREAD, "cwd": "/w"})
    assert actions == []
    assert answer["error"]["code"] == -32601


SILENT = [
    '{"jsonrpc":"2.0","method":"no/such"}',
    '{"jsonrpc":"2.0","method":"session/cancel"}',
    '{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":3}}',
    '{"jsonrpc":"2.0","method":"session/cancel","params":[]}',
    '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":99}}',
    '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}',
    '{"jsonrpc":"2.0","method":"$/cancel_request"}',
    '{"jsonrpc":"2.0","method":"session/prompt","params":{"sessionId":"ses_1","prompt":[]}}',
    '{"jsonrpc":"2.0","id":"nothing we asked","result":{}}',
    '{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"m"}}',
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("line", SILENT)
def test_a_notification_and_a_stray_answer_are_never_answered(version: int, line: str) -> None:
    assert receive(opened(version), line.encode()) == ([], b"")


# -- initialize


@pytest.mark.parametrize(("asked", "agreed"), [(0, 1), (1, 1), (2, 2), (3, 2), (65535, 2)])
def test_the_version_is_the_clients_or_the_nearest(asked: int, agreed: int) -> None:
    _, [answer] = ask(fresh(), "initialize", {"protocolVersion": asked})
    assert answer["result"]["protocolVersion"] == agreed
    check_message(agreed, answer, "initialize")


@pytest.mark.parametrize("asked", [None, "1", 1.5, -1, True, 65536, [], {}])
def test_a_version_that_is_none_is_refused(asked: Any) -> None:
    session = fresh()
    _, [answer] = ask(session, "initialize", {"protocolVersion": asked})
    assert answer["error"]["code"] == -32602
    assert ask(session, "initialize", {"protocolVersion": 1})[1][0]["result"]["protocolVersion"] == 1


def test_nothing_comes_before_initialize() -> None:
    for method in ("session/new", "session/prompt", "authenticate"):
        actions, [answer] = ask(fresh(), method, {"cwd": "/w"})
        assert (actions, answer["error"]["code"]) == ([], -32600)


def test_initialize_may_be_repeated_until_something_else_is_asked() -> None:
    session = fresh()
    assert ask(session, "initialize", {"protocolVersion": 2})[1][0]["result"]["protocolVersion"] == 2
    assert ask(session, "initialize", {"protocolVersion": 1})[1][0]["result"]["protocolVersion"] == 1
    ask(session, "session/list", {})
    assert ask(session, "initialize", {"protocolVersion": 2})[1][0]["error"]["code"] == -32600
    assert ask(session, "auth/login", {"methodId": "api-key"})[1][0]["error"]["code"] == -32601, "it stays with v1"


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("offered", [{}, None, [], "x", {"fs": 3, "session": None, "elicitation": [], "auth": "x"}])
def test_odd_capabilities_are_as_good_as_none(version: int, offered: Any) -> None:
    member = "clientCapabilities" if version == 1 else "capabilities"
    _, [answer] = ask(fresh(), "initialize", {"protocolVersion": version, member: offered})
    methods = answer["result"]["authMethods"]
    assert [one.get("type", "agent") for one in methods] == ["agent"], "no sign-in in a terminal that nobody offered"


@pytest.mark.parametrize("version", BOTH)
def test_sign_in_in_a_terminal_is_offered_where_the_client_has_one(version: int) -> None:
    _, [answer] = ask(fresh(), "initialize", initialize(version))
    check_message(version, answer, "initialize")
    assert answer["result"]["authMethods"][1]["args"] == ["--setup"]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("number", [0, -5, 7, 2**70, "a", "", None, 1.5])
def test_an_id_comes_back_as_it_came(version: int, number: Any) -> None:
    _, [answer] = ask(opened(version), "no/such", {}, number=number)
    assert answer["id"] == number
