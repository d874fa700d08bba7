"""ACP, message by message: permissions and forms."""

import json
from typing import Any

import pytest
from acp_messages import BOTH, CHANGE, ITEM, RUN, SELECTED, THREAD, TURN, answered, asked, following, tell
from msgspec.structs import replace

from acp_schema import check_message
from hames.domain.approvals import CallMcp, Elicit, UseTool
from hames.domain.commands import (
    InterruptTurn,
    ResolveApproval,
)
from hames.domain.events import (
    ApprovalResolved,
)
from hames.domain.ids import ApprovalId

YES_NO = Elicit(server="shop", message="Sure?", schema={"properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})
SIZES = Elicit(server="shop", message="Size?", schema={"properties": {"size": {"enum": ["s", "m"]}}})
FORM = Elicit(
    server="shop",
    message="Who?",
    schema={"properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]},
)
VISIT = Elicit(server="shop", message="Sign in", url="https://example.com/in")
PERMISSIONS: list[tuple[Any, list[str]]] = [
    (RUN, ["allow_once", "allow_always", "reject_once"]),
    (replace(RUN, repeatable=False), ["allow_once", "reject_once"]),
    (replace(RUN, process="process 3"), ["allow_once", "allow_always", "reject_once"]),
    (CHANGE, ["allow_once", "allow_always", "reject_once"]),
    (replace(CHANGE, protected=True), ["allow_once", "reject_once"]),
    (CallMcp(server="s", tool="t", arguments={"a": 1}), ["allow_once", "allow_always", "reject_once"]),
    (UseTool(name="n"), ["allow_once", "reject_once"]),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("intent", "kinds"), PERMISSIONS)
def test_a_permission_offers_what_can_be_granted(version: int, intent: Any, kinds: list[str]) -> None:
    session, now = following(version)
    _, question = asked(session, now, intent)
    check_message(version, question)
    assert question["method"] == "session/request_permission"
    assert [one["kind"] for one in question["params"]["options"]] == kinds
    assert "because" in json.dumps(question)


DECISIONS: list[tuple[dict[str, Any], str]] = [
    ({"result": {"outcome": {**SELECTED, "optionId": "allow_once"}}}, "once"),
    ({"result": {"outcome": {**SELECTED, "optionId": "allow_always"}}}, "always"),
    ({"result": {"outcome": {**SELECTED, "optionId": "reject_once"}}}, "reject"),
    ({"result": {"outcome": {**SELECTED, "optionId": "ALLOW_ONCE"}}}, "reject"),
    ({"result": {"outcome": {**SELECTED, "optionId": ["allow_once"]}}}, "reject"),
    ({"result": {"outcome": {"outcome": "Selected", "optionId": "allow_once"}}}, "reject"),
    ({"result": {"outcome": {"optionId": "allow_once"}}}, "reject"),
    ({"result": {"optionId": "allow_once"}}, "reject"),
    ({"result": True}, "reject"),
    ({"result": None}, "reject"),
    ({"error": {"code": -32601, "message": "no"}}, "reject"),
    ({"result": {"outcome": {**SELECTED, "optionId": "allow_once"}}, "error": {"code": 1, "message": "m"}}, "reject"),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("answer", "decision"), DECISIONS)
def test_the_answer_to_a_permission_decides(version: int, answer: Any, decision: str) -> None:
    session, now = following(version)
    _, question = asked(session, now, RUN)
    [command] = answered(session, question, **answer)
    assert isinstance(command, ResolveApproval)
    assert command.decision == decision
    assert answered(session, question, **answer) == [], "the second answer means nothing"


@pytest.mark.parametrize("version", BOTH)
def test_an_always_that_was_not_offered_rejects(version: int) -> None:
    session, now = following(version)
    _, question = asked(session, now, UseTool(name="n"))
    [command] = answered(session, question, result={"outcome": {**SELECTED, "optionId": "allow_always"}})
    assert command.decision == "reject"


@pytest.mark.parametrize("version", BOTH)
def test_a_cancelled_permission_interrupts_the_turn_first(version: int) -> None:
    session, now = following(version)
    _, question = asked(session, now, RUN)
    first, second = answered(session, question, result={"outcome": {"outcome": "cancelled"}})
    assert first == InterruptTurn(thread_id=THREAD, turn_id=TURN)
    assert second.decision == "reject"


@pytest.mark.parametrize("version", BOTH)
def test_two_permissions_are_open_at_once_and_answered_in_any_order(version: int) -> None:
    session, now = following(version)
    now, first = asked(session, now, RUN, "apr_1")
    now, second = asked(session, now, CHANGE, "apr_2")
    [command] = answered(session, second, result={"outcome": {**SELECTED, "optionId": "allow_once"}})
    assert command.approval_id == "apr_2"
    [command] = answered(session, first, result={"outcome": {**SELECTED, "optionId": "reject_once"}})
    assert (command.approval_id, command.decision) == ("apr_1", "reject")


@pytest.mark.parametrize("version", BOTH)
def test_a_permission_that_was_answered_elsewhere_is_withdrawn(version: int) -> None:
    session, now = following(version)
    now, question = asked(session, now, RUN)
    resolved = ApprovalResolved(turn_id=TURN, approval_id=ApprovalId("apr_1"), item_id=ITEM, decision="once")
    _, heard = tell(session, now, resolved)
    assert heard[0]["method"] == "$/cancel_request"
    assert heard[0]["params"] == {"requestId": question["id"]}
    assert answered(session, question, result={"outcome": {**SELECTED, "optionId": "allow_once"}}) == []


FORMS: list[tuple[Any, dict[str, Any], str, Any]] = [
    (FORM, {"action": "accept", "content": {"name": "Ada", "age": 3}}, "once", {"name": "Ada", "age": 3}),
    (FORM, {"action": "accept", "content": {"age": 3}}, "reject", None),
    (FORM, {"action": "accept", "content": {"name": 3}}, "reject", None),
    (FORM, {"action": "accept"}, "reject", None),
    (FORM, {"action": "decline"}, "reject", None),
    (FORM, {"action": "cancel"}, "void", None),
    (FORM, {"action": "other"}, "reject", None),
    (FORM, {}, "reject", None),
    (YES_NO, {"action": "accept", "content": {"ok": True}}, "once", {"ok": True}),
    (VISIT, {"action": "accept"}, "once", None),
    (VISIT, {"action": "decline"}, "reject", None),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("elicit", "result", "decision", "content"), FORMS)
def test_a_form_is_shown_where_the_client_can_show_it(
    version: int, elicit: Elicit, result: Any, decision: str, content: Any
) -> None:
    session, now = following(version)
    _, question = asked(session, now, elicit)
    check_message(version, question)
    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == ("url" if elicit.url else "form")
    [command] = answered(session, question, result=result)
    assert (command.decision, command.content) == (decision, content)


CHOICES: list[tuple[Any, int, str, Any]] = [
    (YES_NO, 3, "choice:0", {"ok": True}),
    (YES_NO, 3, "choice:1", {"ok": False}),
    (SIZES, 3, "choice:1", {"size": "m"}),
    (VISIT, 2, "allow_once", None),
]


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize(("elicit", "count", "option", "content"), CHOICES)
def test_a_form_is_a_choice_where_the_client_has_no_forms(
    version: int, elicit: Elicit, count: int, option: str, content: Any
) -> None:
    session, now = following(version, {})
    _, question = asked(session, now, elicit)
    check_message(version, question)
    assert question["method"] == "session/request_permission"
    assert len(question["params"]["options"]) == count
    [command] = answered(session, question, result={"outcome": {**SELECTED, "optionId": option}})
    assert (command.decision, command.content) == ("once", content)


@pytest.mark.parametrize("version", BOTH)
def test_a_form_that_nobody_can_fill_in_can_only_be_declined(version: int) -> None:
    session, now = following(version, {})
    _, question = asked(session, now, FORM)
    assert [one["kind"] for one in question["params"]["options"]] == ["reject_once"]
