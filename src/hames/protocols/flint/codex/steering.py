"""`turn/start` on a thread that runs a turn: Codex's clients steer the turn in that way."""

from collections.abc import Sequence

from hames.domain.commands import ChangeSettings, StartTurn, SteerTurn
from hames.domain.errors import HarnessError, TurnBusy, TurnNotFound
from hames.domain.json import NOTHING
from hames.domain.options import Overrides
from hames.protocols.rpc_session import Pending
from hames.protocols.session import Action, Execute


def steering_instead(action: Execute, error: HarnessError) -> Sequence[Action]:
    """What to do where a turn cannot be started because one runs; nothing for any other failure."""
    command, pending = action.command, action.context
    if not isinstance(pending, Pending) or pending.request.method != "turn/start":
        return []
    match command, error:
        case StartTurn(), TurnBusy() if command.output_schema is NOTHING:  # a turn that runs gets no other form
            changed = ChangeSettings(thread_id=command.thread_id, overrides=command.overrides)
            steer = SteerTurn(
                thread_id=command.thread_id, content=command.content, client_id=command.client_id, meta=command.meta
            )
            settings = [Execute(command=changed)] if command.overrides != Overrides() else []
            return [*settings, Execute(command=steer, context=pending._replace(command=command))]
        case SteerTurn(), TurnNotFound() if pending.command is not None:  # it has ended meanwhile
            return [Execute(command=pending.command, context=pending._replace(command=None))]
        case _:
            return []
