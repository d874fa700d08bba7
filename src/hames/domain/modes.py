"""The three modes: how much the agent does by itself. The same words everywhere: plan, ask, auto.

A mode is an agent profile and an approval policy under one name. Other policies stay possible, and have no mode.
"""

from typing import Final, Literal, get_args

from hames.domain.policy import AgentName, ApprovalPolicy, DangerFullAccess, SandboxPolicy
from hames.domain.value import Value

ModeName = Literal["plan", "ask", "auto"]
MODE_NAMES: Final[tuple[ModeName, ...]] = get_args(ModeName)
"""In the order that Shift+Tab goes through."""


class Mode(Value):
    """`approval_policy` None: it stays as it is."""

    agent: AgentName
    approval_policy: ApprovalPolicy | None
    words: str
    """What it means, in one line."""


MODES: Final[dict[ModeName, Mode]] = {
    "plan": Mode(
        agent="plan",
        approval_policy=None,
        words="Reads and plans, changes nothing; /go starts the work",
    ),
    "ask": Mode(
        agent="code",
        approval_policy="unlessTrusted",
        words="Commands that only read run; everything else needs your approval",
    ),
    "auto": Mode(
        agent="code",
        approval_policy="onRequest",
        words="Works inside the sandbox without questions; leaving it needs your approval",
    ),
}


def mode_of(agent: str, policy: ApprovalPolicy) -> ModeName | None:
    """
    >>> mode_of("plan", "never"), mode_of("code", "onRequest"), mode_of("code", "always")
    ('plan', 'auto', None)
    """
    if agent == "plan":
        return "plan"
    return next((name for name, mode in MODES.items() if (mode.agent, mode.approval_policy) == (agent, policy)), None)


def next_mode(now: ModeName | None) -> ModeName:
    """What Shift+Tab changes to. A thread that has no mode begins with `ask`: no key switches questions off at once."""
    return "ask" if now is None else MODE_NAMES[(MODE_NAMES.index(now) + 1) % len(MODE_NAMES)]


def default_policy(sandbox: SandboxPolicy, *, proved: bool) -> ApprovalPolicy:
    """Of our own terminal, page and `run`: `auto` where the sandbox was proved to hold on this machine."""
    held = proved and not isinstance(sandbox, DangerFullAccess)
    mode = MODES["auto" if held else "ask"]
    assert mode.approval_policy is not None
    return mode.approval_policy
