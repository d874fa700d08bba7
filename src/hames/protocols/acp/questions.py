"""What the client is asked: permissions, forms and files. Several questions may be open at once.

A question about an approval goes to every client of the thread, and the first answer counts: the others are told
with `$/cancel_request`. It waits for a person, so it has no deadline; a request for a file has one.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hames.codecs.jsonrpc_peer import JsonRpcPeer, JsonRpcResponse
from hames.domain.approvals import Approval, Elicit
from hames.domain.commands import InterruptTurn, ResolveApproval
from hames.domain.ids import ItemId, ThreadId
from hames.domain.json import Json
from hames.domain.state import ThreadState
from hames.protocols.acp.outbound import Outbound
from hames.protocols.acp.permissions import decode_elicitation, decode_permission, elicitation, is_cancelled
from hames.protocols.session import Action, ClientReply, Execute, ReadClientFile, UseClientTerminal, WriteClientFile


class _Asked(NamedTuple):
    thread_id: ThreadId
    approval: Approval
    is_form: bool
    """Asked with `elicitation/create`."""


class ClientQuestions:
    def __init__(
        self,
        rpc: JsonRpcPeer,
        send: Callable[[bytes], None],
        *,
        show_terminal: Callable[[ThreadId, ItemId, str], None] = lambda _thread, _item, _terminal: None,
    ) -> None:
        """`show_terminal` is told which terminal of the client's runs the command of an item."""
        self._show_terminal = show_terminal
        self._created: dict[str, UseClientTerminal] = {}
        self._rpc = rpc
        self._send = send
        self._asked: dict[str, _Asked] = {}
        self._files: dict[str, float] = {}
        """Deadlines of requests for files, by request id."""
        self.is_silent = False
        """It left a request for a file unanswered, so no tool asks it for others before its next prompt."""

    def ask_permissions(self, out: Outbound, state: ThreadState) -> None:
        """Asks about every approval that waits and was not asked about yet."""
        for approval in state.approvals:
            if approval.id in self._asked:
                continue
            elicit = approval.intent if isinstance(approval.intent, Elicit) else None
            if elicit is not None and out.client.elicitation.can_show(elicit):
                self._asked[approval.id] = _Asked(state.id, approval, is_form=True)
                params = elicitation(approval, elicit, state.id)
                self._send(self._rpc.ask("elicitation/create", params, approval.id))
            else:
                self._asked[approval.id] = _Asked(state.id, approval, is_form=False)
                params = out.permission(state, approval)
                self._send(self._rpc.ask("session/request_permission", params, approval.id))

    def can_ask_files(self, out: Outbound | None) -> bool:
        """Only version 1 has requests for files."""
        if out is None or out.version != 1:
            return False
        return out.client.read_files or out.client.write_files

    def ask_file(
        self,
        out: Outbound | None,
        request_id: str,
        request: ReadClientFile | WriteClientFile | UseClientTerminal,
        deadline: float,
    ) -> bool:
        """False: the client does not offer it."""
        if out is None or out.version != 1:
            return False
        params: dict[str, Json] = {"sessionId": request.thread_id}
        match request:
            case ReadClientFile(path=path) if out.client.read_files:
                line = self._rpc.ask("fs/read_text_file", {**params, "path": path}, request_id)
            case WriteClientFile(path=path, text=text) if out.client.write_files:
                line = self._rpc.ask("fs/write_text_file", {**params, "path": path, "content": text}, request_id)
            case UseClientTerminal(action=action, about=about) if out.client.terminals:
                line = self._rpc.ask(f"terminal/{action}", {**params, **about}, request_id)
                if action == "create":
                    self._created[request_id] = request
            case _:
                return False
        self._send(line)
        self._files[request_id] = deadline
        return True

    def receive(self, response: JsonRpcResponse) -> Sequence[Action]:
        if self._files.pop(response.request_id, None) is not None:
            error = "" if response.error is None else "the client refused"
            created = self._created.pop(response.request_id, None)
            match response.result:
                case {"terminalId": str(terminal)} if created is not None and not error:
                    self._show_terminal(created.thread_id, created.item_id, terminal)
                case _:
                    pass
            return [ClientReply(request_id=response.request_id, result=response.result, error=error)]
        asked = self._asked.pop(response.request_id, None)
        if asked is None:
            return []
        approval = asked.approval
        if asked.is_form and isinstance(approval.intent, Elicit):
            return [Execute(command=decode_elicitation(response, approval.intent))]
        if is_cancelled(response):  # by then the turn is being cancelled, and nothing must run
            interrupt = InterruptTurn(thread_id=asked.thread_id, turn_id=approval.turn_id)
            reject = ResolveApproval(approval_id=approval.id, decision="reject")
            return [Execute(command=interrupt), Execute(command=reject)]
        return [Execute(command=decode_permission(response, approval))]

    def withdraw(self, request_id: str) -> None:
        """It was answered elsewhere, or nobody needs the answer any more."""
        self._asked.pop(request_id, None)
        self._files.pop(request_id, None)
        self._created.pop(request_id, None)
        if self._rpc.is_asking(request_id):
            self._rpc.withdraw(request_id)
            self._send(self._rpc.notification("$/cancel_request", {"requestId": request_id}))

    def withdraw_all(self, thread_id: ThreadId) -> None:
        for request_id in [key for key, one in self._asked.items() if one.thread_id == thread_id]:
            self.withdraw(request_id)

    def next_deadline(self) -> float | None:
        return min(self._files.values(), default=None)

    def expire(self, now: float) -> list[Action]:
        late = [request_id for request_id, deadline in self._files.items() if deadline <= now]
        self.is_silent = self.is_silent or bool(late)
        for request_id in late:
            self.withdraw(request_id)
        return [ClientReply(request_id=one, error="the client did not answer in time") for one in late]
