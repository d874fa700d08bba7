// The messages of sync. Written by `npm run types` from schemas/sync/schema.json: do not edit.

export type AttachmentInput = ImageAttachment | FileAttachment;
export type ClientMessage = Commands;
export type DeltaOperation = SetOperation | AppendTextOperation;
export type HarnessCommand = Submit | Cancel | Steer | Approve | Configure | Dequeue | Rename | Compact | Review;
export type ServerMessage = StateMessage | DeltaMessage | ErrorMessage | ThreadsMessage;

/**
 * What `always` would allow: a sentence without a subject, and the files it is about.
 *
 *     For a file change these are the files that may be changed again. For a command they are the scripts that must
 *     stay as they are.
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
 * Exactly what would happen; members of other kinds are empty.
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
  changes?: FileChange[];
  protected?: boolean;
  server?: string;
  tool?: string;
  input?: unknown;
  alwaysCovers?: AlwaysCovers | null;
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
 * `content` is what an elicitation asks for, as its `requestedSchema` has it.
 */
export interface Approve {
  type: "approve";
  id: string;
  decision: "always" | "once" | "reject";
  note?: string;
  content?: unknown;
}
/**
 * The body of `POST /threads/{id}/archive`.
 */
export interface Archive {
  archived?: boolean;
}
/**
 * `url`: where an image is, empty for a file. `upload`: what a prompt names to carry the image again.
 */
export interface Attachment {
  kind: "file" | "image";
  name: string;
  url?: string;
  upload?: string;
}
/**
 * `id` is what an upload was answered with.
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
 * Stops the run and holds the queue; while idle, empties a held queue.
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
 * All of them are understood before any is carried out.
 */
export interface Commands {
  type: "commands";
  commands: (Submit | Cancel | Steer | Approve | Configure | Dequeue | Rename | Compact | Review)[];
}
/**
 * The same `id` twice counts once.
 */
export interface Submit {
  type: "submit";
  prompt: string;
  id?: string | null;
  attachments?: (ImageAttachment | FileAttachment)[];
}
export interface Steer {
  type: "steer";
  prompt: string;
  id?: string | null;
  attachments?: (ImageAttachment | FileAttachment)[];
}
export interface Configure {
  type: "configure";
  model?: string | null;
  approvalPolicy?: ("always" | "never" | "unlessTrusted") | null;
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  agent?: ("code" | "plan" | "review") | null;
  options?: {
    [k: string]: string;
  } | null;
}
/**
 * No wrapper at all. Must be asked for by name.
 */
export interface DangerFullAccess {
  type: "dangerFullAccess";
}
/**
 * Everything readable, nothing writable, no network.
 */
export interface ReadOnly {
  type: "readOnly";
}
/**
 * The workspace and the named roots are writable.
 */
export interface WorkspaceWrite {
  type: "workspaceWrite";
  writableRoots?: string[];
  networkAccess?: boolean;
}
/**
 * Somebody else isolates the program. Nothing is enforced here, and `networkAccess` is only shown to people.
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
export interface DeltaMessage {
  type: "delta";
  operations: (SetOperation | AppendTextOperation)[];
  rev?: number;
}
/**
 * Replaces the value at `path`. One past the end of a list appends.
 */
export interface SetOperation {
  type: "set";
  path: string[];
  value: unknown;
}
/**
 * About one message of this client, and nobody else's business.
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
 * The body of `POST /threads/{id}/fork`.
 */
export interface Fork {
  lastSeq?: number | null;
}
/**
 * What `git diff` says of a thread's directory: everything that is not committed, whoever changed it.
 *
 *     `problem`: why there is no diff, for people; then `files` is empty.
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
}
/**
 * `output` is a tail when `output_truncated`. `pictures`: how many there are to fetch. `reason`: why it was
 *     refused, failed or skipped.
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
 * Of the whole thread, but for `context_tokens`: filled by the last model call.
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
}
export interface Settings {
  model: string;
  approvalPolicy: "always" | "never" | "unlessTrusted";
  sandbox: DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox;
  agent: "code" | "plan" | "review";
  options: {
    [k: string]: string;
  };
}
/**
 * `problem` says what to set before it can be used.
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
 * A warning: something is missing from now on. `message` says what, why, and what to do.
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
 * One record of the log, in a line.
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
  title?: string;
  cwd?: string | null;
  model?: string | null;
  approvalPolicy?: ("always" | "never" | "unlessTrusted") | null;
  sandbox?: (DangerFullAccess | ReadOnly | WorkspaceWrite | ExternalSandbox) | null;
  agent?: ("code" | "plan" | "review") | null;
  options?: {
    [k: string]: string;
  } | null;
}
/**
 * `message` says what is missing.
 */
export interface SandboxReport {
  ok: boolean;
  message: string;
}
/**
 * `rev` is the log position of the last record in it.
 */
export interface StateMessage {
  type: "state";
  state: HarnessState;
  rev?: number;
}
/**
 * On the socket, to a client that asked for it: the list has changed. `threads` are rows as they are now.
 *
 *     It is sent once at the beginning, with no rows: so a client knows that it will be told, and need not ask.
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
  canAddDevices?: boolean;
}
export interface StateAnswer {
  rev: number;
  state: HarnessState;
}
/**
 * A thread as it stood at record `rev`. `skipped`: how many messages are left out before those in `state`.
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
 * `partial`: the search has not read every thread yet; the same one a moment later finds more.
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
export interface Upload {
  id: string;
  name: string;
  mediaType: string;
  size: number;
}
