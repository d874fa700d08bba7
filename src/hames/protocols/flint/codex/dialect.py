"""How Codex's own clients are spoken to.

They check what they read: members that may be null must be there, lists are lists where flint
has a string, and an item of an unknown type is an error. What they have no item for becomes
their `dynamicToolCall`; a plan is told as `turn/plan/updated` alone, as Codex does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import msgspec
from msgspec.structs import replace

from hames.codecs.jsonrpc_peer import Params
from hames.domain import items as domain
from hames.domain import servers
from hames.domain.approvals import Approval, CallMcp, ChangeFiles, Elicit, RunCommand, UseTool
from hames.domain.commands import Command, ThreadSummary
from hames.domain.errors import HarnessError
from hames.domain.events import ApprovalResolved, ItemDelta, Noticed, ToolCalled, TurnEnded, UsageReported
from hames.domain.ids import ThreadId, TurnId
from hames.domain.items import Item, reason_of
from hames.domain.json import Json
from hames.domain.models import ModelCard
from hames.domain.options import Selector, Settings
from hames.domain.project_notes import NoteFile
from hames.domain.state import Change, ThreadState, Turn, is_voided, summary
from hames.protocols.flint import elicitation, errors, parts
from hames.protocols.flint import messages as m
from hames.protocols.flint.codex import inbound, uuids
from hames.protocols.flint.codex.diffs import turn_diff
from hames.protocols.flint.codex.injected_items import is_injected
from hames.protocols.flint.codex.members import (
    APPROVAL_WORDS,
    DELTAS,
    UNUSED_THREAD_MEMBERS,
    Members,
    collaboration,
    command_question,
    config,
    dynamic_item,
    error,
    file_update,
    input_part,
    item_members,
    mcp_item,
    model_members,
    sandbox,
    with_amendment,
)
from hames.protocols.flint.codex.raw_items import METHOD as RAW_ITEM
from hames.protocols.flint.codex.raw_items import raw_call, raw_item, wants_raw_items
from hames.protocols.flint.codex.review import entered_review, exited_review
from hames.protocols.flint.dialect import FlintDialect
from hames.protocols.flint.inbound import Local
from hames.protocols.flint.options import applicable_options
from hames.protocols.rpc_session import Notify


class CodexDialect(FlintDialect):
    is_codex = True
    steers = True
    reads_turns = False

    def decode(self, method: str, params: Params) -> Command | Local:
        return inbound.decode(method, params)

    def own_ids(self, params: Params) -> Params:
        named = params.get("threadId")
        return {**params, "threadId": uuids.from_uuid(named)} if isinstance(named, str) else params

    def error_code(self, error: HarnessError) -> int:
        return errors.code(error, errors.CODEX)

    def known_options(
        self, selectors: Sequence[Selector], model: Callable[[], str], wanted: Mapping[str, str]
    ) -> dict[str, str]:
        """They send an effort whether the model knows it or not."""
        return applicable_options(selectors, model(), wanted)

    def config(self, settings: Settings, options: list[m.ConfigOption]) -> Json:  # noqa: ARG002
        return config(settings, self._window(settings.model))

    def thread_id(self, thread_id: ThreadId) -> str:
        return uuids.to_uuid(thread_id)

    def thread(self, state: ThreadState, *, turns: bool) -> Members:
        return {
            **self.listed_thread(summary(state)),
            "reasoningEffort": state.settings.options.get("reasoning_effort"),
            "status": parts.THREAD_STATUS[state.standing],
            "forkedFromId": None if state.forked_from is None else self.thread_id(state.forked_from),
            "turns": [self.turn(turn) for turn in self.shown_turns(state.turns)] if turns else [],
        }

    def listed_thread(self, thread: ThreadSummary) -> Members:
        thread_id = self.thread_id(thread.id)
        return {
            "id": thread_id,
            "sessionId": thread_id,
            "preview": thread.preview or thread.title,
            "name": thread.title or None,
            "modelProvider": parts.provider_of(thread.model),
            "model": thread.model,
            "reasoningEffort": None,
            "cwd": thread.cwd,
            "createdAt": thread.created_at_ms // 1000,
            "updatedAt": thread.updated_at_ms // 1000,
            "recencyAt": thread.updated_at_ms // 1000,
            "status": parts.THREAD_STATUS[thread.standing],
            "cliVersion": self._about.version,
            "source": "cli",
            "historyMode": "legacy",
            "ephemeral": thread.ephemeral,
            "forkedFromId": None,
            "turns": [],
            **dict.fromkeys(UNUSED_THREAD_MEMBERS),
            "threadSource": _noted(thread.meta, "threadSource"),
        }

    def opened_thread(self, state: ThreadState, *, turns: bool) -> Members:
        settings = state.settings
        return {
            "thread": self.thread(state, turns=turns),
            "model": settings.model,
            "modelProvider": parts.provider_of(settings.model),
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
            "rootTurnId": _noted(turn.meta, "rootTurnId") or turn.id,
            "items": self.turn_items(turn),
            "itemsView": "full",
            "status": parts.TURN_WORDS[turn.status],
            "error": None if turn.error is None else error(turn.error),
            "startedAt": turn.started_at_ms // 1000,
            "completedAt": None if ended is None else ended // 1000,
            "durationMs": turn.duration_ms,
        }

    def begun_turn(self, turn: Turn) -> Members:
        return {**self.turn(replace(turn, items=())), "itemsView": "notLoaded"}

    def told_turn(self, turn: Turn) -> Members:
        """With nothing but what the agent said: clients that know fewer items than we have can read it."""
        messages = tuple(
            item for item in turn.items if isinstance(item, domain.AgentMessage) and not is_voided(turn, item)
        )
        if turn.status == "running" or not messages:
            return self.begun_turn(turn)
        return {**self.turn(turn), "items": [self.item(item) for item in messages], "itemsView": "summary"}

    def turn_items(self, turn: Turn) -> list[Json]:
        # Codex has no mark for a reply that was asked for again, so that history has only the one that counts.
        counting = (item for item in turn.items if not is_voided(turn, item))
        around = (entered_review(turn), *map(self.item, counting), exited_review(turn))
        return [shown for shown in around if shown is not None]

    def item(self, item: Item) -> Members | None:
        match item:
            case domain.UserMessage():
                return item_members("userMessage", item, clientId=item.client_id, content=self.inputs(item.content))
            case domain.AgentMessage():
                return item_members(
                    "agentMessage",
                    item,
                    text=item.text,
                    phase=None,
                    memoryCitation=None,
                    delivery=None,
                    questions=None,
                )
            case domain.Reasoning():
                return item_members(
                    "reasoning",
                    item,
                    summary=[item.summary] if item.summary else [],
                    content=[item.text] if item.text else [],
                )
            case domain.CommandExecution():
                return item_members(
                    "commandExecution",
                    item,
                    command=item.command,
                    cwd=item.cwd,
                    status=parts.ITEM_WORDS[item.status],
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
                return item_members(
                    "fileChange", item, changes=changes, status=parts.ITEM_WORDS[item.status], reason=reason
                )
            case domain.McpToolCall():
                return mcp_item(item)
            case domain.WebSearch():
                action = {"type": "search", "query": item.query}
                return item_members("webSearch", item, query=item.query, action=action, results=None)
            case domain.Plan():
                return None
            case domain.ToolCall():
                return dynamic_item(item, item.name, item.arguments)
            case domain.Artifact():
                return dynamic_item(item, "artifact", {"path": item.path, "title": item.title})
            case domain.Compaction():
                return item_members("contextCompaction", item)
            case _ as never:
                assert_never(never)

    def inputs(self, content: Sequence[domain.UserInput]) -> list[Members]:
        return [input_part(part) for part in content]

    def plan(self, plan: domain.Plan) -> list[Members]:
        # Codex knows no failed step.
        return [
            {"step": entry.step, "status": "pending" if entry.status == "failed" else entry.status}
            for entry in plan.entries
        ]

    def settings(self, settings: Settings) -> Members:
        return {
            "model": settings.model,
            "modelProvider": parts.provider_of(settings.model),
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
            "personality": None if settings.personality == "none" else settings.personality,
        }

    def usage(self, state: ThreadState, event: UsageReported) -> Members:
        counted = parts.token_usage(state, self._window(event.model))
        return {"threadId": self.thread_id(state.id), "turnId": event.turn_id, "tokenUsage": counted}

    def ask(self, state: ThreadState, approval: Approval, at_ms: int) -> tuple[str, Json]:
        where: Members = {
            "threadId": self.thread_id(state.id),
            "turnId": approval.turn_id,
            "itemId": approval.item_id,
            "startedAtMs": at_ms,
            "reason": approval.reason or None,
        }
        decisions = parts.decisions_for(parts.covered_by_always(approval, state.settings.cwd))
        match approval.intent:
            case RunCommand(command=command, cwd=cwd, connects_to=to):
                question = command_question(where, command, cwd, decisions)
                if to is not None:
                    secure = "https" if to.port == 443 else "http"
                    question["networkApprovalContext"] = {"host": to.host, "protocol": secure}
                return "item/commandExecution/requestApproval", with_amendment(question, approval.offer)
            case ChangeFiles(changes=changes):
                shown = [file_update(change) for change in changes]
                return "item/fileChange/requestApproval", {**where, "grantRoot": None, "changes": shown}
            case CallMcp(server=server, tool=tool, arguments=arguments):
                # Codex asks about MCP by other means; every client of its knows how to ask about a command.
                words = f"{server}.{tool} {_json(arguments)}"
            case UseTool(name=name, arguments=arguments):
                words = f"{name} {_json(arguments)}"
            case Elicit() as elicit:
                told = elicitation.codex_question(approval.id, elicit)
                return elicitation.METHOD, {"threadId": where["threadId"], "turnId": approval.turn_id, **told}
            case _ as never:
                assert_never(never)
        asked = command_question(where, words, state.settings.cwd, decisions)
        return "item/commandExecution/requestApproval", asked

    def delta(self, thread_id: ThreadId, event: ItemDelta, item: Item) -> Notify | None:
        if (found := DELTAS.get((type(item), event.stream))) is None:
            return None
        method, name, also = found
        where = {"threadId": self.thread_id(thread_id), "turnId": event.turn_id, "itemId": event.item_id}
        return Notify(method=method, params={**where, name: event.text, **also})

    def models(
        self, cards: Sequence[ModelCard], selectors: Sequence[Selector], default: str, next_cursor: str | None = None
    ) -> Members:
        return {"data": [model_members(card, selectors, default) for card in cards], "nextCursor": next_cursor}

    def queue(self, state: ThreadState) -> Members:
        return {"threadId": self.thread_id(state.id)}

    def settled(self, thread_id: str, resolved: ApprovalResolved) -> m.ServerRequestResolved:
        return m.ServerRequestResolved(thread_id=thread_id, request_id=resolved.approval_id)

    def notices(self, thread_id: ThreadId, event: Noticed) -> list[Notify]:
        words = event.message or f"{event.source}: {event.name}"
        warning = Notify(method="warning", params={"threadId": self.thread_id(thread_id), "message": words})
        about = event.data if event.name == servers.NOTICE and event.source == "hames" else None
        if not isinstance(about, dict):
            return [warning]
        status: Members = {
            "threadId": self.thread_id(thread_id),
            "name": about.get("server", ""),
            "status": about.get("state", "failed"),
            "error": about.get("reason") or None,
            "failureReason": None,
        }
        changed = Notify(method="mcpServer/startupStatus/updated", params=status)
        return [changed, warning] if event.severity == "warning" else [changed]

    def notes(self, thread_id: ThreadId, files: Sequence[NoteFile]) -> list[Notify]:  # noqa: ARG002
        return []  # they are in the answer that opens the thread, and Codex has no word for it later

    def before_item(self, change: Change, turn_id: TurnId, item: Item) -> list[Notify]:
        turn = change.after.turn(turn_id)
        first = turn is not None and isinstance(item, domain.UserMessage) and turn.items[0].id == item.id
        return self._whole_item(change, turn_id, entered_review(turn)) if turn is not None and first else []

    def shown_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Codex tells nobody of what was injected."""
        return [turn for turn in turns if not is_injected(turn)]

    def tool_call(self, change: Change, event: ToolCalled) -> list[Notify]:
        return self._raw(change, event.turn_id, raw_call(event))

    def after_item(self, change: Change, turn_id: TurnId, item: Item) -> list[Notify]:
        raw, turn = self._raw(change, turn_id, raw_item(item)), change.after.turn(turn_id)
        if turn is None or not isinstance(item, domain.FileChange) or item.status != "completed":
            return raw
        where = {"threadId": self.thread_id(change.after.id), "turnId": turn_id}
        return [*raw, Notify(method="turn/diff/updated", params={**where, "diff": turn_diff(turn)})]

    def _raw(self, change: Change, turn_id: TurnId, item: Json | None) -> list[Notify]:
        if item is None or not wants_raw_items(change.after):
            return []
        where = {"threadId": self.thread_id(change.after.id), "turnId": turn_id}
        return [Notify(method=RAW_ITEM, params={**where, "item": item})]

    def before_end(self, change: Change, event: TurnEnded) -> list[Notify]:
        turn = change.after.turn(event.turn_id)
        ends = [] if turn is None else self._whole_item(change, event.turn_id, exited_review(turn))
        if event.error is None:
            return ends
        where = {"threadId": self.thread_id(change.after.id), "turnId": event.turn_id}
        return [*ends, Notify(method="error", params={**where, "error": error(event.error), "willRetry": False})]

    def _whole_item(self, change: Change, turn_id: TurnId, item: Members | None) -> list[Notify]:
        """An item that begins and ends at once."""
        if item is None:
            return []
        where: Members = {"threadId": self.thread_id(change.after.id), "turnId": turn_id, "item": item}
        return [
            Notify(method="item/started", params={**where, "startedAtMs": change.record.at_ms}),
            Notify(method="item/completed", params={**where, "completedAtMs": change.record.at_ms}),
        ]


def _json(arguments: Json) -> str:
    return msgspec.json.encode(arguments).decode()


def _noted(meta: Json, name: str) -> str | None:
    """What the client said about itself, and the log kept."""
    said = meta.get(name) if isinstance(meta, dict) else None
    return said if isinstance(said, str) else None
