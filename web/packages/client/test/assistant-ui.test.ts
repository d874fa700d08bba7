/** What assistant-ui is told, and that it is told no more than changed. */

import { expect, test } from "vitest";
import { applyOperations } from "../src/apply.js";
import { createConverter, harnessMessage, toThreadMessages } from "../src/assistant-ui.js";
import type { HarnessMessage, HarnessState, HarnessToolCall } from "../src/protocol.js";

const user = (id: string, content: string): HarnessMessage => ({ id, role: "user", content, status: "complete" });
const assistant = (id: string, change: Partial<HarnessMessage> = {}): HarnessMessage => ({
  id,
  role: "assistant",
  content: "",
  status: "complete",
  toolCalls: [],
  ...change,
});
const shell = (change: Partial<HarnessToolCall> = {}): HarnessToolCall => ({
  id: "t1",
  name: "shell",
  status: "complete",
  ...change,
});
const thread = (...messages: HarnessMessage[]): HarnessState => ({ status: "running", messages });

test("a state of the bare specification converts", () => {
  const messages = toThreadMessages(
    thread(user("u1", "hi"), assistant("a1", { content: "hello", toolCalls: [shell()] })),
  );
  expect(messages).toMatchObject([
    { id: "u1", role: "user", content: [{ type: "text", text: "hi" }] },
    {
      id: "a1",
      role: "assistant",
      status: { type: "complete", reason: "stop" },
      content: [
        { type: "text", text: "hello" },
        { type: "tool-call", toolCallId: "t1", toolName: "shell", args: {} },
      ],
    },
  ]);
});

test("inside a message the order is reasoning, text, tools", () => {
  const [message] = toThreadMessages(thread(assistant("a1", { reasoning: "hm", content: "so", toolCalls: [shell()] })));
  expect(message?.content.map(({ type }) => type)).toEqual(["reasoning", "text", "tool-call"]);
});

test("the part that grows is said to, and no other", () => {
  const growing = (change: Partial<HarnessMessage>) =>
    toThreadMessages(thread(assistant("a1", { status: "streaming", ...change })))[0]!.content.flatMap((part) =>
      "status" in part && part.status?.type === "running" ? [part.type] : [],
    );
  expect(growing({ reasoning: "hm" })).toEqual(["reasoning"]);
  expect(growing({ reasoning: "hm", content: "so" })).toEqual(["text"]);
  expect(growing({ content: "so", toolCalls: [shell({ status: "running" })] })).toEqual([]);
  expect(growing({ content: "so", status: "complete" })).toEqual([]);
});

test("adjacent assistant messages are one answer, in order", () => {
  const state = thread(
    user("u1", "go"),
    assistant("a1", { content: "first", toolCalls: [shell()] }),
    assistant("a2", { content: "then", status: "streaming" }),
    user("u2", "more"),
    assistant("a3", { content: "last" }),
  );
  const messages = toThreadMessages(state);
  expect(messages.map(({ id }) => id)).toEqual(["u1", "a1", "u2", "a3"]);
  expect(messages[1]?.content.map((part) => (part.type === "text" ? part.text : part.type))).toEqual([
    "first",
    "tool-call",
    "then",
  ]);
  expect(messages[1]?.status).toEqual({ type: "running" });
  expect(toThreadMessages(state, { group: false }).map(({ id }) => id)).toEqual(["u1", "a1", "a2", "u2", "a3"]);
});

test.each([
  ["pending", {}, { type: "running" }],
  ["streaming", {}, { type: "running" }],
  ["complete", {}, { type: "complete", reason: "stop" }],
  ["complete", { stopReason: "cancelled" }, { type: "incomplete", reason: "cancelled" }],
  ["complete", { stopReason: "max_tokens" }, { type: "incomplete", reason: "length" }],
  ["complete", { stopReason: "refusal" }, { type: "incomplete", reason: "content-filter" }],
  ["error", { error: "no key" }, { type: "incomplete", reason: "error", error: "no key" }],
  ["error", {}, { type: "incomplete", reason: "error", error: "the run failed" }],
] as const)("a message that is %s %j is %j", (status, change, expected) => {
  expect(toThreadMessages(thread(assistant("a1", { status, ...change })))[0]?.status).toEqual(expected);
});

test("a tool call has a result when, and only when, it no longer runs", () => {
  const part = (call: HarnessToolCall) =>
    toThreadMessages(thread(assistant("a1", { toolCalls: [call] })))[0]?.content[0];
  expect(part(shell({ status: "running", output: "so far" }))).not.toHaveProperty("result");
  expect(part(shell({ output: "all" }))).toMatchObject({ result: "all" });
  expect(part(shell({ output: "" }))).toMatchObject({ result: "complete" });
  expect(part(shell({ status: "error", outcome: "declined" }))).toMatchObject({ result: "declined", isError: true });
});

test("an approval stands at its tool call and makes the message wait", () => {
  const state: HarnessState = {
    ...thread(assistant("a1", { status: "streaming", toolCalls: [shell({ status: "running" })] }), assistant("a2")),
    approvals: [{ id: "q1", toolCallId: "t1", kind: "command", reason: "not trusted", command: "rm x" }],
  };
  const [first, second] = toThreadMessages(state, { group: false });
  expect(first?.content[0]).toMatchObject({ approval: { options: [{ id: "once" }, { id: "reject" }] } });
  expect(first?.status).toEqual({ type: "requires-action", reason: "interrupt" });
  expect(first?.content[0]).toMatchObject({ approval: { id: "q1", prompt: "not trusted" } });
  expect(second?.status).toEqual({ type: "complete", reason: "stop" });
});

test("always is offered where there is something to allow for good", () => {
  const alwaysCovers = { text: "further changes to a.txt, for the rest of this thread", files: ["/w/a.txt"] };
  const state: HarnessState = {
    ...thread(assistant("a1", { status: "streaming", toolCalls: [shell({ status: "running" })] })),
    approvals: [{ id: "q1", toolCallId: "t1", kind: "file", alwaysCovers }],
  };
  const [message] = toThreadMessages(state, { group: false });
  const options = [{ id: "once" }, { id: "always" }, { id: "reject" }];
  expect(message?.content[0]).toMatchObject({ approval: { options } });
});

test("a token changes one message and no other", () => {
  const convert = createConverter();
  const before = thread(
    user("u1", "go"),
    assistant("a1", { content: "x" }),
    user("u2", "on"),
    assistant("a2", { status: "streaming" }),
  );
  const after = applyOperations(before, [{ type: "append-text", path: ["messages", "3", "content"], value: "y" }]);
  const [one, two] = [convert(before), convert(after)];
  expect(two.slice(0, 3).every((message, index) => message === one[index])).toBe(true);
  expect(two[3]).not.toBe(one[3]);
});

test("a change elsewhere in the state changes no message at all", () => {
  const convert = createConverter();
  const before: HarnessState = { ...thread(user("u1", "go"), assistant("a1")), approvals: [] };
  const after = applyOperations(before, [{ type: "set", path: ["status"], value: "idle" }]);
  expect(convert(after)).toBe(convert(before));
});

test("a window shows the last messages under their own names", () => {
  const state = thread(user("u1", "a"), assistant("a1"), user("u2", "b"), assistant("a2"));
  expect(toThreadMessages(state, { last: 3 }).map(({ id }) => id)).toEqual(["a1", "u2", "a2"]);
});

test("pictures of a prompt are attachments", () => {
  const message = {
    ...user("u1", "look"),
    attachments: [{ kind: "image" as const, name: "a.png", url: "/threads/t/images/u1/0" }],
  };
  expect(toThreadMessages(thread(message))[0]).toMatchObject({
    attachments: [{ type: "image", name: "a.png", content: [{ type: "image", image: "/threads/t/images/u1/0" }] }],
  });
});

test("a converted message leads back to its source", () => {
  const source = assistant("a1", { stopReason: "end_turn" });
  expect(harnessMessage(toThreadMessages(thread(source))[0]!)).toBe(source);
});
