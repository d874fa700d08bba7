"""Which message belongs to which method, as data: for schemas, and for types in other languages."""

from hames.domain.value import Value
from hames.protocols.flint import messages as m
from hames.protocols.flint.items import TYPES
from hames.protocols.schema import Published

Pair = tuple[type[Value], type[Value]]

REQUESTS: dict[str, Pair] = {
    "initialize": (m.InitializeParams, m.InitializeResult),
    "thread/start": (m.ThreadStartParams, m.ThreadOpened),
    "thread/resume": (m.ThreadResumeParams, m.ThreadOpened),
    "thread/list": (m.ThreadListParams, m.ThreadListResult),
    "thread/archive": (m.ThreadIdParams, m.Empty),
    "turn/start": (m.TurnStartParams, m.TurnResult),
    "turn/interrupt": (m.TurnInterruptParams, m.Empty),
    "review/start": (m.ReviewStartParams, m.ReviewStartResult),
    "model/list": (m.ModelListParams, m.ModelListResult),
    "config/list": (m.ConfigListParams, m.ConfigOptions),
    "config/set": (m.ConfigSetParams, m.ConfigOptions),
    "config/read": (m.ConfigListParams, m.ConfigReadResult),
    "thread/read": (m.ThreadReadParams, m.ThreadResult),
    "thread/fork": (m.ThreadForkParams, m.ThreadOpened),
    "thread/unarchive": (m.ThreadIdParams, m.ThreadResult),
    "thread/delete": (m.ThreadIdParams, m.Empty),
    "thread/name/set": (m.ThreadNameSetParams, m.Empty),
    "thread/compact": (m.ThreadIdParams, m.TurnResult),
    "thread/compact/start": (m.ThreadIdParams, m.TurnResult),
    "thread/settings/update": (m.ThreadSettingsUpdateParams, m.Empty),
    "thread/turns/list": (m.ThreadTurnsListParams, m.TurnsPage),
    "thread/items/list": (m.ThreadItemsListParams, m.ItemsPage),
    "thread/loaded/list": (m.PageParams, m.ThreadLoadedListResult),
    "thread/unsubscribe": (m.ThreadIdParams, m.ThreadUnsubscribeResult),
    "thread/queue/add": (m.ThreadQueueAddParams, m.ThreadQueueAddResult),
    "thread/queue/list": (m.ThreadIdParams, m.ThreadQueueListResult),
    "thread/queue/delete": (m.ThreadQueueDeleteParams, m.Empty),
    "turn/steer": (m.TurnSteerParams, m.TurnSteerResult),
    "thread/processes/list": (m.ThreadIdParams, m.ThreadProcesses),
    "thread/processes/end": (m.ThreadProcessEndParams, m.ThreadProcesses),
    "mcpServerStatus/list": (m.McpServerStatusListParams, m.McpServerStatusList),
    "thread/undo": (m.ThreadUndoParams, m.ThreadUndoResult),
    "worktree/list": (m.WorktreeListParams, m.WorktreeListResult),
    "worktree/finish": (m.WorktreeFinishParams, m.WorktreeFinishResult),
    "thread/context/read": (m.ThreadIdParams, m.ThreadContext),
}

NOTIFICATIONS: dict[str, type[Value]] = {
    "thread/started": m.ThreadStarted,
    "thread/name/updated": m.ThreadNamed,
    "thread/archived": m.ThreadMentioned,
    "thread/unarchived": m.ThreadMentioned,
    "thread/status/changed": m.ThreadStatusChanged,
    "thread/settings/updated": m.ThreadSettingsUpdated,
    "thread/queue/changed": m.ThreadQueueChanged,
    "thread/instructionSources/updated": m.InstructionSources,
    "thread/tokenUsage/updated": m.TokenUsageUpdated,
    "turn/started": m.TurnChanged,
    "turn/completed": m.TurnChanged,
    "turn/plan/updated": m.TurnPlanUpdated,
    "item/started": m.ItemStarted,
    "item/completed": m.ItemCompleted,
    "item/agentMessage/delta": m.Delta,
    "item/reasoning/textDelta": m.Delta,
    "item/reasoning/summaryTextDelta": m.Delta,
    "item/commandExecution/outputDelta": m.Delta,
    "item/fileChange/outputDelta": m.Delta,
    "item/plan/delta": m.Delta,
    "item/mcpToolCall/outputDelta": m.Delta,
    "item/toolCall/outputDelta": m.Delta,
    "item/contextCompaction/delta": m.Delta,
    "serverRequest/resolved": m.ServerRequestResolved,
}

ASKS: dict[str, Pair] = {
    "item/commandExecution/requestApproval": (m.CommandApprovalParams, m.ApprovalResponse),
    "item/fileChange/requestApproval": (m.FileChangeApprovalParams, m.ApprovalResponse),
    "item/mcpToolCall/requestApproval": (m.McpApprovalParams, m.ApprovalResponse),
    "item/toolCall/requestApproval": (m.ToolApprovalParams, m.ApprovalResponse),
    "item/tool/call": (m.DynamicToolCallParams, m.DynamicToolCallResult),
    "mcpServer/elicitation/request": (m.ElicitationParams, m.ElicitationResponse),
}

PUBLISHED = Published(
    name="flint",
    version=False,
    requests=REQUESTS,
    notifications=NOTIFICATIONS,
    asks=ASKS,
    open={"UnknownItem": TYPES},
)
