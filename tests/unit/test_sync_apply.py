"""Operations on a state: the cases that every applier passes."""

import copy
from pathlib import Path

import msgspec
import pytest

from hames.domain.json import Json
from sync_apply import ApplyError, applied

FIXTURES = Path(__file__).parents[2] / "specs" / "fixtures" / "sync"


def _cases() -> list[tuple[str, Json]]:
    found = sorted(FIXTURES.glob("*.json"))
    assert found, "the fixtures are gone"
    return [
        (f"{path.stem}: {case['name']}", case)
        for path in found
        for case in msgspec.json.decode(path.read_bytes())["cases"]
    ]


CASES = _cases()


@pytest.mark.spec(
    "sync/op-set", "sync/op-append-text", "sync/op-path-strings", "sync/ops-in-order", "sync/delta-patches-state"
)
@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
def test_a_fixture_ends_as_it_says(case: Json) -> None:
    before = copy.deepcopy(case["state"])
    if "error" in case:
        with pytest.raises(ApplyError) as caught:
            applied(case["state"], case["operations"])
        assert caught.value.code == case["error"]
    else:
        assert applied(case["state"], case["operations"]) == case["result"]
    assert case["state"] == before, "the state it was given was touched"


def test_what_did_not_change_is_shared_with_the_state_before() -> None:
    before = {"messages": [{"content": "a"}, {"content": "b"}], "thread": {"title": "x"}}
    after = applied(before, [{"type": "append-text", "path": ["messages", "1", "content"], "value": "c"}])
    assert after["thread"] is before["thread"]
    assert after["messages"][0] is before["messages"][0]


def test_a_value_of_an_operation_is_not_changed_by_the_next_one() -> None:
    value = {"content": ""}
    applied(
        {"messages": []},
        [
            {"type": "set", "path": ["messages", "0"], "value": value},
            {"type": "append-text", "path": ["messages", "0", "content"], "value": "x"},
        ],
    )
    assert value == {"content": ""}
