// The messages of bootstrap. Written by `hames schema`: do not edit.

/** What `always` would allow. `text` is a phrase such as "further changes to a.py, for the rest of this thread". `files`: for a file change, the files that may be changed again; for a command, the scripts that must not change. */
export interface AlwaysCovers {
  text: string;
  files?: string[];
}

/** The question, and after it was answered the `decision`. `void`: the turn ended before anyone answered. */
export interface ApprovalData {
  requestId: string;
  toolItemId: string;
  tool: string;
  status: "pending" | "resolved";
  reason: string;
  command?: string;
  cwd?: string;
  changes?: FileChange[];
  input?: unknown;
  alwaysCovers?: AlwaysCovers;
  decision?: "always" | "once" | "reject" | "void";
}

export interface ApprovalItem {
  type: "approval";
  itemId: string;
  threadId: string;
  turnId: string;
  data: ApprovalData;
}

/** `itemId` is the `tool_exec` that waits; answer with `approval.respond`. Sent again to a client that reconnects. */
export interface ApprovalRequested {
  requestId: string;
  threadId: string;
  turnId: string;
  itemId: string;
  seq: number;
  time: number;
  tool: string;
  reason: string;
  command?: string;
  cwd?: string;
  changes?: FileChange[];
  input?: unknown;
  alwaysCovers?: AlwaysCovers;
}

/** `content` is the completed form of an `elicitation`, as its `requestedSchema` describes. */
export interface ApprovalRespondParams {
  requestId: string;
  decision: "always" | "once" | "reject";
  content?: unknown;
}

export interface Artifact {
  type: "artifact";
  itemId: string;
  threadId: string;
  turnId: string;
  data: ArtifactData;
}

export interface ArtifactData {
  path: string;
  title: string;
  mediaType: string;
  status: "completed" | "declined" | "failed" | "interrupted" | "running" | "skipped";
  reason?: string;
}

export interface AssistantMessage {
  type: "assistant_message";
  itemId: string;
  threadId: string;
  turnId: string;
  data: AssistantMessageData;
}

/** `kind` distinguishes the answer, the reasoning, and a summary that replaces older history for the model. */
export interface AssistantMessageData {
  kind: "compaction" | "reasoning" | "text";
  text: string;
  status: "completed" | "declined" | "failed" | "interrupted" | "running" | "skipped";
  summary?: string;
}

export interface Capabilities {
  threads: boolean;
  turns: boolean;
  approvals: boolean;
  streaming: boolean;
  persistence: boolean;
}

export interface ClientInfo {
  name: string;
  version?: string;
}

/** `path` is absolute, `diff` is unified. */
export interface FileChange {
  path: string;
  kind: "add" | "delete" | "modify";
  diff: string;
}

/** A file that the prompt refers to; relative paths start at the thread's directory. */
export interface FilePart {
  type: "file";
  path: string;
}

/** By `url` (`https:`, `http:` or `data:image/`), or by the `path` of a file. Exactly one of them. */
export interface ImagePart {
  type: "image";
  url?: string;
  path?: string;
}

export interface InitializeParams {
  clientInfo?: ClientInfo;
}

export interface InitializeResult {
  version: string;
  capabilities: Capabilities;
}

/** Add `delta` to the item's `data[field]`. */
export interface ItemDelta {
  threadId: string;
  turnId: string;
  itemId: string;
  seq: number;
  time: number;
  field: "output" | "summary" | "text";
  delta: string;
}

export interface ItemNews {
  threadId: string;
  turnId: string;
  itemId: string;
  seq: number;
  time: number;
  item: UserMessage | AssistantMessage | ToolExec | ToolLog | ApprovalItem | Artifact;
}

export interface Model {
  providerID: string;
  modelID: string;
}

/** A warning: something does not work from now on. `message` says what, why, and what to do. An extension of ours. */
export interface Notice {
  threadId: string;
  seq: number;
  time: number;
  severity: "info" | "warning";
  source: string;
  name: string;
  message: string;
  turnId?: string;
}

export interface Ok {
  ok: true;
}

export interface PlanEntry {
  step: string;
  status?: "completed" | "failed" | "inProgress" | "pending";
}

export interface TextPart {
  type: "text";
  text: string;
}

/** `notice` is a sentence about the thread that a client should show to its user, if there is one. */
export interface Thread {
  threadId: string;
  title: string;
  directory: string;
  time: ThreadTime;
  notice?: string;
}

/** `directory` must be absolute and exist. The default is the server's working directory. */
export interface ThreadCreateParams {
  title?: string;
  directory?: string;
}

export interface ThreadCreateResult {
  thread: Thread;
}

export interface ThreadCreated {
  threadId: string;
  seq: number;
  time: number;
  thread: Thread;
}

export interface ThreadGetParams {
  threadId: string;
}

/** An event is a notification as it was sent, with its method as `type`. Streamed text is joined to larger pieces. */
export interface ThreadGetResult {
  thread: Thread;
  events: Event[];
}

export interface ThreadListParams {
}

/** Newest first. */
export interface ThreadListResult {
  threads: Thread[];
}

export interface ThreadTime {
  created: number;
  updated: number;
}

export interface ToolExec {
  type: "tool_exec";
  itemId: string;
  threadId: string;
  turnId: string;
  data: ToolExecData;
}

/** `result` is the result of a tool that streamed no output; streamed output is in the `tool_log`. `reason` says why it was refused, failed or skipped. */
export interface ToolExecData {
  tool: string;
  input: Record<string, unknown>;
  status: "completed" | "declined" | "failed" | "interrupted" | "running" | "skipped";
  exitCode?: number;
  durationMs?: number;
  changes?: FileChange[];
  text?: string;
  entries?: PlanEntry[];
  result?: string;
  reason?: string;
}

export interface ToolLog {
  type: "tool_log";
  itemId: string;
  threadId: string;
  turnId: string;
  data: ToolLogData;
}

/** `toolItemId` is the `tool_exec` whose output this is. */
export interface ToolLogData {
  toolItemId: string;
  tool: string;
  output: string;
}

export interface Turn {
  turnId: string;
  threadId: string;
  status: "cancelled" | "completed" | "error" | "running";
  time: TurnTime;
}

export interface TurnCancelParams {
  threadId: string;
}

/** `status` is `error` if the turn failed, `cancelled` if it was stopped. */
export interface TurnFailed {
  threadId: string;
  turnId: string;
  seq: number;
  time: number;
  status: "cancelled" | "completed" | "error" | "running";
  turn: Turn;
  error: TurnFailure;
}

export interface TurnFailure {
  message: string;
  info: "BadRequest" | "ContextWindowExceeded" | "HttpConnectionFailed" | "InternalServerError" | "ModelNotFound" | "Other" | "Refusal" | "ResponseStreamDisconnected" | "ResponseTooManyFailedAttempts" | "SandboxError" | "ServerOverloaded" | "StepLimitReached" | "Unauthorized" | "UsageLimitExceeded" | "Cancelled";
  httpStatus?: number;
}

export interface TurnNews {
  threadId: string;
  turnId: string;
  seq: number;
  time: number;
  status: "cancelled" | "completed" | "error" | "running";
  turn: Turn;
}

/** `model` and `agent` apply to this turn and all later ones. */
export interface TurnStartParams {
  threadId: string;
  input: (TextPart | ImagePart | FilePart)[];
  model?: Model;
  agent?: "code" | "plan" | "review";
}

export interface TurnStartResult {
  turnId: string;
}

export interface TurnTime {
  started: number;
  completed?: number;
}

export interface UserMessage {
  type: "user_message";
  itemId: string;
  threadId: string;
  turnId: string;
  data: UserMessageData;
}

/** `text` is the text parts, joined by blank lines. */
export interface UserMessageData {
  content: (TextPart | ImagePart | FilePart)[];
  text: string;
}

export interface Requests {
  "initialize": { params: InitializeParams; result: InitializeResult };
  "thread.create": { params: ThreadCreateParams; result: ThreadCreateResult };
  "thread.list": { params: ThreadListParams; result: ThreadListResult };
  "thread.get": { params: ThreadGetParams; result: ThreadGetResult };
  "turn.start": { params: TurnStartParams; result: TurnStartResult };
  "turn.cancel": { params: TurnCancelParams; result: Ok };
  "approval.respond": { params: ApprovalRespondParams; result: Ok };
}

export interface Notifications {
  "thread.created": ThreadCreated;
  "turn.started": TurnNews;
  "turn.completed": TurnNews;
  "turn.error": TurnFailed;
  "item.started": ItemNews;
  "item.delta": ItemDelta;
  "item.completed": ItemNews;
  "approval.requested": ApprovalRequested;
  "notice": Notice;
}

/** A notification as it was told, with its method as `type`. */
export type Event =
  | ({ type: "thread.created" } & ThreadCreated)
  | ({ type: "turn.started" } & TurnNews)
  | ({ type: "turn.completed" } & TurnNews)
  | ({ type: "turn.error" } & TurnFailed)
  | ({ type: "item.started" } & ItemNews)
  | ({ type: "item.delta" } & ItemDelta)
  | ({ type: "item.completed" } & ItemNews)
  | ({ type: "approval.requested" } & ApprovalRequested)
  | ({ type: "notice" } & Notice);
