/**
 * The sync protocol as types: the specification, and the extensions of `docs/sync-extensions.md`.
 *
 * A server may know only the specification, so everything else is optional here, and every reader has an
 * opinion about its absence.
 */

export type JSONValue = null | boolean | number | string | JSONValue[] | { [key: string]: JSONValue };

// --- state -----------------------------------------------------------------------------------------------------

export type RunStatus = "idle" | "running" | "error";
export type MessageStatus = "pending" | "streaming" | "complete" | "error";
export type ToolStatus = "running" | "complete" | "error";

export type HarnessState = {
  status: RunStatus;
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
};

export type HarnessMessage = {
  id: string;
  role: "user" | "assistant";
  content: string;
  status: MessageStatus;
  toolCalls?: HarnessToolCall[];
  createdAt?: number;
  turnId?: string;
  reasoning?: string;
  /** `cancelled`, or the model's own word. */
  stopReason?: string;
  error?: string;
  attachments?: Attachment[];
};

/** `url` is a same-origin path for an image, and empty for a file. */
export type Attachment = { kind: "image" | "file"; name: string; url: string };

export type ToolKind = "command" | "file" | "mcp" | "search" | "plan" | "compaction" | "artifact" | "tool";
export type ToolOutcome = "running" | "completed" | "failed" | "declined" | "interrupted";

export type HarnessToolCall = {
  id: string;
  name: string;
  status: ToolStatus;
  kind?: ToolKind;
  outcome?: ToolOutcome;
  title?: string;
  input?: JSONValue;
  /** A tail: see `outputTruncated`. */
  output?: string;
  outputTruncated?: boolean;
  exitCode?: number | null;
  durationMs?: number | null;
  changes?: FileChange[];
};

/** `diff` is unified. */
export type FileChange = { path: string; kind: "add" | "modify" | "delete"; diff: string };

export type Approval = {
  id: string;
  toolCallId: string;
  kind: "command" | "file" | "mcp" | "tool";
  reason?: string;
  command?: string;
  cwd?: string;
  unsandboxed?: boolean;
  why?: string;
  changes?: FileChange[];
  protected?: boolean;
  server?: string;
  tool?: string;
  input?: JSONValue;
};

export type Decision = "once" | "always" | "reject";

export type PlanEntry = { step: string; status: "pending" | "inProgress" | "completed" | "failed" };
export type Plan = { explanation: string; entries: PlanEntry[] };

export type Usage = {
  inputTokens: number;
  outputTokens: number;
  thinkingTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  /** Filled by the last model call. */
  contextTokens: number;
  /** 0: unknown. */
  contextWindow: number;
  /** US dollars; null: unknown. */
  cost: number | null;
};

export type QueuedPrompt = { id: string; prompt: string; attachments?: Attachment[] };

export type ApprovalPolicy = "never" | "unlessTrusted" | "always";
export type AgentName = "code" | "plan" | "review";

export type SandboxPolicy =
  | { type: "dangerFullAccess" }
  | { type: "readOnly" }
  | { type: "workspaceWrite"; writableRoots?: string[]; networkAccess?: boolean }
  | { type: "externalSandbox"; networkAccess?: "restricted" | "enabled" };

export type Settings = {
  model: string;
  approvalPolicy: ApprovalPolicy;
  sandbox: SandboxPolicy;
  agent: AgentName;
  options: Record<string, string>;
};

export type ConfigOption = {
  id: string;
  name: string;
  description: string;
  group: string;
  default: string;
  value: string;
  choices: { id: string; name: string; description: string }[];
};

export type Model = {
  id: string;
  name: string;
  provider: string;
  description: string;
  contextWindow: number;
  images: boolean;
  reasoning: boolean;
  available: boolean;
  /** What to set before it can be used. */
  problem: string;
};

export type ThreadHead = {
  id: string;
  title: string;
  preview: string;
  cwd: string;
  model: string;
  archived: boolean;
  forkedFrom: string;
  createdAt: number;
  updatedAt: number;
};

// --- messages --------------------------------------------------------------------------------------------------

export type DeltaOperation =
  { type: "set"; path: string[]; value: JSONValue } | { type: "append-text"; path: string[]; value: string };

export type ServerMessage =
  | { type: "state"; state: HarnessState; rev?: number }
  | { type: "delta"; operations: DeltaOperation[]; rev?: number }
  | { type: "error"; message: string; submitId?: string };

export type AttachmentInput = { type: "image"; id: string } | { type: "file"; path: string };

export type ReviewTarget = { kind: "uncommittedChanges" | "baseBranch" | "commit" | "custom"; text: string };

export type Configuration = {
  model?: string;
  approvalPolicy?: ApprovalPolicy;
  sandbox?: SandboxPolicy;
  agent?: AgentName;
  options?: Record<string, string>;
};

export type HarnessCommand =
  | { type: "submit"; prompt: string; id?: string; attachments?: AttachmentInput[] }
  | { type: "cancel" }
  | { type: "steer"; prompt: string; id?: string; attachments?: AttachmentInput[] }
  | { type: "approve"; id: string; decision: Decision; note?: string }
  | ({ type: "configure" } & Configuration)
  | { type: "dequeue"; id: string }
  | { type: "rename"; title: string }
  | { type: "compact" }
  | { type: "review"; target: ReviewTarget };

export type ClientMessage = { type: "commands"; commands: HarnessCommand[] };

/** Close codes with a meaning of their own. */
export const CLOSE = { cannotApply: 4000, unauthorized: 4401, notFound: 4404 } as const;

// --- HTTP ------------------------------------------------------------------------------------------------------

export type ThreadRow = {
  id: string;
  title: string;
  preview: string;
  cwd: string;
  model: string;
  archived: boolean;
  createdAt: number;
  updatedAt: number;
  /** `approval`: it waits for a person. */
  status: "idle" | "running" | "approval" | "error";
};

export type ThreadPage = { threads: ThreadRow[]; nextCursor: string | null };

export type ServerStatus = {
  name: string;
  version: string;
  cwd: string;
  defaultModel: string;
  /** A scripted model that needs no key, or nothing. */
  demoModel: string;
  models: Model[];
  sandbox: { ok: boolean; message: string };
};

export type Mark = {
  seq: number;
  at: number;
  kind: "turn" | "user" | "assistant" | "tool" | "approval" | "decision" | "end" | "settings" | "other";
  label: string;
  messageId: string;
};

export type Timeline = { seq: number; marks: Mark[] };
export type StateAt = { rev: number; at: number; state: HarnessState };
export type FileHit = { path: string; kind: "file" | "directory" };
export type Upload = { id: string; name: string; mediaType: string; size: number };
