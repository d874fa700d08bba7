"""Members of Codex's requests that ask for something Hames does not have: refused in words, never dropped.

A value that asks for what happens here anyway is accepted; many clients send such a value with every request.
"""

from typing import Final

from hames.codecs.jsonrpc_peer import Params
from hames.domain.errors import InvalidCommand
from hames.domain.json import Json

_NO_PREDICTIONS: Final = "predictions are not supported"
_NO_TIERS: Final = "there are no service tiers; only 'default' is accepted"

UNSUPPORTED: Final[dict[str, tuple[tuple[Json, ...], str]]] = {
    "attachToSource": ((False,), "forks cannot be attached to their source"),
    "beforeTurnId": ((), "is not supported; name the last turn to keep with lastTurnId"),
    "cyberAccessProgram": (("standard",), "access programs are not supported"),
    "daybreakEnabled": ((False,), "is not supported"),
    "deferGoalContinuation": ((False,), "goals are not supported"),
    "delivery": (("inline",), "only 'inline' is supported: to review elsewhere, start a thread and review there"),
    "disabledPluginIds": (([],), "there are no plugins that could be disabled"),
    "environments": ((), "are not supported: a thread runs on the machine of its server, in cwd"),
    "experimentalDisablePredictionMcp": ((False,), _NO_PREDICTIONS),
    "experimentalPredictionMode": ((False,), _NO_PREDICTIONS),
    "experimentalRawEvents": ((False, True), "must be true or false"),
    "history": ((), "is not supported: the history of a thread is the one that is saved"),
    "historyMode": (("legacy", "paginated"), "must be 'legacy' or 'paginated'"),
    "mockExperimentalField": ((), "is not supported"),
    "multiAgentMode": (("explicitRequestOnly",), "only 'explicitRequestOnly' is supported: there are no other agents"),
    "originators": (([],), "are not known here"),
    "path": ((), "is not supported; name the thread with threadId"),
    "persistExtendedHistory": ((False, True), "must be true or false"),
    "projectId": ((), "projects are not supported"),
    "selectedCapabilityRoots": (([],), "are not supported"),
    "serviceTier": (("default", "auto"), _NO_TIERS),
    "serviceTierForTurn": (("default", "auto"), _NO_TIERS),
    "toolOutput": ((), "is not supported: tools are called by the agent"),
}
"""By member: the values that change nothing, and the sentence that any other one is refused with. Null is no value."""

_OF_SANDBOXES: Final[dict[str, str]] = {
    "excludeSlashTmp": "is not supported: commands always have a /tmp of their own",
    "excludeTmpdirEnvVar": "is not supported: commands always have a temporary directory of their own",
}


def refuse_unsupported(params: Params) -> None:
    """Raises `InvalidCommand` that names the member."""
    for name, (allowed, sentence) in UNSUPPORTED.items():
        given = params.get(name)
        if given is not None and not any(type(given) is type(one) and given == one for one in allowed):
            raise InvalidCommand(f"{name}: {sentence}")
    for member in ("sandbox", "sandboxPolicy"):
        if isinstance(policy := params.get(member), dict):
            _refuse_sandbox(policy, member)
    if isinstance(inputs := params.get("input"), list):
        for index, part in enumerate(inputs):
            if isinstance(part, dict) and part.get("detail") not in (None, "auto"):
                raise InvalidCommand(f"input[{index}].detail: only 'auto' is supported")


def _refuse_sandbox(policy: dict[str, Json], member: str) -> None:
    for name, sentence in _OF_SANDBOXES.items():
        if policy.get(name):
            raise InvalidCommand(f"{member}.{name}: {sentence}")
    if policy.get("type") == "readOnly" and policy.get("networkAccess"):
        raise InvalidCommand(f"{member}.networkAccess: a read-only sandbox has no network here")
