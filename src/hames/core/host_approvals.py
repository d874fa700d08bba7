"""Asks a person whether a running command may connect to a host that its sandbox does not name."""

import logging

import anyio

from hames.core.rule_checks import judge_by_rules
from hames.core.turn import LoopTurn
from hames.domain.approvals import RunCommand
from hames.domain.ids import ItemId
from hames.domain.network import HostPort, NetworkRules, is_allowed
from hames.domain.policy import WorkspaceWrite
from hames.domain.rules import covers_host
from hames.domain.rulings import Verdict, decide

log = logging.getLogger(__name__)

ASK_SECONDS = 60.0
"""How long a connection waits for the answer."""


async def ask_about_host(
    turn: LoopTurn, item_id: ItemId, command: str, cwd: str, to: HostPort, *, seconds: float = ASK_SECONDS
) -> str:
    """Why the command may not connect there, as the end of a sentence that begins with the host; empty: it may."""
    intent = RunCommand(command=command, cwd=cwd, connects_to=to, is_running=True)
    ruling = decide(
        intent,
        policy=turn.settings.approval_policy,
        sandbox=turn.place.sandbox,
        grants=turn.handle.state.grants,
        verdict=Verdict(trusted=False),
    )
    about = {"thread_id": turn.handle.thread_id, "host": str(to), "ruling": ruling.action}
    log.info("network.host", extra=about)
    if ruling.action == "allow":
        return ""
    if ruling.action == "deny":
        return ruling.reason.removeprefix(f"{to} ")
    if await _was_asked_before(turn, command, cwd, to):
        return ""
    with anyio.move_on_after(seconds):
        answer = await turn.handle.ask(item_id, intent, ruling.reason)
        if answer.decision in ("once", "always"):
            return ""
        return f"was declined by the user ({answer.note})" if answer.note else "was declined by the user"
    return f"is not an allowed host, and nobody answered within {seconds:g} s"


async def _was_asked_before(turn: LoopTurn, command: str, cwd: str, to: HostPort) -> bool:
    """Whether the command names the host, so that a person was asked about it by the same rule before it began."""
    sandbox = turn.place.sandbox
    if not isinstance(sandbox, WorkspaceWrite) or not (sandbox.hosts and sandbox.hosts.ask):
        return False
    without_rule = NetworkRules(allow=sandbox.hosts.allow, deny=sandbox.hosts.deny)
    if not sandbox.network_access and not is_allowed(without_rule, to.host, to.port):
        return False  # that is another question
    judged = await judge_by_rules(turn.rulebook, RunCommand(command=command, cwd=cwd), turn.settings)
    rule = judged.rule
    return rule is not None and rule.action == "ask" and bool(rule.host) and covers_host(rule.host, to.host)
