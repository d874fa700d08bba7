"""Sessions of flint, and what they say."""

from typing import Any

import msgspec

from hames.domain.ids import ApprovalId, ThreadId
from hames.domain.state import blank
from hames.protocols.flint.session import FlintSession
from hames.protocols.rpc_session import Ask
from hames.protocols.session import Execute
from hames.testing.checks.session import receive
from hames.testing.fakes.model import OneModel, ScriptedModel

TEXT = [{"type": "text", "text": "go"}]


def opened(models: Any) -> FlintSession:
    session = FlintSession(models, blank(ThreadId("t")).settings)
    result(session, "initialize", clientInfo={"name": "me", "version": "1"})
    return session


def result(session: FlintSession, method: str, **params: Any) -> Any:
    _, said = receive(session, msgspec.json.encode({"id": 1, "method": method, "params": params}))
    return msgspec.json.decode(said)["result"]


def decided(**answer: Any) -> list[Any]:
    """The commands that this answer to a question means."""
    session = opened(OneModel(ScriptedModel()))
    session.say([Ask(method="may/I", params={}, approval_id=ApprovalId("apr_1"))])
    actions, _ = receive(session, msgspec.json.encode({"id": "apr_1", **answer}))
    return [action.command for action in actions if isinstance(action, Execute)]
