"""What a client sends, in the engine's words."""

from typing import Any

import pytest

from hames.domain.commands import CreateThread, InterruptTurn, ListThreads, ReadThread, ResolveApproval, StartTurn
from hames.domain.errors import InvalidCommand, UnknownMethod
from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.items import FileInput, ImageInput, LocalImageInput, TextInput
from hames.domain.options import Overrides
from hames.protocols.bootstrap.inbound import EVERY_THREAD, Initialize, decode

T = ThreadId("ses_1")
HI = [{"type": "text", "text": "hi"}]


@pytest.mark.parametrize(
    ("method", "params", "command"),
    [
        ("initialize", {}, Initialize()),
        ("thread.create", {}, CreateThread()),
        ("thread.create", {"title": "A", "directory": "/w"}, CreateThread(title="A", overrides=Overrides(cwd="/w"))),
        ("thread.list", {"anything": 1}, ListThreads(limit=EVERY_THREAD, archived=None)),
        ("thread.get", {"threadId": "ses_1"}, ReadThread(thread_id=T)),
        ("turn.cancel", {"threadId": "ses_1"}, InterruptTurn(thread_id=T)),
        (
            "approval.respond",
            {"requestId": "apr_1", "decision": "always"},
            ResolveApproval(approval_id=ApprovalId("apr_1"), decision="always"),
        ),
        (
            "turn.start",
            {
                "threadId": "ses_1",
                "input": HI,
                "model": {"providerID": "anthropic", "modelID": "claude-sonnet-4-20250514"},
                "agent": "plan",
            },
            StartTurn(
                thread_id=T,
                content=(TextInput(text="hi"),),
                overrides=Overrides(model="anthropic/claude-sonnet-4-20250514", agent="plan"),
            ),
        ),
        (
            "turn.start",
            {
                "threadId": "ses_1",
                "input": [
                    {"type": "text", "text": "  "},
                    {"type": "image", "url": "data:image/png;base64,AA=="},
                    {"type": "image", "path": "a.png"},
                    {"type": "file", "path": "a.txt", "unknown": 1},
                ],
            },
            StartTurn(
                thread_id=T,
                content=(
                    ImageInput(url="data:image/png;base64,AA=="),
                    LocalImageInput(path="a.png"),
                    FileInput(path="a.txt"),
                ),
            ),
        ),
    ],
)
def test_a_message_means_a_command(method: str, params: dict[str, Any], command: object) -> None:
    assert decode(method, params) == command


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("thread.create", {"directory": "w"}),
        ("thread.create", {"directory": ""}),
        ("thread.create", {"directory": "/a\0b"}),
        ("thread.create", {"title": None}),
        ("turn.start", {"threadId": "t", "input": []}),
        ("turn.start", {"threadId": "t", "input": [{"type": "text", "text": "\n\t "}]}),
        ("turn.start", {"threadId": "t", "input": [{"type": "file", "path": ""}]}),
        ("turn.start", {"threadId": "t", "input": [{"type": "file", "path": "a\0b"}]}),
        ("turn.start", {"threadId": "t", "input": [{"type": "image", "url": ""}]}),
        ("turn.start", {"threadId": "t", "input": [{"type": "image", "url": "javascript:alert(1)"}]}),
        ("turn.start", {"threadId": "t", "input": [{"type": "image", "url": "file:///etc/passwd"}]}),
        ("turn.start", {"threadId": "t", "input": [{"type": "image", "url": "data:text/html,x"}]}),
        ("turn.start", {"threadId": "t", "input": [{"type": "image", "url": "x", "path": "y"}]}),
        ("turn.start", {"threadId": "t", "input": HI, "model": {"providerID": "", "modelID": "x"}}),
        ("turn.start", {"threadId": "t", "input": HI, "model": {"providerID": "x"}}),
        ("turn.start", {"threadId": "t", "input": HI, "agent": "Code"}),
        ("approval.respond", {"requestId": "r", "decision": "void"}),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_place_of_it(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(InvalidCommand, match=r"at `\$"):
        decode(method, params)


def test_a_method_nobody_offers_is_unknown() -> None:
    with pytest.raises(UnknownMethod):
        decode("no.such", {})
