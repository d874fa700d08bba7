// The messages of sse. Written by `hames schema`: do not edit.

/** What `always` would allow: a sentence without a subject, and the files it is about. For a file change these are the files that may be changed again. For a command they are the scripts that must stay as they are. */
export interface AlwaysCovers {
  text: string;
  files?: string[];
}

/** A question. The answer goes to `POST /approvals/{id}`; what stands here is exactly what would happen. */
export interface Approval {
  type: "approval";
  id: string;
  toolCallId: string;
  kind: "command" | "elicitation" | "file" | "mcp" | "tool";
  timestamp: number;
  reason?: string;
  command?: string;
  cwd?: string;
  unsandboxed?: boolean;
  why?: string;
  changes?: FileUpdate[];
  protected?: boolean;
  server?: string;
  tool?: string;
  input?: unknown;
  alwaysCovers?: AlwaysCovers | null;
}

/** The body of `POST /approvals/{id}`. */
export interface ApprovalAnswer {
  decision: "always" | "once" | "reject";
  note?: string;
  content?: unknown;
}

export interface ApprovalResolved {
  type: "approval_resolved";
  id: string;
  decision: string;
  timestamp: number;
}

/** One file of a change. `path` is absolute, `diff` is unified. */
export interface FileUpdate {
  path: string;
  kind: "add" | "delete" | "modify";
  diff: string;
}

/** A warning: something is missing from now on. `message` says what, why, and what to do. */
export interface Notice {
  type: "notice";
  message: string;
  severity: "info" | "warning";
  source: string;
  name: string;
  timestamp: number;
}

/** The body of `POST /prompt`. */
export interface Prompt {
  content: string;
}

export interface Reasoning {
  type: "reasoning";
  content: string;
  timestamp: number;
}

/** `outcome` is ours: how the turn ended, on `idle`. */
export interface Status {
  type: "status";
  state: "idle" | "running_tool" | "thinking";
  message: string;
  timestamp: number;
  outcome?: string;
}

export interface Text {
  type: "text";
  content: string;
  timestamp: number;
}

export interface ToolCall {
  type: "tool_call";
  id: string;
  name: string;
  input: unknown;
  timestamp: number;
}

export interface ToolResult {
  type: "tool_result";
  id: string;
  result: string;
  isError: boolean;
  timestamp: number;
}

/** A call that was not executed because an earlier one of the same reply failed. It gets no `tool_result`. */
export interface ToolSkipped {
  type: "tool_skipped";
  id: string;
  reason: string;
  timestamp: number;
}

export interface User {
  type: "user";
  content: string;
  timestamp: number;
}

export type Event =
  | User
  | Text
  | ToolCall
  | ToolResult
  | ToolSkipped
  | Reasoning
  | Status
  | Notice
  | Approval
  | ApprovalResolved;
