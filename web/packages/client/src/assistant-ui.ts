/**
 * From `HarnessState` to assistant-ui's `ThreadMessage[]`.
 *
 * A message that did not change converts to the very same object as before: assistant-ui and React compare by
 * identity, and a token would otherwise re-render the whole thread. Our own view of a tool call travels
 * in `artifact`, of a message in `metadata.custom.harness`.
 */

import type {
  ThreadAssistantMessage,
  ThreadMessage,
  ThreadUserMessage,
  ToolCallMessagePart,
} from "@assistant-ui/react";
import type { Approval, HarnessMessage, HarnessState, HarnessToolCall, JSONValue } from "./protocol.js";

export type ConvertOptions = {
  /** Adjacent assistant messages become one: a turn of text, tools and text again is one answer. Default: true. */
  group?: boolean;
  /** Only the last so many messages of the state. Default: all. */
  last?: number;
  /** Or a stretch of them, by index: from the first, to before the second. */
  from?: number;
  to?: number;
};

export type Converter = (state: HarnessState, options?: ConvertOptions) => readonly ThreadMessage[];

type Converted = { sources: readonly HarnessMessage[]; approvals: readonly Approval[]; message: ThreadMessage };

/** One converter for one thread: it remembers what it made. */
export function createConverter(): Converter {
  let known = new Map<string, Converted>();
  let result: readonly ThreadMessage[] = [];

  return (state, { group = true, last = Infinity, from = 0, to = Infinity } = {}) => {
    const start = Math.max(from, state.messages.length - last);
    const messages = start > 0 || to < state.messages.length ? state.messages.slice(start, to) : state.messages;
    const next = new Map<string, Converted>();
    for (const sources of group ? grouped(messages) : messages.map((message) => [message])) {
      const approvals = approvalsOf(sources, state.approvals);
      const id = sources[0]!.id;
      const before = known.get(id);
      const same = before && shallowEqual(before.sources, sources) && shallowEqual(before.approvals, approvals);
      next.set(id, same ? before : { sources, approvals, message: convert(sources, approvals) });
    }
    known = next;
    const converted = Array.from(next.values(), ({ message }) => message);
    if (!shallowEqual(result, converted)) result = converted;
    return result;
  };
}

/** Without a memory: for a thread that is looked at once. */
export function toThreadMessages(state: HarnessState, options?: ConvertOptions): readonly ThreadMessage[] {
  return createConverter()(state, options);
}

/** The state's message behind a converted one; the first of them when several were joined. */
export function harnessMessage(message: { metadata: { custom: Record<string, unknown> } }): HarnessMessage | undefined {
  return (message.metadata.custom["harness"] as readonly HarnessMessage[] | undefined)?.[0];
}

function grouped(messages: readonly HarnessMessage[]): HarnessMessage[][] {
  const groups: HarnessMessage[][] = [];
  for (const message of messages) {
    const group = groups.at(-1);
    if (message.role === "assistant" && group?.[0]?.role === "assistant") group.push(message);
    else groups.push([message]);
  }
  return groups;
}

const NONE: readonly Approval[] = [];

function approvalsOf(sources: readonly HarnessMessage[], approvals: readonly Approval[] = NONE): readonly Approval[] {
  if (approvals.length === 0) return NONE;
  return approvals.filter(({ toolCallId }) =>
    sources.some(({ toolCalls }) => toolCalls?.some(({ id }) => id === toolCallId)),
  );
}

function convert(sources: readonly HarnessMessage[], approvals: readonly Approval[]): ThreadMessage {
  return sources[0]!.role === "user" ? userMessage(sources[0]!) : assistantMessage(sources, approvals);
}

function userMessage(source: HarnessMessage): ThreadMessage {
  const attachments: ThreadUserMessage["attachments"] = (source.attachments ?? []).map(
    ({ kind, name, url }, index) => ({
      id: `${source.id}-${index}`,
      type: kind,
      name,
      status: { type: "complete" },
      content: kind === "image" ? [{ type: "image", image: url ?? "", filename: name }] : [],
    }),
  );
  return {
    id: source.id,
    role: "user",
    createdAt: new Date(source.createdAt ?? 0),
    content: [{ type: "text", text: source.content }],
    attachments,
    metadata: { custom: { harness: [source] } },
  };
}

function assistantMessage(sources: readonly HarnessMessage[], approvals: readonly Approval[]): ThreadMessage {
  return {
    id: sources[0]!.id,
    role: "assistant",
    createdAt: new Date(sources[0]!.createdAt ?? 0),
    content: sources.flatMap((source) => parts(source, approvals)),
    status: approvals.length > 0 ? { type: "requires-action", reason: "interrupt" } : messageStatus(sources.at(-1)!),
    metadata: {
      unstable_state: null,
      unstable_annotations: [],
      unstable_data: [],
      steps: [],
      custom: { harness: sources },
    },
  };
}

/** Said of the part that grows: outside of a thread assistant-ui does not find out by itself. */
const RUNNING = { status: { type: "running" } } as const;

function parts(source: HarnessMessage, approvals: readonly Approval[]): ThreadAssistantMessage["content"] {
  const found: ThreadAssistantMessage["content"][number][] = [];
  const tools = source.toolCalls?.length ?? 0;
  const live = (source.status === "pending" || source.status === "streaming") && tools === 0;
  if (source.reasoning)
    found.push({ type: "reasoning", text: source.reasoning, ...(live && !source.content && RUNNING) });
  if (source.content) found.push({ type: "text", text: source.content, ...(live && RUNNING) });
  for (const call of source.toolCalls ?? []) {
    found.push(
      toolPart(
        call,
        approvals.find(({ toolCallId }) => toolCallId === call.id),
      ),
    );
  }
  return found;
}

function toolPart(call: HarnessToolCall, approval: Approval | undefined): ToolCallMessagePart {
  const args = isObject(call.input) ? call.input : {};
  return {
    type: "tool-call",
    toolCallId: call.id,
    toolName: call.name,
    args,
    argsText: call.input == null ? "" : JSON.stringify(call.input),
    artifact: call,
    // assistant-ui takes a call for running until it has a result, whatever else is said.
    ...(call.status !== "running" && { result: call.output || call.outcome || call.status }),
    ...(call.status === "error" && { isError: true }),
    ...(approval && { approval: approvalPart(approval) }),
  };
}

function approvalPart({ id, reason, alwaysCovers }: Approval): NonNullable<ToolCallMessagePart["approval"]> {
  return {
    id,
    ...(reason && { prompt: reason }),
    options: [
      { id: "once", kind: "allow-once" },
      ...(alwaysCovers ? [{ id: "always", kind: "allow-always" } as const] : []),
      { id: "reject", kind: "reject-once" },
    ],
  };
}

function messageStatus({ status, stopReason, error }: HarnessMessage): ThreadAssistantMessage["status"] {
  switch (status) {
    case "pending":
    case "streaming":
      return { type: "running" };
    case "error":
      return { type: "incomplete", reason: "error", error: error || "the run failed" };
    case "complete":
      if (stopReason === "cancelled") return { type: "incomplete", reason: "cancelled" };
      if (stopReason === "max_tokens" || stopReason === "length") return { type: "incomplete", reason: "length" };
      if (stopReason === "refusal") return { type: "incomplete", reason: "content-filter" };
      return { type: "complete", reason: "stop" };
  }
}

function isObject(value: unknown): value is { [key: string]: JSONValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shallowEqual<T>(a: readonly T[], b: readonly T[]): boolean {
  return a === b || (a.length === b.length && a.every((value, index) => value === b[index]));
}
