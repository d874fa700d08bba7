// The messages of runner. Written by `hames schema`: do not edit.

/** What `always` would allow. `text` is a phrase such as "further changes to a.py, for the rest of this thread". `files`: for a file change, the files that may be changed again; for a command, the scripts that must not change. */
export interface AlwaysCovers {
  text: string;
  files?: string[];
}

/** The body of `POST /approvals/{id}`. */
export interface ApprovalAnswer {
  decision: "always" | "once" | "reject";
  note?: string;
  content?: unknown;
}

/** The tool call `item` waits for `POST /approvals/{id}`. `intent` is exactly what it would do. */
export interface ApprovalRequested {
  id: string;
  item: string;
  intent: RunCommand | ChangeFiles | CallMcp | UseTool | Elicit;
  reason?: string;
  alwaysCovers?: AlwaysCovers | null;
}

export interface ApprovalResolved {
  id: string;
  decision: "always" | "once" | "reject" | "void";
}

export interface AssistantDelta {
  text: string;
}

export interface CallMcp {
  type: "call_mcp";
  server: string;
  tool: string;
  arguments?: unknown;
}

/** `protected`: changes a protected file (`.git`, `.harness`, agent configuration), which every policy asks about. */
export interface ChangeFiles {
  type: "change_files";
  changes: FileUpdate[];
  protected?: boolean;
}

/** What an MCP server asks a person while its tool runs: a form, or an address to visit. Only a person can answer it. The question shows which server asks; Hames never opens the address. */
export interface Elicit {
  type: "elicit";
  server: string;
  message: string;
  schema?: unknown;
  url?: string;
}

/** One file of a change. `path` is absolute, `diff` is unified. */
export interface FileUpdate {
  path: string;
  kind: "add" | "delete" | "modify";
  diff: string;
}

export interface ReasoningDelta {
  text: string;
}

/** `unsandboxed`: the model wants to run it outside the sandbox; `why` is its reason. */
export interface RunCommand {
  type: "run_command";
  command: string;
  cwd: string;
  unsandboxed?: boolean;
  why?: string;
  scripts?: ScriptFile[];
  repeatable?: boolean;
}

export interface RunCompleted {
  stopReason?: string;
  usage?: Usage;
}

export interface RunError {
  message: string;
  info?: string;
}

/** The body of `POST /runs`. Runs with the same `thread` share a conversation. Without a policy the run does not ask. */
export interface RunRequest {
  prompt: string;
  thread?: string;
  approvalPolicy?: "always" | "never" | "unlessTrusted" | null;
}

export interface RunStarted {
  runId: string;
  prompt: string;
}

/** A file that decides what a command does, as it was when the person was asked. */
export interface ScriptFile {
  path: string;
  sha256: string;
  target?: string;
}

export interface ToolCompleted {
  id: string;
  result: string;
  exitCode?: number | null;
  durationMs?: number | null;
  changes?: FileUpdate[];
}

export interface ToolFailed {
  id: string;
  error: string;
  outcome?: "declined" | "failed" | "interrupted" | "skipped";
  exitCode?: number | null;
  durationMs?: number | null;
}

export interface ToolOutput {
  id: string;
  text: string;
}

/** `input` is the tool's arguments; a command is also in `command` and `cwd`. */
export interface ToolStarted {
  id: string;
  name: string;
  kind?: "command" | "file" | "tool";
  input?: unknown;
  command?: string;
  cwd?: string;
  changes?: FileUpdate[];
}

/** `input_tokens` does not count tokens that were read from or written to a cache. */
export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  thinking_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
}

/** A tool whose effects are unknown. `vouched`: the user configured it for this, so only the policy `always` asks. */
export interface UseTool {
  type: "use_tool";
  name: string;
  arguments?: unknown;
  vouched?: boolean;
}

/** The events of a stream, by name. */
export interface Events {
  "run.started": RunStarted;
  "assistant.delta": AssistantDelta;
  "reasoning.delta": ReasoningDelta;
  "tool.started": ToolStarted;
  "tool.output": ToolOutput;
  "tool.completed": ToolCompleted;
  "tool.failed": ToolFailed;
  "approval.requested": ApprovalRequested;
  "approval.resolved": ApprovalResolved;
  "run.completed": RunCompleted;
  "run.error": RunError;
}
