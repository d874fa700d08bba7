"""Codex's own shape, for Codex's own clients.

They check what they read: members that may be null must be there, lists are lists where flint
has a string, and an item of an unknown type is an error. What they have no item for becomes
their `dynamicToolCall`; a plan is told as `turn/plan/updated` alone, as Codex does.
"""

from collections.abc import Sequence
from typing import assert_never

from hames.domain import items as domain
from hames.domain import policy, servers
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.commands import ThreadSummary
from hames.domain.errors import ErrorInfo
from hames.domain.events import ItemDelta, Noticed, TurnEnded, TurnError, UsageReported
from hames.domain.ids import ThreadId
from hames.domain.items import Item, ItemStatus, reason_of
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.notes import NoteFile
from hames.domain.options import Selector, Settings
from hames.domain.policy import ApprovalPolicy
from hames.domain.state import ThreadState, Turn
from hames.protocols.flint import elicitation, seed, uuids
from hames.protocols.flint.messages import ApprovalWord
from hames.protocols.flint.shape import About, Window
from hames.protocols.rpc import Notify

Members = dict[str, Json]

APPROVAL_WORDS: dict[ApprovalPolicy, str] = {"never": "never", "unlessTrusted": "on-request", "always": "untrusted"}

_ITEM_WORDS: dict[ItemStatus, str] = {
    "running": "inProgress",
    "completed": "completed",
    "failed": "failed",
    "declined": "declined",
    "interrupted": "failed",
    "skipped": "failed",
}
_TURN_WORDS = {"running": "inProgress", "completed": "completed", "interrupted": "interrupted", "failed": "failed"}
_CHANGE_KINDS: dict[str, Members] = {
    "add": {"type": "add"},
    "modify": {"type": "update", "move_path": None},
    "delete": {"type": "delete"},
}
_DELTAS: dict[tuple[type[Item], str], tuple[str, str, Members]] = {
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


class Codex:
    def __init__(self, about: About, window: Window) -> None:
        self._about = about
        self._window = window

    def spelled(self, thread_id: ThreadId) -> str:
        return uuids.spelled(thread_id)

    def thread(self, state: ThreadState, *, turns: bool) -> Members:
        return self._thread(
            id=self.spelled(state.id),
            preview=state.preview or state.title,
            title=state.title,
            model=state.settings.model,
            effort=state.settings.options.get("reasoning_effort"),
            cwd=state.settings.cwd,
            created_at_ms=state.created_at_ms,
            updated_at_ms=state.updated_at_ms,
            status=seed.status(state),
            forked_from=None if state.forked_from is None else self.spelled(state.forked_from),
            turns=[self.turn(turn) for turn in state.turns] if turns else [],
        )

    def listed(self, summary: ThreadSummary) -> Members:
        return self._thread(
            id=self.spelled(summary.id),
            preview=summary.preview or summary.title,
            title=summary.title,
            model=summary.model,
            effort=None,
            cwd=summary.cwd,
            created_at_ms=summary.created_at_ms,
            updated_at_ms=summary.updated_at_ms,
            status=seed.STANDINGS[summary.standing],
            forked_from=None,
            turns=[],
        )

    def _thread(
        self,
        *,
        id: str,  # noqa: A002
        preview: str,
        title: str,
        model: str,
        effort: str | None,
        cwd: str,
        created_at_ms: int,
        updated_at_ms: int,
        status: Json,
        forked_from: str | None,
        turns: list[Members],
    ) -> Members:
        return {
            "id": id,
            "sessionId": id,
            "preview": preview,
            "name": title or None,
            "modelProvider": seed.provider_of(model),
            "model": model,
            "reasoningEffort": effort,
            "cwd": cwd,
            "createdAt": created_at_ms // 1000,
            "updatedAt": updated_at_ms // 1000,
            "recencyAt": updated_at_ms // 1000,
            "status": status,
            "cliVersion": self._about.version,
            "source": "cli",
            "historyMode": "legacy",
            "ephemeral": False,
            "forkedFromId": forked_from,
            "turns": turns,
            "environments": None,
            "extra": None,
            "parentThreadId": None,
            "section": None,
            "sectionEnteredAt": None,
            "projectId": None,
            "path": None,
            "originator": None,
            "canAcceptDirectInput": None,
            "threadSource": None,
            "agentNickname": None,
            "agentRole": None,
            "gitInfo": None,
            "daybreakEnabled": None,
        }

    def opened(self, state: ThreadState, *, turns: bool) -> Members:
        settings = state.settings
        return {
            "thread": self.thread(state, turns=turns),
            "model": settings.model,
            "modelProvider": seed.provider_of(settings.model),
            "cwd": settings.cwd,
            "approvalPolicy": APPROVAL_WORDS[settings.approval_policy],
            "approvalsReviewer": "user",
            "sandbox": sandbox(settings.sandbox),
            "reasoningEffort": settings.options.get("reasoning_effort"),
            "collaborationMode": collaboration(settings),
            "multiAgentMode": "explicitRequestOnly",
            "serviceTier": None,
            "disabledPluginIds": [],
            "runtimeWorkspaceRoots": [settings.cwd],
            "instructionSources": [file.path for file in state.notes],
            "activePermissionProfile": None,
            "initialTurnsPage": None,
            "turnsBackwardsCursor": None,
            "itemsBackwardsCursor": None,
        }

    def page(self, threads: Sequence[Json], next_cursor: str | None) -> Members:
        return {"data": list(threads), "nextCursor": next_cursor, "backwardsCursor": None, "readStates": None}

    def turn(self, turn: Turn) -> Members:
        ended = turn.ended_at_ms
        return {
            "id": turn.id,
            "rootTurnId": turn.id,
            "items": [shown for item in turn.items if (shown := self.item(item)) is not None],
            "itemsView": "full",
            "status": _TURN_WORDS[turn.status],
            "error": None if turn.error is None else error(turn.error),
            "startedAt": turn.started_at_ms // 1000,
            "completedAt": None if ended is None else ended // 1000,
            "durationMs": None if ended is None else max(0, ended - turn.started_at_ms),
        }

    def item(self, item: Item) -> Members | None:
        match item:
            case domain.UserMessage():
                return _item("userMessage", item, clientId=item.client_id, content=self.inputs(item.content))
            case domain.AgentMessage():
                return _item(
                    "agentMessage",
                    item,
                    text=item.text,
                    phase=None,
                    memoryCitation=None,
                    delivery=None,
                    questions=None,
                )
            case domain.Reasoning():
                return _item(
                    "reasoning",
                    item,
                    summary=[item.summary] if item.summary else [],
                    content=[item.text] if item.text else [],
                )
            case domain.CommandExecution():
                return _item(
                    "commandExecution",
                    item,
                    command=item.command,
                    cwd=item.cwd,
                    status=_ITEM_WORDS[item.status],
                    commandActions=[{"type": "unknown", "command": item.command}],
                    # Codex has no member for a reason; its clients show the output of a command that failed.
                    aggregatedOutput=item.output
                    or reason_of(item)
                    or (None if item.status in ("running", "declined") else ""),
                    exitCode=item.exit_code,
                    durationMs=item.duration_ms,
                    source="agent",
                    processId=None,
                    pluginId=None,
                    scriptPath=None,
                )
            case domain.FileChange():
                changes = [file_update(change) for change in item.changes]
                reason = reason_of(item) or None
                return _item("fileChange", item, changes=changes, status=_ITEM_WORDS[item.status], reason=reason)
            case domain.McpToolCall():
                return _mcp(item)
            case domain.WebSearch():
                action = {"type": "search", "query": item.query}
                return _item("webSearch", item, query=item.query, action=action, results=None)
            case domain.Plan():
                return None
            case domain.ToolCall():
                return _dynamic(item, item.name, item.arguments)
            case domain.Artifact():
                return _dynamic(item, "artifact", {"path": item.path, "title": item.title})
            case domain.Compaction():
                return _item("contextCompaction", item)
            case _ as never:
                assert_never(never)

    def inputs(self, content: Sequence[domain.UserInput]) -> list[Members]:
        return [_input(part) for part in content]

    def plan(self, plan: domain.Plan) -> list[Members]:
        # Codex knows no failed step.
        return [
            {"step": entry.step, "status": "pending" if entry.status == "failed" else entry.status}
            for entry in plan.entries
        ]

    def settings(self, settings: Settings) -> Members:
        return {
            "model": settings.model,
            "modelProvider": seed.provider_of(settings.model),
            "cwd": settings.cwd,
            "approvalPolicy": APPROVAL_WORDS[settings.approval_policy],
            "approvalsReviewer": "user",
            "sandboxPolicy": sandbox(settings.sandbox),
            "effort": settings.options.get("reasoning_effort"),
            "collaborationMode": collaboration(settings),
            "multiAgentMode": "explicitRequestOnly",
            "activePermissionProfile": None,
            "disabledPluginIds": [],
            "serviceTier": None,
            "summary": None,
            "personality": None,
        }

    def usage(self, state: ThreadState, event: UsageReported) -> Members:
        counted = seed.token_usage(state, self._window(event.model))
        return {"threadId": self.spelled(state.id), "turnId": event.turn_id, "tokenUsage": counted}

    def ask(self, state: ThreadState, approval: Approval, at_ms: int) -> tuple[str, Json]:
        where: Members = {
            "threadId": self.spelled(state.id),
            "turnId": approval.turn_id,
            "itemId": approval.item_id,
            "startedAtMs": at_ms,
            "reason": approval.reason or None,
        }
        decisions = seed.decisions_about(seed.covered(approval, state.settings.cwd))
        match approval.intent:
            case RunCommand(command=command, cwd=cwd):
                return "item/commandExecution/requestApproval", _command_question(where, command, cwd, decisions)
            case ChangeFiles(changes=changes):
                shown = [file_update(change) for change in changes]
                return "item/fileChange/requestApproval", {**where, "grantRoot": None, "changes": shown}
            case CallMcp(server=server, tool=tool, arguments=arguments):
                # Codex asks about MCP by other means; every client of its knows how to ask about a command.
                words = f"{server}.{tool} {arguments}"
                asked = _command_question(where, words, state.settings.cwd, decisions)
                return "item/commandExecution/requestApproval", asked
            case UseTool(name=name, arguments=arguments):
                words = f"{name} {arguments}"
                asked = _command_question(where, words, state.settings.cwd, decisions)
                return "item/commandExecution/requestApproval", asked
            case Elicit() as elicit:
                told = elicitation.asked_codex(approval.id, elicit)
                return elicitation.METHOD, {"threadId": where["threadId"], "turnId": approval.turn_id, **told}
            case _ as never:
                assert_never(never)

    def delta(self, thread_id: ThreadId, event: ItemDelta, item: Item) -> Notify | None:
        if (found := _DELTAS.get((type(item), event.stream))) is None:
            return None
        method, name, also = found
        where = {"threadId": self.spelled(thread_id), "turnId": event.turn_id, "itemId": event.item_id}
        return Notify(method=method, params={**where, name: event.text, **also})

    def models(self, cards: Sequence[ModelCard], selectors: Sequence[Selector], default: str) -> Members:
        return {"data": [_model(card, selectors, default) for card in cards], "nextCursor": None}

    def queue(self, state: ThreadState) -> Members:
        return {"threadId": self.spelled(state.id)}

    def notices(self, thread_id: ThreadId, event: Noticed) -> list[Notify]:
        words = event.message or f"{event.source}: {event.name}"
        warning = Notify(method="warning", params={"threadId": self.spelled(thread_id), "message": words})
        about = event.data if event.name == servers.NOTICE and event.source == "hames" else None
        if not isinstance(about, dict):
            return [warning]
        status: Members = {
            "threadId": self.spelled(thread_id),
            "name": about.get("server", ""),
            "status": about.get("state", "failed"),
            "error": about.get("reason") or None,
            "failureReason": None,
        }
        changed = Notify(method="mcpServer/startupStatus/updated", params=status)
        return [changed, warning] if event.severity == "warning" else [changed]

    def notes(self, thread_id: ThreadId, files: Sequence[NoteFile]) -> list[Notify]:  # noqa: ARG002
        return []  # they are in the answer that opens the thread, and Codex has no word for it later

    def failure(self, thread_id: ThreadId, event: TurnEnded) -> list[Notify]:
        if event.error is None:
            return []
        where = {"threadId": self.spelled(thread_id), "turnId": event.turn_id}
        return [Notify(method="error", params={**where, "error": error(event.error), "willRetry": False})]


def sandbox(given: policy.SandboxPolicy) -> Members:
    match given:
        case policy.DangerFullAccess():
            return {"type": "dangerFullAccess"}
        case policy.ReadOnly():
            return {"type": "readOnly", "networkAccess": False}
        case policy.WorkspaceWrite(writable_roots=roots, network_access=network):
            return {
                "type": "workspaceWrite",
                "writableRoots": list(roots),
                "networkAccess": network,
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
            "developer_instructions": None,
        },
    }


def error(given: TurnError) -> Members:
    if given.info in _WITH_STATUS:
        known: Json = {_WITH_STATUS[given.info]: {"httpStatusCode": given.http_status}}
    else:
        known = _PLAIN.get(given.info, "other")
    return {"message": given.message, "codexErrorInfo": known, "additionalDetails": None, "misalignment": None}


def file_update(change: domain.FileUpdate) -> Members:
    return {"path": change.path, "kind": _CHANGE_KINDS[change.kind], "diff": change.diff}


def _item(kind: str, item: Item, **members: Json) -> Members:
    return {"type": kind, "id": item.id, **members}


def _mcp(item: domain.McpToolCall) -> Members:
    word = seed.mcp_status(item)
    return _item(
        "mcpToolCall",
        item,
        server=item.server,
        tool=item.tool,
        status=word,
        arguments=item.arguments,
        result={**seed.mcp_result(item), "_meta": None} if word == "completed" else None,
        error={"message": seed.why_failed(item)} if word == "failed" else None,
        durationMs=None,
        appContext=None,
        mcpAppUi=None,
        pluginId=None,
        readOnlyHint=None,
    )


def _dynamic(item: domain.ToolCall | domain.Artifact, tool: str, arguments: Json) -> Members:
    ended = item.status != "running"
    text = "" if item.result is None else item.result.text
    return _item(
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


def _input(part: domain.UserInput) -> Members:
    match part:
        case domain.TextInput(text=text):
            return {"type": "text", "text": text, "text_elements": []}
        case domain.ImageInput(url=url):
            return {"type": "image", "url": url}
        case domain.LocalImageInput(path=path):
            return {"type": "localImage", "path": path}
        case domain.FileInput(path=path):
            return {"type": "mention", "name": path.rpartition("/")[2], "path": path}
        case _ as never:
            assert_never(never)


def _command_question(where: Members, command: str, cwd: str, decisions: list[ApprovalWord]) -> Members:
    return {
        **where,
        "kind": "command",
        "command": command,
        "cwd": cwd,
        "commandActions": [{"type": "unknown", "command": command}],
        "availableDecisions": decisions,
        "environmentId": None,
    }


def _model(card: ModelCard, selectors: Sequence[Selector], default: str) -> Members:
    told = seed.model(card, selectors, default)
    return {
        "id": told.id,
        "model": told.model,
        "displayName": told.display_name,
        "description": card.description,
        "isDefault": told.is_default,
        "hidden": told.hidden,
        "defaultReasoningEffort": told.default_reasoning_effort,
        "supportedReasoningEfforts": told.supported_reasoning_efforts,
        "inputModalities": told.input_modalities,
        "supportsPersonality": False,
        "additionalSpeedTiers": [],
        "serviceTiers": [],
        "defaultServiceTier": None,
        "upgrade": None,
        "upgradeInfo": None,
        "availabilityNux": None,
        "modelSpecialty": None,
        "multiAgentVersion": None,
        "availableAccessPrograms": None,
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
            "model_provider": seed.provider_of(settings.model),
            "model_context_window": window,
            "model_reasoning_effort": settings.options.get("reasoning_effort"),
            "approval_policy": APPROVAL_WORDS[settings.approval_policy],
            "approvals_reviewer": "user",
            "sandbox_mode": modes[type(settings.sandbox)],
            "sandbox_workspace_write": None
            if workspace is None
            else {
                "writable_roots": list(workspace.writable_roots),
                "network_access": workspace.network_access,
                "exclude_tmpdir_env_var": False,
                "exclude_slash_tmp": False,
            },
            "instructions": settings.instructions or None,
            **dict.fromkeys(_UNSET_CONFIG),
        },
        "origins": {},
        "layers": None,
    }


_UNSET_CONFIG = (
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
)
