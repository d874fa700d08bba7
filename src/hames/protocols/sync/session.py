"""A client of sync: one connection is one thread; commands come in, the state goes out."""

from collections.abc import Callable, Sequence

from hames.codecs.jsontext import encode
from hames.codecs.lines import Line
from hames.domain.commands import DropPrompt, ReadThread
from hames.domain.errors import HarnessError, NotFound, TurnNotFound
from hames.domain.ids import ThreadId
from hames.domain.state import ThreadState
from hames.protocols.session import Action, Close, Defer, Execute, Follow, FollowList, Outcome, Session
from hames.protocols.sync import commands
from hames.protocols.sync import messages as m
from hames.protocols.sync.encoder import LIST_CHANGED, SyncEncoder, ThreadListEncoder
from hames.protocols.sync.inbound import Refused, decode

BAD_MESSAGES = 20
"""So many in a row, and it is no accident."""
POLICY, RESTARTS, NO_THREAD = 1008, 1012, 4404


class SyncSession(Session):
    def __init__(
        self,
        thread_id: ThreadId,
        encoder: Callable[[], SyncEncoder],
        picture_path: commands.PicturePath,
        *,
        can_answer: bool,
        follows_list: bool = False,
    ) -> None:
        self._thread_id = thread_id
        self._encoder = encoder
        self._picture_path = picture_path
        self._can_answer = can_answer
        self._follows_list = follows_list
        self._bad = 0
        self._output: list[bytes] = []

    def open(self, _now: float) -> Sequence[Action]:
        return [self._follow(), FollowList(encoder=ThreadListEncoder)] if self._follows_list else [self._follow()]

    def _follow(self) -> Follow:
        return Follow(thread_id=self._thread_id, can_answer=self._can_answer, encoder=self._encoder)

    def restarted(self) -> None:
        if self._follows_list:
            self._output.append(LIST_CHANGED)

    def receive(self, message: Line, _now: float) -> Sequence[Action]:
        try:
            given = decode(message if isinstance(message, bytes) else b"")
        except Refused as why:
            return [Defer(context=why)]
        if given and all(isinstance(command, m.Approve) for command in given):
            return [Defer(context=given, urgency="urgent")]
        return [Defer(context=given, threads=frozenset({self._thread_id}))]

    def resume(self, action: Defer, _now: float) -> Sequence[Action]:
        if isinstance(why := action.context, Refused):
            self._bad += 1
            self._refuse(str(why), why.submit_id)
            too_many = Close(code=POLICY, reason="too many invalid messages")
            return [too_many] if self._bad > BAD_MESSAGES else ()
        if isinstance(action.context, list):
            self._bad = 0
            return [Defer(context=command) for command in action.context]
        assert isinstance(action.context, m.SyncCommand)
        return self._command(action.context)

    def _command(self, given: m.SyncCommand) -> Sequence[Action]:
        follow: list[Action] = []
        if isinstance(given, m.Approve) and not self._can_answer:
            self._can_answer = True
            follow = [self._follow()]
        try:
            command = commands.command(given, self._thread_id, self._picture_path)
        except HarnessError as error:
            self._refuse_command(given, error)
            return follow
        return [*follow, Execute(command=command, context=given)]

    def done(self, action: Execute, outcome: Outcome) -> Sequence[Action]:
        if isinstance(action.command, ReadThread) and isinstance(outcome, ThreadState) and outcome.queue_held:
            drops = (DropPrompt(thread_id=self._thread_id, prompt_id=prompt.id) for prompt in outcome.queue)
            return [Execute(command=drop) for drop in drops]
        return ()

    def failed(self, action: Action, error: HarnessError) -> Sequence[Action]:
        match action:
            case Follow():
                code = NO_THREAD if isinstance(error, NotFound) else RESTARTS
                return [Close(code=code, reason=str(error), error=error)]
            case Execute(context=m.Steer() as given) if isinstance(error, TurnNotFound):
                submit = m.Submit(prompt=given.prompt, id=given.id, attachments=given.attachments)
                return self._command(submit)
            case Execute(context=m.Cancel()) if isinstance(error, TurnNotFound):
                return [Execute(command=ReadThread(thread_id=self._thread_id))]
            case Execute(context=given):
                self._refuse_command(given, error)
            case _:
                pass
        return ()

    def lost(self, _thread_id: ThreadId, why: str) -> Close:
        return Close(code=RESTARTS, reason=why)

    def _refuse_command(self, given: object, error: HarnessError) -> None:
        self._refuse(str(error), given.id if isinstance(given, m.Submit | m.Steer) else None)

    def _refuse(self, why: str, submit_id: str | None) -> None:
        refusal = m.ErrorMessage(message=why) if submit_id is None else m.ErrorMessage(message=why, submit_id=submit_id)
        self._output.append(encode(refusal))

    def take_output(self) -> bytes:
        data, self._output = b"\n".join(self._output), []
        return data
