// The messages of runner. Written by `hames schema`: do not edit.

export interface AssistantDelta {
  text: string;
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

export interface RunCompleted {
  stopReason?: string;
  usage?: Usage;
}

export interface RunError {
  message: string;
  info?: string;
}

/** The body of `POST /runs`. Runs of one `thread` share a conversation. */
export interface RunRequest {
  prompt: string;
  thread?: string;
}

export interface RunStarted {
  runId: string;
  prompt: string;
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
  outcome?: "declined" | "failed" | "interrupted";
  exitCode?: number | null;
  durationMs?: number | null;
}

export interface ToolOutput {
  id: string;
  text: string;
}

/** `input` is whatever the tool was given; a command also stands in `command` and `cwd`. */
export interface ToolStarted {
  id: string;
  name: string;
  kind?: "command" | "file" | "tool";
  input?: unknown;
  command?: string;
  cwd?: string;
  changes?: FileUpdate[];
}

/** `input_tokens` counts what was neither read from nor written to a cache. */
export interface Usage {
  input_tokens?: number;
  output_tokens?: number;
  thinking_tokens?: number;
  cache_read_tokens?: number;
  cache_write_tokens?: number;
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
  "run.completed": RunCompleted;
  "run.error": RunError;
}
