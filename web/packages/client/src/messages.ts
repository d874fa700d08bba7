// The messages of sync. Written by `npm run types` from schemas/sync/schema.json: do not edit.

export type AttachmentInput = ImageAttachment | FileAttachment;
export type ClientMessage = Commands;
export type DeltaOperation = SetOperation | AppendTextOperation;
export type HarnessCommand = Submit | Cancel | Steer | Approve | Configure | Dequeue | Rename | Compact | Review;
export type ServerMessage = StateMessage | DeltaMessage | ErrorMessage | ThreadsMessage;

export interface Actor {
  kind: "agent" | "client" | "hames" | "rule" | "token" | "user";
  name?: string;
  via?: string;
  client?: string;
}
/**
 * What `always` would allow. `text` is a phrase such as "further changes to a.py, for the rest of this thread".
 *
 * `files`: for a file change, the files that may be changed again; for a command, the scripts that must not
 * change.
 */
export interface AlwaysCovers {
  text: string;
  files?: string[];
}
export interface AppendTextOperation {
  type: "append-text";
  path: string[];
  value: string;
}
/**
 * Shows exactly what would happen. Members of other kinds are empty.
 */
export interface Approval {
  id: string;
  toolCallId: string;
  kind: "command" | "elicitation" | "file" | "mcp" | "tool";
  reason?: string;
  command?: string;
  cwd?: string;
  unsandboxed?: boolean;
  why?: string;
  host?: string;
  changes?: FileChange[];
  protected?: boolean;
  server?: string;
  tool?: string;
  input?: unknown;
  alwaysCovers?: AlwaysCovers | null;
  projectCovers?: AlwaysCovers | null;
  askedAt?: number;
}
/**
 * One file of a change. `path` is absolute, `diff` is unified.
 */
export interface FileChange {
  path: string;
  kind: "add" | "delete" | "modify";
  diff: string;
}
/**
 * `content` is the completed form of an elicitation, as its `requestedSchema` describes.
 */
export interface Approve {
  type: "approve";
  decision: "always" | "once" | "reject";
  note?: string;
  content?: unknown;
  scope?: "project" | "thread";
  id: string;
}
/**
 * The body of `POST /threads/{id}/archive`.
 */
export interface Archive {
  archived?: boolean;
}
/**
 * `url`: the path of an image, empty for a file. `upload`: the upload id, to attach the image to another prompt.
 */
export interface Attachment {
  kind: "file" | "image";
  name: string;
  url?: string;
  upload?: string;
}
/**
 * `id` is the id that `POST /uploads` returned.
 */
export interface ImageAttachment {
  type: "image";
  id: string;
}
export interface FileAttachment {
  type: "file";
  path: string;
}
/**
 * 0: no limit.
 */
export interface BudgetLimits {
  usd?: number;
  tokens?: number;
  minutes?: number;
  steps?: number;
}
/**
 * Stops the run and pauses the queue; while idle, empties a paused queue.
 */
export interface Cancel {
  type: "cancel";
}
export interface Choice {
  id: string;
  name: string;
  description: string;
}
/**
 * Where a part of an answer comes from, as the model service says.
 *
 * `start` and `end` count characters (code points) of the message's text; both are 0 where the service names no place.
 */
export interface Citation {
  url?: string;
  title?: string;
  quote?: string;
  start?: number;
  end?: number;
}
/**
 * All of them are validated before any is carried out.
 */
export interface Commands {
  type: "commands";
  commands: (Submit | Cancel | Steer | Approve | Configure | Dequeue | Rename | Compact | Review)[];
}
/**
 * A second submit with the same `id` does nothing.
 */
export interface Submit {
  type: "submit";
  prompt: string;
  id?: string | null;
  attachments?: (ImageAttachment | FileAttachment)[];
  outputSchema?: {} | null;
}
export interface Steer {
  type: "steer";
  prompt: string;
  id?: string | null;
  attachments?: (ImageAttachment | FileAttachment)[];
}
export interface Configure {
  type: "configure";
  developerInstructions?: string | null;
  baseInstructions?: string | null;
  personality?: ("friendly" | "none" | "pragmatic") | null;
  model?: string | null;
  approvalPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  agent?: ("code" | "plan" | "review") | null;
  options?: {
    [k: string]: string;
  } | null;
}
/**
 * No sandbox: commands can do everything that the user can do.
 */
export interface DangerFullAccess {
  type: "dangerFullAccess";
}
/**
 * Commands can write nothing and have no network.
 */
export interface ReadOnly {
  type: "readOnly";
}
/**
 * Commands can write only to the workspace and to `writableRoots`.
 */
export interface WorkspaceWrite {
  type: "workspaceWrite";
  writableRoots?: string[];
  networkAccess?: boolean;
  network?: NetworkRules;
}
/**
 * The hosts that commands may connect to. About any other a person is asked, where somebody can be asked.
 *
 * `deny` is stronger than `allow`, than `networkAccess: true` and than a person's answer.
 */
export interface NetworkRules {
  allow?: string[];
  deny?: string[];
  ask?: string[];
}
/**
 * Hames already runs in a container or the like, so it adds no sandbox. `networkAccess` is only shown to people.
 */
export interface ExternalSandbox {
  type: "externalSandbox";
  networkAccess?: "enabled" | "restricted";
}
export interface Dequeue {
  type: "dequeue";
  id: string;
}
export interface Rename {
  type: "rename";
  title: string;
}
export interface Compact {
  type: "compact";
}
export interface Review {
  type: "review";
  target: ReviewTarget;
}
export interface ReviewTarget {
  kind: "baseBranch" | "commit" | "custom" | "uncommittedChanges";
  text?: string;
}
export interface ConfigOption {
  id: string;
  name: string;
  description: string;
  group: string;
  default: string;
  value: string;
  choices: Choice[];
}
/**
 * `tokens` is an estimate. `count`: how many messages, calls or results there are.
 */
export interface ContextPart {
  name: string;
  tokens: number;
  count?: number;
}
/**
 * `tokens` is an estimate of the next request; from `limit` on the conversation is shortened.
 */
export interface ContextReport {
  tokens: number;
  limit: number;
  window: number;
  parts: ContextPart[];
  shortened?: string[];
  budgets?: string[];
}
export interface DeltaMessage {
  type: "delta";
  operations: (SetOperation | AppendTextOperation)[];
  rev?: number;
}
/**
 * Replaces the value at `path`. The index right after the last element of a list appends.
 */
export interface SetOperation {
  type: "set";
  path: string[];
  value: unknown;
}
/**
 * About one message of this client; other clients do not get it.
 */
export interface ErrorMessage {
  type: "error";
  message: string;
  submitId?: string;
}
export interface FileHit {
  path: string;
  kind: "directory" | "file";
}
export interface FileHits {
  files: FileHit[];
}
/**
 * The body of `POST /worktrees/finish`: a worktree by its name, or by the thread that works in it.
 *
 * `drop` is refused if work would be lost that is nowhere else, unless `discard` is the name of the worktree.
 */
export interface Finish {
  action: "drop" | "keep" | "merge";
  name?: string;
  threadId?: string | null;
  into?: string;
  message?: string;
  discard?: string;
  preview?: boolean;
}
export interface FinishAnswer {
  worktree: WorktreeRow;
  message: string;
  done: boolean;
  removed: boolean;
  loses: string[];
  conflicts: string[];
}
/**
 * `commits` are on no other branch; `uncommitted` and `ignored` are files that are nowhere else.
 */
export interface WorktreeRow {
  name: string;
  branch: string;
  path: string;
  workspace: string;
  base: string;
  threadId: string;
  status: string;
  commits: string[];
  uncommitted: string[];
  ignored: string[];
}
/**
 * The body of `POST /threads/{id}/fork`. `worktree`: the fork works in a git worktree of its own, made from the
 * directory of this thread; `changes` takes uncommitted and untracked files along.
 */
export interface Fork {
  lastSeq?: number | null;
  worktree?: NewWorktree | null;
}
/**
 * A worktree to make for a thread. `name` empty: one is made up. `changes`: uncommitted and untracked files are
 * taken along.
 */
export interface NewWorktree {
  name?: string;
  changes?: boolean;
}
/**
 * All uncommitted changes in a thread's directory, whoever made them.
 *
 * `problem` says why there is no diff; then `files` is empty.
 */
export interface GitChanges {
  files?: FileChange[];
  problem?: string;
}
export interface HarnessMessage {
  id: string;
  role: "assistant" | "user";
  content: string;
  status: "complete" | "error" | "pending" | "streaming";
  toolCalls?: HarnessToolCall[];
  createdAt?: number;
  turnId?: string;
  reasoning?: string;
  reasoningMs?: number | null;
  stopReason?: string;
  error?: string;
  attachments?: Attachment[];
  citations?: Citation[];
  by?: Actor | null;
  undone?: string[];
}
/**
 * If `output_truncated`, the beginning of `output` is missing. `pictures`: how many the tool returned. `reason`:
 * why it was refused, failed or skipped.
 */
export interface HarnessToolCall {
  id: string;
  name: string;
  status: "complete" | "error" | "running";
  kind?: "artifact" | "command" | "compaction" | "file" | "mcp" | "plan" | "search" | "tool";
  outcome?: "completed" | "declined" | "failed" | "interrupted" | "running" | "skipped";
  title?: string;
  input?: unknown;
  output?: string;
  outputTruncated?: boolean;
  exitCode?: number | null;
  durationMs?: number | null;
  changes?: FileChange[];
  pictures?: number;
  reason?: string;
  decision?: "" | "always" | "once" | "reject" | "void";
  decidedBy?: Actor | null;
  undone?: string[];
}
export interface HarnessState {
  status: "error" | "idle" | "running";
  messages: HarnessMessage[];
  error?: string;
  errorInfo?: string;
  thread?: ThreadHead;
  approvals?: Approval[];
  plan?: Plan | null;
  usage?: Usage;
  queue?: QueuedPrompt[];
  queueHeld?: boolean;
  settings?: Settings;
  selectors?: ConfigOption[];
  models?: Model[];
  notices?: Notice[];
}
export interface ThreadHead {
  id: string;
  title: string;
  preview: string;
  cwd: string;
  model: string;
  archived: boolean;
  forkedFrom: string;
  createdAt: number;
  updatedAt: number;
  notice?: string;
  notes?: string[];
}
export interface Plan {
  explanation: string;
  entries: PlanEntry[];
}
export interface PlanEntry {
  step: string;
  status?: "completed" | "failed" | "inProgress" | "pending";
}
/**
 * Totals of the whole thread. `context_tokens` is the size of the context in the last model call.
 */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  thinkingTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  contextTokens: number;
  contextWindow: number;
  cost: number | null;
}
export interface QueuedPrompt {
  id: string;
  prompt: string;
  attachments?: Attachment[];
  by?: Actor | null;
}
export interface Settings {
  model: string;
  approvalPolicy: "always" | "never" | "onRequest" | "unlessTrusted";
  sandbox: DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox;
  agent: "code" | "plan" | "review";
  options: {
    [k: string]: string;
  };
}
/**
 * `problem` says what to configure before the model can be used.
 */
export interface Model {
  id: string;
  name: string;
  provider: string;
  description: string;
  contextWindow: number;
  images: boolean;
  reasoning: boolean;
  available: boolean;
  problem: string;
}
/**
 * A warning: something does not work from now on; or, as long as it lasts, which server is waited for. `message`
 * says what, why, and what to do.
 */
export interface Notice {
  severity: "info" | "warning";
  source: string;
  name: string;
  message: string;
  turnId: string;
  at: number;
}
/**
 * One record of the log, described in one line.
 */
export interface Mark {
  seq: number;
  at: number;
  kind: "approval" | "assistant" | "decision" | "end" | "other" | "settings" | "tool" | "turn" | "user";
  label: string;
  messageId?: string;
}
/**
 * The body of `POST /threads`.
 */
export interface NewThread {
  developerInstructions?: string | null;
  baseInstructions?: string | null;
  personality?: ("friendly" | "none" | "pragmatic") | null;
  title?: string;
  cwd?: string | null;
  model?: string | null;
  approvalPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  agent?: ("code" | "plan" | "review") | null;
  options?: {
    [k: string]: string;
  } | null;
  worktree?: NewWorktree | null;
  budgets?: ThreadBudgets | null;
}
/**
 * Of each turn, and of the whole thread. 0: no limit.
 */
export interface ThreadBudgets {
  turn?: BudgetLimits1;
  thread?: BudgetLimits2;
}
/**
 * 0: no limit.
 */
export interface BudgetLimits1 {
  usd?: number;
  tokens?: number;
  minutes?: number;
  steps?: number;
}
/**
 * 0: no limit.
 */
export interface BudgetLimits2 {
  usd?: number;
  tokens?: number;
  minutes?: number;
  steps?: number;
}
export interface PathLeftAlone {
  path: string;
  why: string;
}
/**
 * Those that run, and the last that have ended, oldest first.
 */
export interface ProcessPage {
  processes: ProcessRow[];
}
/**
 * `number` names it within its thread. `exitCode` is negative for a signal, and null while it runs.
 */
export interface ProcessRow {
  number: number;
  command: string;
  cwd: string;
  terminal: boolean;
  running: boolean;
  seconds: number;
  outputBytes: number;
  exitCode: number | null;
  tail: string;
}
/**
 * `path` is relative to the workspace.
 */
export interface RestoredPath {
  path: string;
  action: "brought back" | "changed back" | "permissions" | "removed";
}
/**
 * `message` says what is missing.
 */
export interface SandboxReport {
  ok: boolean;
  message: string;
}
/**
 * `rev` is the log position of the last record that it includes.
 */
export interface StateMessage {
  type: "state";
  state: HarnessState;
  rev?: number;
}
/**
 * The list of threads has changed; `threads` are the new rows. Sent to clients that connected with `?threads=1`.
 *
 * The first one has no rows: it tells the client that it need not poll the list.
 */
export interface ThreadsMessage {
  type: "threads";
  threads: ThreadRow[];
}
export interface ThreadRow {
  id: string;
  title: string;
  preview: string;
  cwd: string;
  model: string;
  archived: boolean;
  createdAt: number;
  updatedAt: number;
  status: "approval" | "error" | "idle" | "running";
  foreign?: boolean;
  match?: string;
}
export interface ServerStatus {
  name: string;
  version: string;
  cwd: string;
  defaultModel: string;
  demoModel: string;
  models: Model[];
  sandbox: SandboxReport;
  warnings?: string[];
  notice?: string;
  canAddDevices?: boolean;
  maxSteps?: number;
  role?: "approver" | "driver" | "observer" | "owner";
  user?: string;
  newThreadPolicy?: ("always" | "never" | "onRequest" | "unlessTrusted") | null;
}
export interface StateAnswer {
  rev: number;
  state: HarnessState;
}
/**
 * The state of a thread at record `rev`. `skipped`: how many earlier messages are left out of `state`.
 */
export interface StateAt {
  rev: number;
  at: number;
  state: HarnessState;
  skipped?: number;
}
export interface ThreadAnswer {
  thread: ThreadRow;
}
/**
 * `partial`: the search has not read every thread yet; repeat it for more results.
 */
export interface ThreadPage {
  threads: ThreadRow[];
  nextCursor: string | null;
  partial?: boolean;
}
export interface Timeline {
  seq: number;
  marks: Mark[];
}
/**
 * The body of `POST /threads/{id}/undo`. Without `turnId`: the last turn that changed files; `later`: what every
 * later turn did as well. Files that others have changed since are left alone, unless `overwrite`. `preview`: only
 * tell what would happen.
 */
export interface Undo {
  turnId?: string | null;
  later?: boolean;
  redo?: boolean;
  paths?: string[];
  overwrite?: boolean;
  preview?: boolean;
}
/**
 * `message` says it in one sentence. `conflicts` were changed by somebody else; `notKept` cannot be restored.
 */
export interface UndoAnswer {
  turns: string[];
  message: string;
  restored: RestoredPath[];
  conflicts: PathLeftAlone[];
  notKept: PathLeftAlone[];
}
export interface Upload {
  id: string;
  name: string;
  mediaType: string;
  size: number;
}
export interface WorktreePage {
  worktrees: WorktreeRow[];
}
