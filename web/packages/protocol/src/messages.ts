// The messages of flint. Written by `npm run types` from schemas/flint/schema.json: do not edit.

export type Ask =
  | {
      method: "item/commandExecution/requestApproval";
      params: CommandApprovalParams;
      id: string | number;
    }
  | {
      method: "item/fileChange/requestApproval";
      params: FileChangeApprovalParams;
      id: string | number;
    }
  | {
      method: "item/mcpToolCall/requestApproval";
      params: McpApprovalParams;
      id: string | number;
    }
  | {
      method: "item/toolCall/requestApproval";
      params: ToolApprovalParams;
      id: string | number;
    }
  | {
      method: "item/tool/call";
      params: DynamicToolCallParams;
      id: string | number;
    }
  | {
      method: "mcpServer/elicitation/request";
      params: ElicitationParams;
      id: string | number;
    };
export type Notification =
  | {
      method: "thread/started";
      params: ThreadStarted;
    }
  | {
      method: "thread/name/updated";
      params: ThreadNamed;
    }
  | {
      method: "thread/archived";
      params: ThreadMentioned;
    }
  | {
      method: "thread/unarchived";
      params: ThreadMentioned;
    }
  | {
      method: "thread/status/changed";
      params: ThreadStatusChanged;
    }
  | {
      method: "thread/settings/updated";
      params: ThreadSettingsUpdated;
    }
  | {
      method: "thread/queue/changed";
      params: ThreadQueueChanged;
    }
  | {
      method: "thread/instructionSources/updated";
      params: InstructionSources;
    }
  | {
      method: "thread/tokenUsage/updated";
      params: TokenUsageUpdated;
    }
  | {
      method: "turn/started";
      params: TurnChanged;
    }
  | {
      method: "turn/completed";
      params: TurnChanged;
    }
  | {
      method: "turn/plan/updated";
      params: TurnPlanUpdated;
    }
  | {
      method: "item/started";
      params: ItemStarted;
    }
  | {
      method: "item/completed";
      params: ItemCompleted;
    }
  | {
      method: "item/agentMessage/delta";
      params: Delta;
    }
  | {
      method: "item/reasoning/textDelta";
      params: Delta;
    }
  | {
      method: "item/reasoning/summaryTextDelta";
      params: Delta;
    }
  | {
      method: "item/commandExecution/outputDelta";
      params: Delta;
    }
  | {
      method: "item/fileChange/outputDelta";
      params: Delta;
    }
  | {
      method: "item/plan/delta";
      params: Delta;
    }
  | {
      method: "item/mcpToolCall/outputDelta";
      params: Delta;
    }
  | {
      method: "item/toolCall/outputDelta";
      params: Delta;
    }
  | {
      method: "item/contextCompaction/delta";
      params: Delta;
    }
  | {
      method: "serverRequest/resolved";
      params: ServerRequestResolved;
    };
export type Request =
  | {
      method: "initialize";
      params: InitializeParams;
      id: string | number;
    }
  | {
      method: "thread/start";
      params?: ThreadStartParams;
      id: string | number;
    }
  | {
      method: "thread/resume";
      params: ThreadResumeParams;
      id: string | number;
    }
  | {
      method: "thread/list";
      params?: ThreadListParams;
      id: string | number;
    }
  | {
      method: "thread/archive";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "turn/start";
      params: TurnStartParams;
      id: string | number;
    }
  | {
      method: "turn/interrupt";
      params: TurnInterruptParams;
      id: string | number;
    }
  | {
      method: "review/start";
      params: ReviewStartParams;
      id: string | number;
    }
  | {
      method: "model/list";
      params?: ModelListParams;
      id: string | number;
    }
  | {
      method: "config/list";
      params?: ConfigListParams;
      id: string | number;
    }
  | {
      method: "config/set";
      params: ConfigSetParams;
      id: string | number;
    }
  | {
      method: "config/read";
      params?: ConfigListParams;
      id: string | number;
    }
  | {
      method: "thread/read";
      params: ThreadReadParams;
      id: string | number;
    }
  | {
      method: "thread/fork";
      params: ThreadForkParams;
      id: string | number;
    }
  | {
      method: "thread/unarchive";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "thread/delete";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "thread/name/set";
      params: ThreadNameSetParams;
      id: string | number;
    }
  | {
      method: "thread/compact";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "thread/compact/start";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "thread/settings/update";
      params: ThreadSettingsUpdateParams;
      id: string | number;
    }
  | {
      method: "thread/turns/list";
      params: ThreadTurnsListParams;
      id: string | number;
    }
  | {
      method: "thread/items/list";
      params: ThreadItemsListParams;
      id: string | number;
    }
  | {
      method: "thread/loaded/list";
      params?: PageParams;
      id: string | number;
    }
  | {
      method: "thread/unsubscribe";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "thread/queue/add";
      params: ThreadQueueAddParams;
      id: string | number;
    }
  | {
      method: "thread/queue/list";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "thread/queue/delete";
      params: ThreadQueueDeleteParams;
      id: string | number;
    }
  | {
      method: "turn/steer";
      params: TurnSteerParams;
      id: string | number;
    }
  | {
      method: "thread/processes/list";
      params: ThreadIdParams;
      id: string | number;
    }
  | {
      method: "thread/processes/end";
      params: ThreadProcessEndParams;
      id: string | number;
    }
  | {
      method: "mcpServerStatus/list";
      params?: McpServerStatusListParams;
      id: string | number;
    }
  | {
      method: "thread/undo";
      params: ThreadUndoParams;
      id: string | number;
    }
  | {
      method: "worktree/list";
      params?: WorktreeListParams;
      id: string | number;
    }
  | {
      method: "worktree/finish";
      params: WorktreeFinishParams;
      id: string | number;
    }
  | {
      method: "thread/context/read";
      params: ThreadIdParams;
      id: string | number;
    };

export interface Actor {
  kind: "agent" | "client" | "hames" | "rule" | "token" | "user";
  name?: string;
  via?: string;
  client?: string;
}
/**
 * `methods` are the requests that this server offers in addition to the specification.
 */
export interface AgentCapabilities {
  streaming: boolean;
  configOptions: boolean;
  reasoning: boolean;
  plans: boolean;
  review: boolean;
  methods?: string[];
  _meta?: unknown;
}
export interface AgentInfo {
  name: string;
  version: string;
  provider: string;
  _meta?: unknown;
}
/**
 * `citations` and `voided` are additions to the specification.
 */
export interface AgentMessageItem {
  type: "agentMessage";
  id: string;
  text: string;
  citations?: CitationMember[];
  voided?: boolean;
  _meta?: unknown;
}
/**
 * A source that an answer names. `start` and `end` count characters (Unicode code points) of the item's text.
 *
 * `quote` is what the service quotes of the source. What the service does not say is left out.
 */
export interface CitationMember {
  url?: string;
  title?: string;
  quote?: string;
  start?: number;
  end?: number;
  _meta?: unknown;
}
/**
 * What `acceptForSession` or `acceptForProject` would allow. `text` is a phrase such as "further changes to a.py,
 * for the rest of this thread". `files` are the files that may be changed again or, for a command, the scripts that
 * must not change.
 */
export interface AlwaysCovers {
  text: string;
  files?: string[];
  _meta?: unknown;
}
/**
 * Who allowed or refused a tool call.
 */
export interface AnsweredApproval {
  itemId: string;
  decision: "always" | "once" | "reject" | "void";
  by: Actor;
  _meta?: unknown;
}
export interface ApprovalResponse {
  decision: "accept" | "acceptForProject" | "acceptForSession" | "cancel" | "decline";
  _meta?: unknown;
}
/**
 * A file the agent declares as its product.
 */
export interface ArtifactItem {
  type: "artifact";
  id: string;
  path: string;
  status: "completed" | "declined" | "failed" | "inProgress";
  title?: string;
  mediaType?: string;
  reason?: string;
  outcome?: "interrupted" | "skipped";
  _meta?: unknown;
}
export interface CommandApprovalParams {
  threadId: string;
  turnId: string;
  itemId: string;
  startedAtMs?: number;
  availableDecisions?: ("accept" | "acceptForProject" | "acceptForSession" | "cancel" | "decline")[];
  reason?: string;
  alwaysCovers?: AlwaysCovers | null;
  projectCovers?: AlwaysCovers | null;
  _meta?: unknown;
  command: string;
  cwd: string;
  commandActions?: unknown[];
  host?: string;
}
export interface FileChangeApprovalParams {
  threadId: string;
  turnId: string;
  itemId: string;
  startedAtMs?: number;
  availableDecisions?: ("accept" | "acceptForProject" | "acceptForSession" | "cancel" | "decline")[];
  reason?: string;
  alwaysCovers?: AlwaysCovers | null;
  projectCovers?: AlwaysCovers | null;
  _meta?: unknown;
  changes: FileUpdateChange[];
}
/**
 * `path` is absolute, `diff` is unified.
 */
export interface FileUpdateChange {
  path: string;
  kind: "add" | "delete" | "modify";
  diff: string;
  _meta?: unknown;
}
export interface McpApprovalParams {
  threadId: string;
  turnId: string;
  itemId: string;
  startedAtMs?: number;
  availableDecisions?: ("accept" | "acceptForProject" | "acceptForSession" | "cancel" | "decline")[];
  reason?: string;
  alwaysCovers?: AlwaysCovers | null;
  projectCovers?: AlwaysCovers | null;
  _meta?: unknown;
  server: string;
  tool: string;
  arguments?: unknown;
}
export interface ToolApprovalParams {
  threadId: string;
  turnId: string;
  itemId: string;
  startedAtMs?: number;
  availableDecisions?: ("accept" | "acceptForProject" | "acceptForSession" | "cancel" | "decline")[];
  reason?: string;
  alwaysCovers?: AlwaysCovers | null;
  projectCovers?: AlwaysCovers | null;
  _meta?: unknown;
  name: string;
  arguments?: unknown;
}
/**
 * `callId` is the id of the item. The answer is `{contentItems, success}`.
 */
export interface DynamicToolCallParams {
  threadId: string;
  turnId: string;
  callId: string;
  tool: string;
  namespace: string | null;
  arguments: unknown;
  _meta?: unknown;
}
/**
 * A question of an MCP server to a person: a form (`requestedSchema`), or an address to visit (`url`), which
 * Hames never opens.
 */
export interface ElicitationParams {
  threadId: string;
  turnId: string;
  itemId: string;
  startedAtMs?: number;
  availableDecisions?: ("accept" | "acceptForProject" | "acceptForSession" | "cancel" | "decline")[];
  reason?: string;
  _meta?: unknown;
  serverName: string;
  mode: "form" | "url";
  message: string;
  requestedSchema?: unknown;
  url?: string;
  elicitationId?: string;
}
export interface BaseBranch {
  type: "baseBranch";
  branch: string;
  _meta?: unknown;
}
/**
 * How much may be used before somebody is asked. 0, or no member: no limit.
 */
export interface BudgetAmounts {
  usd?: number;
  tokens?: number;
  minutes?: number;
  steps?: number;
  _meta?: unknown;
}
/**
 * `optOutNotificationMethods`: notifications that this client does not want.
 */
export interface ClientCapabilities {
  experimentalApi?: boolean | null;
  optOutNotificationMethods?: string[] | null;
  _meta?: unknown;
}
export interface ClientInfo {
  name: string;
  version: string;
  title?: string | null;
  _meta?: unknown;
}
/**
 * What a command does. Always unknown: Hames does not classify commands here.
 */
export interface CommandAction {
  type: "unknown";
  command: string;
  _meta?: unknown;
}
export interface CommandExecutionItem {
  type: "commandExecution";
  id: string;
  command: string;
  cwd: string;
  status: "completed" | "declined" | "failed" | "inProgress";
  commandActions?: CommandAction[];
  exitCode?: number;
  aggregatedOutput?: string;
  durationMs?: number;
  reason?: string;
  outcome?: "interrupted" | "skipped";
  _meta?: unknown;
}
export interface Commit {
  type: "commit";
  sha: string;
  _meta?: unknown;
}
/**
 * Options of the thread if `threadId` is given, else of the connection.
 */
export interface ConfigListParams {
  threadId?: string | null;
  _meta?: unknown;
}
/**
 * One option. Without `modelIds` it applies to every model.
 */
export interface ConfigOption {
  type: "select";
  id: string;
  name: string;
  options: ConfigSelectOption[];
  value: string;
  description?: string;
  group?: string;
  modelIds?: string[];
  _meta?: unknown;
}
export interface ConfigSelectOption {
  id: string;
  name: string;
  description?: string;
  _meta?: unknown;
}
export interface ConfigOptions {
  options: ConfigOption[];
  _meta?: unknown;
}
export interface ConfigReadResult {
  model: string;
  cwd: string;
  approvalPolicy: "always" | "never" | "unlessTrusted";
  sandboxPolicy: DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox;
  options: ConfigOption[];
  approvalMode?: "onRequest";
  _meta?: unknown;
}
export interface DangerFullAccess {
  type: "dangerFullAccess";
  _meta?: unknown;
}
export interface ReadOnly {
  type: "readOnly";
  _meta?: unknown;
}
export interface WorkspaceWrite {
  type: "workspaceWrite";
  writableRoots?: string[] | null;
  networkAccess?: boolean | null;
  network?: NetworkRules;
  _meta?: unknown;
}
/**
 * The hosts that commands may reach by name: `example.org`, `*.example.org`, `example.org:8443`, `@registries`.
 */
export interface NetworkRules {
  allow?: string[];
  deny?: string[];
  _meta?: unknown;
}
export interface ExternalSandbox {
  type: "externalSandbox";
  networkAccess?: ("enabled" | "restricted") | null;
  _meta?: unknown;
}
export interface ConfigSetParams {
  id: string;
  value: string;
  threadId?: string | null;
  _meta?: unknown;
}
/**
 * From here on the model sees `summary` instead of what came before.
 */
export interface ContextCompactionItem {
  type: "contextCompaction";
  id: string;
  status: "completed" | "declined" | "failed" | "inProgress";
  summary?: string;
  _meta?: unknown;
}
export interface Custom {
  type: "custom";
  instructions: string;
  _meta?: unknown;
}
/**
 * Sent very often, so it has no `_meta` and no optional members.
 */
export interface Delta {
  threadId: string;
  turnId: string;
  itemId: string;
  delta: string;
}
/**
 * A tool that the client carries out: its calls come as the request `item/tool/call`.
 *
 * `deferLoading` is Codex's and has no effect: every tool is offered from the start.
 */
export interface DynamicTool {
  type: "function";
  name: string;
  description: string;
  inputSchema: {};
  namespace?: string | null;
  deferLoading?: boolean | null;
  _meta?: unknown;
}
export interface DynamicToolCallResult {
  contentItems: (DynamicToolText | DynamicToolImage)[];
  success: boolean;
  _meta?: unknown;
}
export interface DynamicToolText {
  type: "inputText";
  text: string;
  _meta?: unknown;
}
/**
 * `imageUrl` is a `data:` URL; the model is only told the address of any other.
 */
export interface DynamicToolImage {
  type: "inputImage";
  imageUrl: string;
  _meta?: unknown;
}
/**
 * Tools with a common name in front of theirs.
 */
export interface DynamicToolNamespace {
  type: "namespace";
  name: string;
  description: string;
  tools: DynamicTool[];
  _meta?: unknown;
}
/**
 * `content` is the completed form; without it the form is sent with its defaults.
 */
export interface ElicitationResponse {
  action: "accept" | "cancel" | "decline";
  content?: unknown;
  _meta?: unknown;
}
/**
 * `{}`.
 */
export interface Empty {
  _meta?: unknown;
}
export interface FileChangeItem {
  type: "fileChange";
  id: string;
  changes: FileUpdateChange[];
  status: "completed" | "declined" | "failed" | "inProgress";
  reason?: string;
  outcome?: "interrupted" | "skipped";
  _meta?: unknown;
}
/**
 * A file that the prompt refers to; the model gets its text.
 */
export interface FileInput {
  type: "file";
  path: string;
  _meta?: unknown;
}
/**
 * By http(s) or `data:` URL.
 */
export interface ImageInput {
  type: "image";
  url: string;
  _meta?: unknown;
}
export interface InitializeParams {
  clientInfo: ClientInfo;
  capabilities?: ClientCapabilities | null;
  _meta?: unknown;
}
export interface InitializeResult {
  agentInfo: AgentInfo;
  capabilities: AgentCapabilities;
  userAgent?: string;
  codexHome?: string;
  platformFamily?: string;
  platformOs?: string;
  _meta?: unknown;
}
/**
 * `thread/instructionSources/updated`: the paths of the project notes that the model sees from now on.
 */
export interface InstructionSources {
  threadId: string;
  instructionSources: string[];
  _meta?: unknown;
}
export interface ItemCompleted {
  threadId: string;
  turnId: string;
  item:
    | UserMessageItem
    | AgentMessageItem
    | ReasoningItem
    | CommandExecutionItem
    | FileChangeItem
    | McpToolCallItem
    | WebSearchItem
    | PlanItem
    | ToolCallItem
    | ArtifactItem
    | ContextCompactionItem
    | UnknownItem;
  completedAtMs?: number;
  _meta?: unknown;
}
export interface UserMessageItem {
  type: "userMessage";
  id: string;
  content: (TextInput | ImageInput | LocalImageInput | FileInput)[];
  clientId?: string | null;
  by?: Actor;
  _meta?: unknown;
}
export interface TextInput {
  type: "text";
  text: string;
  _meta?: unknown;
}
export interface LocalImageInput {
  type: "localImage";
  path: string;
  _meta?: unknown;
}
export interface ReasoningItem {
  type: "reasoning";
  id: string;
  summary?: string;
  content?: string;
  voided?: boolean;
  _meta?: unknown;
}
export interface McpToolCallItem {
  type: "mcpToolCall";
  id: string;
  server: string;
  tool: string;
  status: "completed" | "failed" | "inProgress";
  arguments?: unknown;
  result?: unknown;
  error?: string;
  outcome?: "interrupted" | "skipped";
  _meta?: unknown;
}
/**
 * `status` is an addition to the specification.
 */
export interface WebSearchItem {
  type: "webSearch";
  id: string;
  query: string;
  status?: "completed" | "declined" | "failed" | "inProgress";
  reason?: string;
  outcome?: "interrupted" | "skipped";
  voided?: boolean;
  _meta?: unknown;
}
export interface PlanItem {
  type: "plan";
  id: string;
  text: string;
  entries?: PlanEntry[];
  _meta?: unknown;
}
export interface PlanEntry {
  step: string;
  status: "completed" | "failed" | "inProgress" | "pending";
  _meta?: unknown;
}
/**
 * A tool without an item type of its own: read, grep, glob, …
 */
export interface ToolCallItem {
  type: "toolCall";
  id: string;
  name: string;
  status: "completed" | "declined" | "failed" | "inProgress";
  arguments?: unknown;
  result?: string;
  reason?: string;
  outcome?: "interrupted" | "skipped";
  _meta?: unknown;
}
/**
 * An item of a type that this version does not know, complete. Only the Python client uses it; it is never sent.
 */
export interface UnknownItem {
  type: string;
  id?: string;
  [k: string]: unknown;
}
/**
 * `startedAtMs` and `completedAtMs` are null, because times of items are not saved.
 */
export interface ItemEntry {
  turnId: string;
  item:
    | UserMessageItem
    | AgentMessageItem
    | ReasoningItem
    | CommandExecutionItem
    | FileChangeItem
    | McpToolCallItem
    | WebSearchItem
    | PlanItem
    | ToolCallItem
    | ArtifactItem
    | ContextCompactionItem
    | UnknownItem;
  startedAtMs: number | null;
  completedAtMs: number | null;
  _meta?: unknown;
}
export interface ItemStarted {
  threadId: string;
  turnId: string;
  item:
    | UserMessageItem
    | AgentMessageItem
    | ReasoningItem
    | CommandExecutionItem
    | FileChangeItem
    | McpToolCallItem
    | WebSearchItem
    | PlanItem
    | ToolCallItem
    | ArtifactItem
    | ContextCompactionItem
    | UnknownItem;
  startedAtMs?: number;
  _meta?: unknown;
}
export interface ItemsPage {
  data: ItemEntry[];
  nextCursor: string | null;
  backwardsCursor: string | null;
  _meta?: unknown;
}
/**
 * `status` and `error` are additions to Codex's members. `tools` is a map by the tool's name.
 */
export interface McpServerStatus {
  name: string;
  status: "failed" | "notStarted" | "ready" | "starting";
  tools: {
    [k: string]: McpTool;
  };
  error?: string | null;
  resources?: unknown[];
  resourceTemplates?: unknown[];
  authStatus?: "unsupported";
  _meta?: unknown;
}
export interface McpTool {
  name: string;
  description: string;
  inputSchema: unknown;
  _meta?: unknown;
}
export interface McpServerStatusList {
  data: McpServerStatus[];
  nextCursor?: string | null;
  _meta?: unknown;
}
/**
 * Starts the thread's servers if they are not running yet. Without `threadId`: the thread that was opened last.
 *
 * `detail` is Codex's and has no effect: servers are always shown in full.
 */
export interface McpServerStatusListParams {
  threadId?: string | null;
  serverName?: string | null;
  cursor?: string | null;
  limit?: number | null;
  detail?: string | null;
  _meta?: unknown;
}
/**
 * `meta` is for display; `_meta` is another member.
 */
export interface Model {
  id: string;
  displayName: string;
  isDefault: boolean;
  description?: string;
  model?: string;
  hidden?: boolean;
  defaultReasoningEffort?: string;
  supportedReasoningEfforts?: ReasoningEffort[];
  inputModalities?: string[];
  meta?: unknown;
  _meta?: unknown;
}
export interface ReasoningEffort {
  reasoningEffort: string;
  description: string;
  _meta?: unknown;
}
export interface ModelListParams {
  cursor?: string | null;
  limit?: number | null;
  includeHidden?: boolean | null;
  modelProvider?: string | null;
  _meta?: unknown;
}
export interface ModelListResult {
  data: Model[];
  nextCursor?: string;
  _meta?: unknown;
}
export interface ThreadStarted {
  thread: Thread;
  _meta?: unknown;
}
/**
 * `createdAt` and `updatedAt` are unix seconds. `turns` is filled if the request asked for history.
 */
export interface Thread {
  id: string;
  preview: string;
  modelProvider: string;
  createdAt: number;
  updatedAt?: number;
  name?: string | null;
  sessionId?: string;
  model?: string;
  cwd?: string;
  cliVersion?: string;
  status?: ThreadStatus | null;
  turns?: Turn[];
  forkedFromId?: string | null;
  ephemeral?: boolean;
  archived?: boolean;
  projectId?: string | null;
  source?: string;
  foreign?: boolean;
  instructionSources?: string[];
  _meta?: unknown;
}
export interface ThreadStatus {
  type: "active" | "idle" | "notLoaded" | "systemError";
  activeFlags?: ("waitingOnApproval" | "waitingOnUserInput")[];
  _meta?: unknown;
}
/**
 * `interruptedBy`, `answers` and `undone` are additions to the specification.
 */
export interface Turn {
  id: string;
  status: "completed" | "failed" | "inProgress" | "interrupted";
  items: (
    | UserMessageItem
    | AgentMessageItem
    | ReasoningItem
    | CommandExecutionItem
    | FileChangeItem
    | McpToolCallItem
    | WebSearchItem
    | PlanItem
    | ToolCallItem
    | ArtifactItem
    | ContextCompactionItem
    | UnknownItem
  )[];
  error?: TurnError;
  itemsView?: "full" | "notLoaded" | "summary";
  startedAt?: number | null;
  completedAt?: number | null;
  durationMs?: number | null;
  interruptedBy?: Actor;
  answers?: AnsweredApproval[];
  undone?: string[];
  _meta?: unknown;
}
export interface TurnError {
  message: string;
  errorInfo?: string;
  httpStatusCode?: number;
  _meta?: unknown;
}
export interface ThreadNamed {
  threadId: string;
  threadName: string;
  _meta?: unknown;
}
/**
 * `thread/archived`, `thread/unarchived`, `thread/deleted`.
 */
export interface ThreadMentioned {
  threadId: string;
  _meta?: unknown;
}
export interface ThreadStatusChanged {
  threadId: string;
  status: ThreadStatus;
  _meta?: unknown;
}
export interface ThreadSettingsUpdated {
  threadId: string;
  threadSettings: ThreadSettings;
  _meta?: unknown;
}
export interface ThreadSettings {
  model: string;
  modelProvider: string;
  cwd: string;
  approvalPolicy: "always" | "never" | "unlessTrusted";
  sandboxPolicy: DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox;
  config: {
    [k: string]: string;
  };
  approvalMode?: "onRequest";
  _meta?: unknown;
}
export interface ThreadQueueChanged {
  threadId: string;
  queue: QueuedPrompt[];
  held: boolean;
  _meta?: unknown;
}
export interface QueuedPrompt {
  id: string;
  input: (TextInput | ImageInput | LocalImageInput | FileInput)[];
  _meta?: unknown;
}
/**
 * `usage` is that of the turn so far; `tokenUsage` has that of the thread and of the last call.
 */
export interface TokenUsageUpdated {
  threadId: string;
  turnId: string;
  usage: Usage;
  tokenUsage?: TokenUsage | null;
  _meta?: unknown;
}
/**
 * `inputTokens` does not count tokens that were read from or written to a cache.
 */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  thinkingTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  _meta?: unknown;
}
/**
 * Usage of the whole thread and of the last model call. `byModel` splits the total by model, because prices
 * differ.
 */
export interface TokenUsage {
  total: TokenCount;
  last: TokenCount;
  modelContextWindow: number | null;
  byModel?: {
    [k: string]: TokenCount;
  };
  _meta?: unknown;
}
export interface TokenCount {
  totalTokens: number;
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteInputTokens: number;
  outputTokens: number;
  reasoningOutputTokens: number;
  _meta?: unknown;
}
/**
 * `turn/started` and `turn/completed`.
 */
export interface TurnChanged {
  threadId: string;
  turn: Turn;
  _meta?: unknown;
}
export interface TurnPlanUpdated {
  threadId: string;
  turnId: string;
  explanation: string;
  plan: PlanEntry[];
  _meta?: unknown;
}
/**
 * A question is closed. `ended` says how, where nobody answered it: its deadline passed (`timedOut`), nobody who
 * could answer was connected (`noClient`), whoever asked no longer needs it (`withdrawn`), or the turn ended.
 */
export interface ServerRequestResolved {
  threadId: string;
  requestId: string | number;
  ended?: "answered" | "noClient" | "timedOut" | "turnEnded" | "withdrawn";
  _meta?: unknown;
}
export interface PageParams {
  cursor?: string | null;
  limit?: number | null;
  _meta?: unknown;
}
export interface PathNotUndone {
  path: string;
  why: string;
  _meta?: unknown;
}
export interface ThreadStartParams {
  developerInstructions?: string | null;
  baseInstructions?: string | null;
  personality?: ("friendly" | "none" | "pragmatic") | null;
  budgets?: ThreadBudgets | null;
  config?: {} | null;
  dynamicTools?: (DynamicTool | DynamicToolNamespace)[] | null;
  _meta?: unknown;
  model?: string | null;
  cwd?: string | null;
  approvalPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  worktree?: WorktreeOptions | null;
}
/**
 * Of each turn, and of the whole thread. Where the configuration has a lower limit, that one counts.
 */
export interface ThreadBudgets {
  turn?: BudgetAmounts | null;
  thread?: BudgetAmounts | null;
  _meta?: unknown;
}
/**
 * A git worktree for a new thread or a fork, with a branch `hames/NAME`. Without `name` one is made up.
 *
 * `changes`: uncommitted and untracked files are taken along; by default a fork takes them and a new thread does not.
 */
export interface WorktreeOptions {
  name?: string | null;
  changes?: boolean | null;
  _meta?: unknown;
}
export interface ThreadResumeParams {
  developerInstructions?: string | null;
  baseInstructions?: string | null;
  personality?: ("friendly" | "none" | "pragmatic") | null;
  budgets?: ThreadBudgets | null;
  config?: {} | null;
  dynamicTools?: (DynamicTool | DynamicToolNamespace)[] | null;
  _meta?: unknown;
  model?: string | null;
  cwd?: string | null;
  approvalPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  threadId: string;
}
export interface ThreadListParams {
  cursor?: string | null;
  limit?: number | null;
  archived?: boolean | null;
  searchTerm?: string | null;
  _meta?: unknown;
}
export interface ThreadIdParams {
  threadId: string;
  _meta?: unknown;
}
/**
 * `outputSchema` is the JSON Schema that the final answer has to match.
 */
export interface TurnStartParams {
  developerInstructions?: string | null;
  baseInstructions?: string | null;
  personality?: ("friendly" | "none" | "pragmatic") | null;
  budgets?: ThreadBudgets | null;
  _meta?: unknown;
  threadId: string;
  model?: string | null;
  cwd?: string | null;
  approvalPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
  sandboxPolicy?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  config?: {
    [k: string]: string;
  } | null;
  /**
   * @minItems 1
   */
  input: [
    TextInput | ImageInput | LocalImageInput | FileInput,
    ...(TextInput | ImageInput | LocalImageInput | FileInput)[]
  ];
  outputSchema?: {} | null;
  clientUserMessageId?: string | null;
}
export interface TurnInterruptParams {
  threadId: string;
  turnId: string;
  _meta?: unknown;
}
export interface ReviewStartParams {
  threadId: string;
  target: UncommittedChanges | BaseBranch | Commit | Custom;
  reviewer?: string | null;
  _meta?: unknown;
}
export interface UncommittedChanges {
  type: "uncommittedChanges";
  _meta?: unknown;
}
export interface ThreadReadParams {
  threadId: string;
  includeTurns?: boolean | null;
  _meta?: unknown;
}
/**
 * `lastTurnId` is the last turn that the fork contains; without it the fork contains all.
 */
export interface ThreadForkParams {
  developerInstructions?: string | null;
  baseInstructions?: string | null;
  personality?: ("friendly" | "none" | "pragmatic") | null;
  budgets?: ThreadBudgets | null;
  config?: {} | null;
  dynamicTools?: (DynamicTool | DynamicToolNamespace)[] | null;
  _meta?: unknown;
  model?: string | null;
  cwd?: string | null;
  approvalPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  threadId: string;
  lastTurnId?: string | null;
  worktree?: WorktreeOptions | null;
}
export interface ThreadNameSetParams {
  threadId: string;
  name: string;
  _meta?: unknown;
}
export interface ThreadSettingsUpdateParams {
  developerInstructions?: string | null;
  baseInstructions?: string | null;
  personality?: ("friendly" | "none" | "pragmatic") | null;
  budgets?: ThreadBudgets | null;
  _meta?: unknown;
  threadId: string;
  model?: string | null;
  cwd?: string | null;
  approvalPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
  sandboxPolicy?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  config?: {
    [k: string]: string;
  } | null;
}
export interface ThreadTurnsListParams {
  threadId: string;
  cursor?: string | null;
  limit?: number | null;
  sortDirection?: ("asc" | "desc") | null;
  itemsView?: ("full" | "notLoaded" | "summary") | null;
  _meta?: unknown;
}
export interface ThreadItemsListParams {
  threadId: string;
  cursor?: string | null;
  limit?: number | null;
  sortDirection?: ("asc" | "desc") | null;
  turnId?: string | null;
  _meta?: unknown;
}
export interface ThreadQueueAddParams {
  threadId: string;
  /**
   * @minItems 1
   */
  input: [
    TextInput | ImageInput | LocalImageInput | FileInput,
    ...(TextInput | ImageInput | LocalImageInput | FileInput)[]
  ];
  outputSchema?: {} | null;
  clientUserMessageId?: string | null;
  _meta?: unknown;
}
export interface ThreadQueueDeleteParams {
  threadId: string;
  promptId: string;
  _meta?: unknown;
}
export interface TurnSteerParams {
  threadId: string;
  /**
   * @minItems 1
   */
  input: [
    TextInput | ImageInput | LocalImageInput | FileInput,
    ...(TextInput | ImageInput | LocalImageInput | FileInput)[]
  ];
  expectedTurnId?: string | null;
  _meta?: unknown;
}
/**
 * `process`: its number in the thread.
 */
export interface ThreadProcessEndParams {
  threadId: string;
  process: number;
  _meta?: unknown;
}
/**
 * Take back what a turn did to files, or (`redo`) do it again. Without `turnId`: the last turn that changed some;
 * `later`: what every later turn did as well. `paths`: only these. Files that others have changed since are left
 * alone, unless `overwrite`. `preview`: only tell what would happen.
 */
export interface ThreadUndoParams {
  threadId: string;
  turnId?: string | null;
  later?: boolean | null;
  redo?: boolean | null;
  paths?: string[] | null;
  overwrite?: boolean | null;
  preview?: boolean | null;
  _meta?: unknown;
}
/**
 * Of the repository at `cwd`; without it, of the server's own workspace. `everywhere`: of all repositories.
 */
export interface WorktreeListParams {
  cwd?: string | null;
  everywhere?: boolean | null;
  _meta?: unknown;
}
/**
 * Merge a worktree, keep it, or drop it: by `name`, or by the thread that works in it.
 *
 * `merge` goes into the branch it came from, or `into`; what is not committed is committed first, with `message`.
 * `drop` is refused if work would be lost that is nowhere else, unless `discard` is the name of the worktree.
 * `preview`: only tell what would happen.
 */
export interface WorktreeFinishParams {
  action: "drop" | "keep" | "merge";
  name?: string | null;
  threadId?: string | null;
  cwd?: string | null;
  into?: string | null;
  message?: string | null;
  discard?: string | null;
  preview?: boolean | null;
  _meta?: unknown;
}
export interface ReviewStartResult {
  turn: Turn;
  reviewThreadId: string;
  _meta?: unknown;
}
/**
 * What fills the window of the thread's model. `tokens` is an estimate of the next request; from `limit` on the
 * conversation is shortened; `shortened` says what the model is no longer shown.
 */
export interface ThreadContext {
  tokens: number;
  limit: number;
  window: number;
  parts: ThreadContextPart[];
  shortened: string[];
  budgets?: string[];
  _meta?: unknown;
}
/**
 * `tokens` is an estimate; `count` is how many messages, calls or results there are.
 */
export interface ThreadContextPart {
  name: string;
  tokens: number;
  count: number;
  _meta?: unknown;
}
export interface ThreadListResult {
  data: Thread[];
  nextCursor?: string;
  _meta?: unknown;
}
export interface ThreadLoadedListResult {
  data: string[];
  nextCursor: string | null;
  _meta?: unknown;
}
/**
 * The result of `thread/start`, `thread/resume` and `thread/fork`.
 */
export interface ThreadOpened {
  thread: Thread;
  modelProvider?: string;
  model?: string;
  cwd?: string;
  approvalPolicy?: ("always" | "never" | "unlessTrusted") | null;
  approvalsReviewer?: "user";
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  tokenUsage?: TokenUsage;
  approvalMode?: "onRequest";
  _meta?: unknown;
}
/**
 * A process that a thread's agent started in the background. `seconds`: how long it has run, or ran.
 */
export interface ThreadProcess {
  process: number;
  command: string;
  cwd: string;
  terminal: boolean;
  status: "ended" | "running";
  seconds: number;
  outputBytes: number;
  exitCode?: number | null;
  _meta?: unknown;
}
/**
 * Those that run and the last that ended, oldest first.
 */
export interface ThreadProcesses {
  data: ThreadProcess[];
  _meta?: unknown;
}
/**
 * `queued` if the prompt waits, `turn` if its turn has started.
 */
export interface ThreadQueueAddResult {
  queued?: QueuedPrompt | null;
  turn?: Turn | null;
  _meta?: unknown;
}
export interface ThreadQueueListResult {
  data: QueuedPrompt[];
  held: boolean;
  _meta?: unknown;
}
export interface ThreadResult {
  thread: Thread;
  _meta?: unknown;
}
/**
 * `message` says it in one sentence. `conflicts` were changed by somebody else; `notKept` cannot be restored.
 */
export interface ThreadUndoResult {
  turns: string[];
  message: string;
  restored: UndonePath[];
  conflicts: PathNotUndone[];
  notKept: PathNotUndone[];
  _meta?: unknown;
}
/**
 * `action`: `removed`, `brought back`, `changed back` or `permissions`.
 */
export interface UndonePath {
  path: string;
  action: string;
  _meta?: unknown;
}
export interface ThreadUnsubscribeResult {
  status: "notLoaded" | "notSubscribed" | "unsubscribed";
  _meta?: unknown;
}
export interface TurnResult {
  turn: Turn;
  _meta?: unknown;
}
export interface TurnSteerResult {
  turnId: string;
  _meta?: unknown;
}
export interface TurnsPage {
  data: Turn[];
  nextCursor: string | null;
  backwardsCursor: string | null;
  _meta?: unknown;
}
/**
 * `base` is the branch it came from. `commits` are on no other branch; `uncommitted` and `ignored` are files that
 * are nowhere else. `status`: `unfinished` if Hames stopped while it was made, `missing` if its directory is gone.
 */
export interface WorktreeEntry {
  name: string;
  branch: string;
  path: string;
  workspace: string;
  base: string;
  threadId: string | null;
  status: "kept" | "missing" | "ready" | "unfinished";
  commits: string[];
  uncommitted: string[];
  ignored: string[];
  _meta?: unknown;
}
/**
 * `message` says it in a sentence or two. `conflicts`: files that both sides changed; nothing was merged then.
 * `loses`: what dropping it would delete. `removed`: the directory and the branch are gone, and the thread works in
 * the directory that the worktree was made from.
 */
export interface WorktreeFinishResult {
  worktree: WorktreeEntry;
  message: string;
  done: boolean;
  removed: boolean;
  loses: string[];
  conflicts: string[];
  _meta?: unknown;
}
export interface WorktreeListResult {
  data: WorktreeEntry[];
  _meta?: unknown;
}

export interface Requests {
  "initialize": { params: InitializeParams; result: InitializeResult };
  "thread/start": { params: ThreadStartParams; result: ThreadOpened };
  "thread/resume": { params: ThreadResumeParams; result: ThreadOpened };
  "thread/list": { params: ThreadListParams; result: ThreadListResult };
  "thread/archive": { params: ThreadIdParams; result: Empty };
  "turn/start": { params: TurnStartParams; result: TurnResult };
  "turn/interrupt": { params: TurnInterruptParams; result: Empty };
  "review/start": { params: ReviewStartParams; result: ReviewStartResult };
  "model/list": { params: ModelListParams; result: ModelListResult };
  "config/list": { params: ConfigListParams; result: ConfigOptions };
  "config/set": { params: ConfigSetParams; result: ConfigOptions };
  "config/read": { params: ConfigListParams; result: ConfigReadResult };
  "thread/read": { params: ThreadReadParams; result: ThreadResult };
  "thread/fork": { params: ThreadForkParams; result: ThreadOpened };
  "thread/unarchive": { params: ThreadIdParams; result: ThreadResult };
  "thread/delete": { params: ThreadIdParams; result: Empty };
  "thread/name/set": { params: ThreadNameSetParams; result: Empty };
  "thread/compact": { params: ThreadIdParams; result: TurnResult };
  "thread/compact/start": { params: ThreadIdParams; result: TurnResult };
  "thread/settings/update": { params: ThreadSettingsUpdateParams; result: Empty };
  "thread/turns/list": { params: ThreadTurnsListParams; result: TurnsPage };
  "thread/items/list": { params: ThreadItemsListParams; result: ItemsPage };
  "thread/loaded/list": { params: PageParams; result: ThreadLoadedListResult };
  "thread/unsubscribe": { params: ThreadIdParams; result: ThreadUnsubscribeResult };
  "thread/queue/add": { params: ThreadQueueAddParams; result: ThreadQueueAddResult };
  "thread/queue/list": { params: ThreadIdParams; result: ThreadQueueListResult };
  "thread/queue/delete": { params: ThreadQueueDeleteParams; result: Empty };
  "turn/steer": { params: TurnSteerParams; result: TurnSteerResult };
  "thread/processes/list": { params: ThreadIdParams; result: ThreadProcesses };
  "thread/processes/end": { params: ThreadProcessEndParams; result: ThreadProcesses };
  "mcpServerStatus/list": { params: McpServerStatusListParams; result: McpServerStatusList };
  "thread/undo": { params: ThreadUndoParams; result: ThreadUndoResult };
  "worktree/list": { params: WorktreeListParams; result: WorktreeListResult };
  "worktree/finish": { params: WorktreeFinishParams; result: WorktreeFinishResult };
  "thread/context/read": { params: ThreadIdParams; result: ThreadContext };
}

export interface Notifications {
  "thread/started": ThreadStarted;
  "thread/name/updated": ThreadNamed;
  "thread/archived": ThreadMentioned;
  "thread/unarchived": ThreadMentioned;
  "thread/status/changed": ThreadStatusChanged;
  "thread/settings/updated": ThreadSettingsUpdated;
  "thread/queue/changed": ThreadQueueChanged;
  "thread/instructionSources/updated": InstructionSources;
  "thread/tokenUsage/updated": TokenUsageUpdated;
  "turn/started": TurnChanged;
  "turn/completed": TurnChanged;
  "turn/plan/updated": TurnPlanUpdated;
  "item/started": ItemStarted;
  "item/completed": ItemCompleted;
  "item/agentMessage/delta": Delta;
  "item/reasoning/textDelta": Delta;
  "item/reasoning/summaryTextDelta": Delta;
  "item/commandExecution/outputDelta": Delta;
  "item/fileChange/outputDelta": Delta;
  "item/plan/delta": Delta;
  "item/mcpToolCall/outputDelta": Delta;
  "item/toolCall/outputDelta": Delta;
  "item/contextCompaction/delta": Delta;
  "serverRequest/resolved": ServerRequestResolved;
}

export interface Asks {
  "item/commandExecution/requestApproval": { params: CommandApprovalParams; result: ApprovalResponse };
  "item/fileChange/requestApproval": { params: FileChangeApprovalParams; result: ApprovalResponse };
  "item/mcpToolCall/requestApproval": { params: McpApprovalParams; result: ApprovalResponse };
  "item/toolCall/requestApproval": { params: ToolApprovalParams; result: ApprovalResponse };
  "item/tool/call": { params: DynamicToolCallParams; result: DynamicToolCallResult };
  "mcpServer/elicitation/request": { params: ElicitationParams; result: ElicitationResponse };
}
