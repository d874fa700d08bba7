"""Which clients are spoken to in Codex's format, when their name does not say it.

Many programs that were written for Codex's app server call themselves something else. They give themselves away by
what they send: a word, a member or a request that flint does not have. Whoever sends one is answered in Codex's format
from then on.
"""

from hames.codecs.jsonrpc_peer import Params
from hames.domain.json import Json
from hames.protocols.flint.codex.policies import CODEX_APPROVALS, SANDBOX_MODES

_MEMBERS = frozenset(
    {
        "additionalContext",
        "allowProviderModelFallback",
        "approvalsReviewer",
        "collaborationMode",
        "cyberAccessProgram",
        "daybreakEnabled",
        "disabledPluginIds",
        "effort",
        "environments",
        "ephemeral",
        "excludedThreadIds",
        "experimentalRawEvents",
        "historyMode",
        "initialTurnsPage",
        "modelProvider",
        "modelProviders",
        "multiAgentMode",
        "originators",
        "permissions",
        "persistExtendedHistory",
        "projectId",
        "responsesapiClientMetadata",
        "runtimeWorkspaceRoots",
        "serviceName",
        "serviceTier",
        "sessionStartSource",
        "sourceKinds",
        "sortDirection",
        "sortKey",
        "summary",
        "threadSource",
        "useStateDbOnly",
    }
)
"""Parameters of threads and turns that only Codex's protocol has."""

_METHODS = ("thread/start", "thread/resume", "thread/fork", "thread/list", "thread/settings/update")
_WITH_INPUT = ("turn/start", "turn/steer", "thread/queue/add")


def is_codex_request(method: str, params: Params) -> bool:
    """Whether only a client of Codex's protocol would send this."""
    if method not in _METHODS and method not in _WITH_INPUT:
        return False
    if not _MEMBERS.isdisjoint(params):
        return True
    policy, sandbox = params.get("approvalPolicy"), params.get("sandbox", params.get("sandboxPolicy"))
    if isinstance(policy, dict) or (isinstance(policy, str) and policy in CODEX_APPROVALS):
        return True
    if isinstance(sandbox, str) and sandbox in SANDBOX_MODES:
        return True
    inputs = params.get("input")
    return isinstance(inputs, list) and any(map(_is_codex_input, inputs))


def _is_codex_input(part: Json) -> bool:
    return isinstance(part, dict) and ("text_elements" in part or part.get("type") in ("mention", "skill"))
