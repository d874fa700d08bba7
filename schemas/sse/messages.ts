// The messages of sse. Written by `hames schema`: do not edit.

/** What `always` would allow. `text` is a phrase such as "further changes to a.py, for the rest of this thread". `files`: for a file change, the files that may be changed again; for a command, the scripts that must not change. */
export interface AlwaysCovers {
  text: string;
  files?: string[];
}

/** A question that shows exactly what would happen. Answer with `POST /approvals/{id}`. */
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

/** A warning: something does not work from now on. `message` says what, why, and what to do. */
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

/** `outcome` is an addition: with `idle`, how the turn ended. */
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
