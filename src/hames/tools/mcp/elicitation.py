"""What an MCP server asks a person in the middle of a call.

The SDK calls back from a task of its own, so the question is put by the call's task group:
it ends with the call, whoever asked, and a call that was stopped leaves no question behind.
"""

import logging
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.abc import TaskGroup

from hames.domain.approvals import Answer, Elicit
from hames.domain.errors import HarnessError
from hames.ports import Ask, Tell

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams, ElicitResult

log = logging.getLogger(__name__)

MESSAGE_CHARS = 4_000
SCHEMA_BYTES = 32_000
URL_CHARS = 2_000


class CallElicitations:
    """The questions of one running call, one after the other.

    `patience` is how long the call may take; the time a person takes to answer does not count.
    """

    def __init__(
        self, server: str, ask: Ask | None, tell: Tell, *, tasks: TaskGroup, patience: anyio.CancelScope
    ) -> None:
        self._server = server
        self._ask = ask
        self._tell = tell
        self._tasks = tasks
        self._patience = patience
        self._turn = anyio.Lock()

    async def answer(self, params: "ElicitRequestParams") -> "ElicitResult":
        """Raises nothing. Cancelled where the server has given up on it."""
        elicit = _understood(self._server, params)
        if self._ask is None or elicit is None:
            return declined(self._server, "nobody can be asked" if self._ask is None else "it is too long to be shown")
        async with self._turn:
            return _result(elicit, await self._asked(self._ask, elicit))

    async def _asked(self, ask: Ask, elicit: Elicit) -> Answer:
        left = self._patience.deadline - anyio.current_time()
        self._patience.deadline = float("inf")
        pending = _Pending()
        try:
            self._tasks.start_soon(self._put, ask, elicit, pending)
            await pending.done.wait()
        finally:
            pending.scope.cancel()
            self._patience.deadline = anyio.current_time() + left
        return pending.answer

    async def _put(self, ask: Ask, elicit: Elicit, pending: "_Pending") -> None:
        try:
            with pending.scope:
                pending.answer = await ask(elicit)
                left = "the question was left unanswered" if pending.answer.decision == "void" else ""
                if words := pending.answer.note or left:
                    await self._tell(f"{words}\n")
        except HarnessError as failure:  # the log failed; the call will learn of it when it ends
            log.warning("mcp.elicitation_unasked", extra={"server": self._server, "why": str(failure)})
        finally:
            pending.done.set()


class _Pending:
    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.done = anyio.Event()
        self.answer = Answer(decision="void")


def declined(server: str, why: str) -> "ElicitResult":
    """A plain no that the log explains."""
    from mcp.types import ElicitResult

    log.warning("mcp.elicitation_declined", extra={"server": server, "why": why})
    return ElicitResult(action="decline")


def _understood(server: str, params: "ElicitRequestParams") -> Elicit | None:
    """None for what no person could judge: it is kept in the log, so it has a size."""
    message = params.message[:MESSAGE_CHARS]
    if params.mode == "url":
        return Elicit(server=server, message=message, url=params.url) if 0 < len(params.url) <= URL_CHARS else None
    schema = params.requested_schema
    return Elicit(server=server, message=message, schema=schema) if _size(schema) <= SCHEMA_BYTES else None


def _size(schema: object) -> int:
    try:
        return len(msgspec.json.encode(schema))
    except (TypeError, ValueError, RecursionError, OverflowError):
        return SCHEMA_BYTES + 1


def _result(elicit: Elicit, answer: Answer) -> "ElicitResult":
    from mcp.types import ElicitResult

    match answer.decision:
        case "once" | "always":
            return ElicitResult(action="accept", content=None if elicit.url else answer.content)
        case "reject":
            return ElicitResult(action="decline")
        case "void":
            return ElicitResult(action="cancel")
