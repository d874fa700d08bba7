"""`mode` in the configuration: a word for an agent profile and an approval policy."""

from collections.abc import Mapping

from msgspec.structs import replace

from hames.config.setting import Setting
from hames.domain.modes import MODE_NAMES, MODES, ModeName
from hames.domain.policy import AgentName

_SAME = {"code": "ask", "default": "ask", "onrequest": "auto", "unlesstrusted": "ask", "readonly": "plan"}


def read_mode(word: str) -> ModeName | None:
    """
    >>> read_mode("Auto"), read_mode("on-request"), read_mode("full")
    ('auto', 'auto', None)
    """
    plain = word.replace("-", "").replace("_", "").lower()
    plain = _SAME.get(plain, plain)
    return next((name for name in MODE_NAMES if name == plain), None)


def apply_mode(settings: dict[str, Setting], ranks: Mapping[str, int], problems: list[str]) -> AgentName:
    """Sets the approval policy that the mode means, unless a stronger source names a policy. Returns the agent."""
    chosen, policy = settings["mode"], settings["approval_policy"]
    if not chosen.value:
        return "code"
    name = read_mode(chosen.value)
    if name is None:
        instead = " For no questions at all, use approval_policy" if chosen.value in ("never", "always", "full") else ""
        problems.append(
            f"mode is {chosen.value!r} ({chosen.origin}); it must be one of {', '.join(MODE_NAMES)}.{instead}"
        )
        settings["mode"] = replace(chosen, value="", origin="default")
        return "code"
    settings["mode"] = replace(chosen, value=name)
    means = MODES[name].approval_policy
    mine, theirs = ranks.get(chosen.origin, 0), ranks.get(policy.origin, 0)
    if means is not None and mine == theirs and policy.value != means and policy.origin != "default":
        problems.append(f"mode and approval_policy say different things ({chosen.origin}); set one of them")
    elif means is not None and mine > theirs:
        settings["approval_policy"] = replace(policy, value=means, origin=chosen.origin)
    return MODES[name].agent if mine >= theirs else "code"
