"""The members that answers and notifications for Codex's own clients are made of."""

from collections.abc import Sequence
from typing import assert_never

from hames.domain import items as domain
from hames.domain import policy
from hames.domain.errors import ErrorInfo
from hames.domain.events import TurnError
from hames.domain.items import Item
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector, Settings
from hames.domain.policy import ApprovalPolicy
from hames.domain.rules import Rule
from hames.protocols.flint import parts
from hames.protocols.flint.answers import amendment, codex_decision
from hames.protocols.flint.codex.diffs import codex_diff
from hames.protocols.flint.messages import ApprovalWord

Members = dict[str, Json]

UNUSED_THREAD_MEMBERS = [
    "environments",
    "extra",
    "parentThreadId",
    "section",
    "sectionEnteredAt",
    "projectId",
    "path",
    "originator",
    "canAcceptDirectInput",
    "threadSource",
    "agentNickname",
    "agentRole",
    "gitInfo",
    "daybreakEnabled",
]
"""Members that Codex's clients want to be there, and that are always null here."""
UNUSED_CONFIG_MEMBERS = [
    "review_model",
    "model_auto_compact_token_limit",
    "model_auto_compact_token_limit_scope",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "web_search",
    "tools",
    "developer_instructions",
    "compact_prompt",
    "model_reasoning_summary",
    "model_verbosity",
    "service_tier",
    "analytics",
    "apps",
    "browser_use",
    "computer_use",
    "desktop",
]
UNUSED_MODEL_MEMBERS = [
    "defaultServiceTier",
    "upgrade",
    "upgradeInfo",
    "availabilityNux",
    "modelSpecialty",
    "multiAgentVersion",
    "availableAccessPrograms",
]

APPROVAL_WORDS: dict[ApprovalPolicy, str] = {
    "never": "never",
    "onRequest": "on-request",
    "unlessTrusted": "untrusted",
    "always": "untrusted",
}

_CHANGE_KINDS: dict[str, Members] = {
    "add": {"type": "add"},
    "modify": {"type": "update", "move_path": None},
    "delete": {"type": "delete"},
}
DELTAS: dict[tuple[type[Item], str], tuple[str, str, Members]] = {
    (domain.AgentMessage, "text"): ("item/agentMessage/delta", "delta", {}),
    (domain.Reasoning, "text"): ("item/reasoning/textDelta", "delta", {"contentIndex": 0}),
    (domain.Reasoning, "summary"): ("item/reasoning/summaryTextDelta", "delta", {"summaryIndex": 0}),
    (domain.CommandExecution, "output"): ("item/commandExecution/outputDelta", "delta", {}),
    (domain.FileChange, "output"): ("item/fileChange/outputDelta", "delta", {}),
    (domain.McpToolCall, "output"): ("item/mcpToolCall/progress", "message", {}),
}
_WITH_STATUS: dict[ErrorInfo, str] = {
    "HttpConnectionFailed": "httpConnectionFailed",
    "ResponseStreamDisconnected": "responseStreamDisconnected",
    "ResponseTooManyFailedAttempts": "responseTooManyFailedAttempts",
}
_PLAIN: dict[ErrorInfo, str] = {
    "ContextWindowExceeded": "contextWindowExceeded",
    "UsageLimitExceeded": "usageLimitExceeded",
    "ServerOverloaded": "serverOverloaded",
    "Unauthorized": "unauthorized",
    "BadRequest": "badRequest",
    "ModelNotFound": "modelNotFound",
    "SandboxError": "sandboxError",
    "InternalServerError": "internalServerError",
}


def sandbox(given: policy.SandboxPolicy) -> Members:
    match given:
        case policy.DangerFullAccess():
            return {"type": "dangerFullAccess"}
        case policy.ReadOnly():
            return {"type": "readOnly", "networkAccess": False}
        case policy.WorkspaceWrite(writable_roots=roots):
            return {
                "type": "workspaceWrite",
                "writableRoots": list(roots),
                "networkAccess": policy.reaches_every_host(given),
                "excludeTmpdirEnvVar": False,
                "excludeSlashTmp": False,
            }
        case policy.ExternalSandbox(network_access=network):
            return {"type": "externalSandbox", "networkAccess": network}
        case _ as never:
            assert_never(never)


def collaboration(settings: Settings) -> Members:
    return {
        "mode": "plan" if settings.agent == "plan" else "default",
        "settings": {
            "model": settings.model,
            "reasoning_effort": settings.options.get("reasoning_effort"),
            "developer_instructions": settings.mode_instructions or None,
        },
    }


def error(given: TurnError) -> Members:
    if given.info in _WITH_STATUS:
        known: Json = {_WITH_STATUS[given.info]: {"httpStatusCode": given.http_status}}
    else:
        known = _PLAIN.get(given.info, "other")
    return {"message": given.message, "codexErrorInfo": known, "additionalDetails": None, "misalignment": None}


def file_update(change: domain.FileUpdate) -> Members:
    return {"path": change.path, "kind": _CHANGE_KINDS[change.kind], "diff": codex_diff(change)}


def item_members(kind: str, item: Item, **members: Json) -> Members:
    return {"type": kind, "id": item.id, **members}


def mcp_item(item: domain.McpToolCall) -> Members:
    word = parts.mcp_status(item)
    return item_members(
        "mcpToolCall",
        item,
        server=item.server,
        tool=item.tool,
        status=word,
        arguments=item.arguments,
        result={**parts.mcp_result(item), "_meta": None} if word == "completed" else None,
        error={"message": parts.why_failed(item)} if word == "failed" else None,
        durationMs=None,
        appContext=None,
        mcpAppUi=None,
        pluginId=None,
        readOnlyHint=None,
    )


def dynamic_item(item: domain.ToolCall | domain.Artifact, tool: str, arguments: Json) -> Members:
    ended = item.status != "running"
    text = "" if item.result is None else item.result.text
    return item_members(
        "dynamicToolCall",
        item,
        namespace=None,
        tool=tool,
        arguments=arguments,
        status="completed" if item.status == "completed" else "failed" if ended else "inProgress",
        contentItems=[{"type": "inputText", "text": text}] if ended else None,
        success=item.status == "completed" if ended else None,
        durationMs=None,
    )


def input_part(part: domain.UserInput) -> Members:
    match part:
        case domain.TextInput(text=text, meta=meta):
            marks = meta.get("text_elements", []) if isinstance(meta, dict) else []
            return {"type": "text", "text": text, "text_elements": marks}
        case domain.ImageInput(url=url):
            return {"type": "image", "url": url}
        case domain.LocalImageInput(path=path):
            return {"type": "localImage", "path": path}
        case domain.FileInput(path=path):
            return {"type": "mention", "name": path.rpartition("/")[2], "path": path}
        case _ as never:
            assert_never(never)


def command_question(where: Members, command: str, cwd: str, decisions: list[ApprovalWord]) -> Members:
    return {
        **where,
        "kind": "command",
        "command": command,
        "cwd": cwd,
        "commandActions": [{"type": "unknown", "command": command}],
        "availableDecisions": decisions,
        "environmentId": None,
    }


def with_amendment(asked: Members, offer: Rule | None) -> Members:
    """A rule that can be kept is for Codex's clients a prefix that they may add to their policy."""
    words = amendment(offer)
    if offer is None or not words:
        return asked
    decisions = [*asked["availableDecisions"][:-2], codex_decision(offer), *asked["availableDecisions"][-2:]]
    return {**asked, "availableDecisions": decisions, "proposedExecpolicyAmendment": words}


def model_members(card: ModelCard, selectors: Sequence[Selector], default: str) -> Members:
    told = parts.model(card, selectors, default)
    return {
        "id": told.id,
        "model": told.model,
        "displayName": told.display_name,
        "description": card.description,
        "isDefault": told.is_default,
        "hidden": told.hidden,
        # For a model without efforts any word will do, as long as every client knows it.
        "defaultReasoningEffort": told.default_reasoning_effort if told.supported_reasoning_efforts else "medium",
        "supportedReasoningEfforts": told.supported_reasoning_efforts,
        "inputModalities": told.input_modalities,
        "supportsPersonality": False,
        "additionalSpeedTiers": [],
        "serviceTiers": [],
        **dict.fromkeys(UNUSED_MODEL_MEMBERS),
    }


def config(settings: Settings, window: int | None) -> Members:
    """`config/read` as Codex has it: a file's worth of settings, most of which do not exist here."""
    modes = {
        policy.ReadOnly: "read-only",
        policy.WorkspaceWrite: "workspace-write",
        policy.DangerFullAccess: "danger-full-access",
        policy.ExternalSandbox: "danger-full-access",  # the walls are somebody else's
    }
    workspace = settings.sandbox if isinstance(settings.sandbox, policy.WorkspaceWrite) else None
    return {
        "config": {
            "model": settings.model,
            "model_provider": parts.provider_of(settings.model),
            "model_context_window": window,
            "model_reasoning_effort": settings.options.get("reasoning_effort"),
            "approval_policy": APPROVAL_WORDS[settings.approval_policy],
            "approvals_reviewer": "user",
            "sandbox_mode": modes[type(settings.sandbox)],
            "sandbox_workspace_write": None
            if workspace is None
            else {
                "writable_roots": list(workspace.writable_roots),
                "network_access": policy.reaches_every_host(workspace),
                "exclude_tmpdir_env_var": False,
                "exclude_slash_tmp": False,
            },
            "instructions": settings.instructions or None,
            **dict.fromkeys(UNUSED_CONFIG_MEMBERS),
        },
        "origins": {},
        "layers": None,
    }
