/** The client on a wire that breaks in every way. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HarnessClient } from "../src/client.js";
import type { HarnessMessage, HarnessState, ThreadRow } from "../src/protocol.js";
import { FakeSocket } from "./fake-socket.js";

const message = (id: string, content = "", role: HarnessMessage["role"] = "assistant"): HarnessMessage => ({
  id,
  role,
  content,
  status: "streaming",
  toolCalls: [],
});
const state = (change: Partial<HarnessState> = {}): HarnessState => ({
  status: "idle",
  messages: [],
  queue: [],
  ...change,
});

const errors: string[] = [];

function connected(options: { random?: () => number } = {}): HarnessClient {
  const client = new HarnessClient({
    url: "ws://test/ws?thread=t1",
    WebSocket: FakeSocket as unknown as typeof WebSocket,
    random: () => 1,
    onError: (text) => errors.push(text),
    ...options,
  });
  client.connect();
  return client;
}

beforeEach(() => {
  FakeSocket.made = [];
  errors.length = 0;
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

test("the first snapshot opens the connection", () => {
  const client = connected();
  expect(client.getSnapshot().connection).toEqual({ status: "connecting", attempt: 0 });
  FakeSocket.last.says({ type: "state", state: state(), rev: 7 });
  expect(client.getSnapshot()).toMatchObject({ connection: { status: "open" }, state: state(), rev: 7 });
});

test("deltas are applied in order and told once each", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state({ messages: [message("m1")] }) });
  const told = vi.fn();
  client.subscribe(told);
  FakeSocket.last.says({
    type: "delta",
    operations: [
      { type: "append-text", path: ["messages", "0", "content"], value: "a" },
      { type: "append-text", path: ["messages", "0", "content"], value: "b" },
    ],
  });
  expect(client.getSnapshot().state?.messages[0]?.content).toBe("ab");
  expect(told).toHaveBeenCalledTimes(1);
});

test("a heartbeat changes nothing", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state(), rev: 1 });
  const before = client.getSnapshot();
  FakeSocket.last.says({ type: "delta", operations: [], rev: 1 });
  expect(client.getSnapshot()).toBe(before);
});

test("a snapshot at any time replaces everything", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state({ messages: [message("m1", "old"), message("m2")] }) });
  FakeSocket.last.says({ type: "state", state: state({ messages: [message("m1", "new")] }) });
  expect(client.getSnapshot().state?.messages).toEqual([message("m1", "new")]);
});

test("the snapshot of a new connection replaces everything, and needs no word from the client", () => {
  const client = connected();
  FakeSocket.last.says({
    type: "state",
    state: state({ status: "error", error: "no credit", messages: [message("m1")] }),
  });
  FakeSocket.last.breaks();
  vi.advanceTimersByTime(250);
  const fresh: HarnessState = { status: "idle", messages: [] };
  FakeSocket.last.says({ type: "state", state: fresh });
  expect(client.getSnapshot().state).toStrictEqual(fresh);
  expect(FakeSocket.last.commands()).toEqual([]);
});

test.each([
  [
    "cannot be applied",
    '{"type":"delta","operations":[{"type":"set","path":["status"],"value":"running"},{"type":"set","path":["messages","9"],"value":1}]}',
  ],
  ["is not JSON", "{"],
  ["has no operations", '{"type":"delta"}'],
])("a delta that %s changes nothing, closes with 4000 and asks for a snapshot", (_, frame) => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state({ messages: [message("m1", "kept")] }) });
  const socket = FakeSocket.last;
  socket.says(frame);
  expect(socket.closedWith).toBe(4000);
  expect(client.getSnapshot().state).toEqual(state({ messages: [message("m1", "kept")] }));
  vi.advanceTimersByTime(250);
  FakeSocket.last.says({ type: "state", state: state({ messages: [message("m1", "fresh")] }) });
  expect(client.getSnapshot()).toMatchObject({
    connection: { status: "open" },
    state: { messages: [{ content: "fresh" }] },
  });
});

test("a message of an unknown type is ignored", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state() });
  FakeSocket.last.says('{"type":"weather","sunny":true}');
  expect(client.getSnapshot().connection).toEqual({ status: "open" });
});

test("news of the threads goes to whoever listens, and changes nothing else", () => {
  const client = connected();
  const heard: unknown[] = [];
  const row: ThreadRow = {
    id: "t2",
    title: "Other",
    preview: "",
    cwd: "/",
    model: "m",
    archived: false,
    createdAt: 1,
    updatedAt: 2,
    status: "running",
  };
  const stop = client.onThreads((rows) => heard.push(rows));
  FakeSocket.last.says({ type: "state", state: state(), rev: 1 });
  const before = client.getSnapshot();
  FakeSocket.last.says({ type: "threads", threads: [] });
  FakeSocket.last.says({ type: "threads", threads: [row] });
  stop();
  FakeSocket.last.says({ type: "threads", threads: [] });
  expect(heard).toEqual([[], [row]]);
  expect(client.getSnapshot()).toBe(before);
});

test("frames of a socket that was given up are dropped", () => {
  const client = connected();
  const old = FakeSocket.last;
  old.says({ type: "state", state: state() });
  old.breaks();
  vi.advanceTimersByTime(250);
  FakeSocket.last.says({ type: "state", state: state({ messages: [message("m1", "new")] }) });
  old.says({ type: "state", state: state({ messages: [message("m1", "late")] }) });
  expect(client.getSnapshot().state?.messages[0]?.content).toBe("new");
  old.breaks();
  expect(client.getSnapshot().connection).toEqual({ status: "open" });
});

test("the state stays on the screen while the connection is away", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state({ messages: [message("m1", "here")] }) });
  FakeSocket.last.breaks();
  expect(client.getSnapshot()).toMatchObject({
    connection: { status: "waiting", attempt: 1 },
    state: { messages: [{ content: "here" }] },
  });
});

test("attempts come after 0.25, 0.5, 1, 2, 4, then every 5 seconds", () => {
  connected();
  for (const delay of [250, 500, 1000, 2000, 4000, 5000, 5000]) {
    const before = FakeSocket.made.length;
    FakeSocket.last.breaks();
    vi.advanceTimersByTime(delay - 1);
    expect(FakeSocket.made.length).toBe(before);
    vi.advanceTimersByTime(1);
    expect(FakeSocket.made.length).toBe(before + 1);
  }
});

test("the wait is never less than half of it", () => {
  connected({ random: () => 0 });
  FakeSocket.last.breaks();
  vi.advanceTimersByTime(125);
  expect(FakeSocket.made.length).toBe(2);
});

test("a snapshot starts the counting of attempts again", () => {
  connected();
  for (const delay of [250, 500, 1000]) {
    FakeSocket.last.breaks();
    vi.advanceTimersByTime(delay);
  }
  FakeSocket.last.says({ type: "state", state: state() });
  const before = FakeSocket.made.length;
  FakeSocket.last.breaks();
  vi.advanceTimersByTime(250);
  expect(FakeSocket.made.length).toBe(before + 1);
});

test.each([
  [4401, "unauthorized"],
  [4404, "notFound"],
] as const)("close code %i ends it: %s", (code, reason) => {
  const client = connected();
  FakeSocket.last.breaks(code);
  expect(client.getSnapshot().connection).toEqual({ status: "ended", reason });
  vi.advanceTimersByTime(60_000);
  expect(FakeSocket.made.length).toBe(1);
});

test("45 seconds of silence from a server that promises heartbeats mean a new connection", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state(), rev: 1 });
  vi.advanceTimersByTime(44_000);
  FakeSocket.last.says({ type: "delta", operations: [], rev: 1 });
  vi.advanceTimersByTime(44_000);
  expect(FakeSocket.made.length).toBe(1);
  vi.advanceTimersByTime(1_000);
  expect(FakeSocket.made.length).toBe(2);
  expect(client.getSnapshot().connection.status).toBe("connecting");
});

test("a server that promises no heartbeats may be silent", () => {
  connected();
  FakeSocket.last.says({ type: "state", state: state() });
  vi.advanceTimersByTime(600_000);
  expect(FakeSocket.made.length).toBe(1);
});

test("a connection that never says anything is given up", () => {
  connected();
  vi.advanceTimersByTime(45_000);
  expect(FakeSocket.made.length).toBe(2);
});

test("close is for good", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state() });
  client.close();
  expect(FakeSocket.last.closedWith).toBe(1000);
  FakeSocket.last.breaks(1000);
  vi.advanceTimersByTime(60_000);
  expect(FakeSocket.made.length).toBe(1);
  expect(client.getSnapshot().connection).toEqual({ status: "ended", reason: "closed" });
});

test("commands go out as the specification has them", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state() });
  client.submit("hello", { id: "p1" });
  client.cancel();
  client.approve("a1", "always", "go on");
  client.configure({ model: "x/y" });
  client.dequeue("p2");
  expect(FakeSocket.last.commands()).toEqual([
    { type: "submit", prompt: "hello", id: "p1" },
    { type: "cancel" },
    { type: "approve", id: "a1", decision: "always", note: "go on" },
    { type: "configure", model: "x/y" },
    { type: "dequeue", id: "p2" },
  ]);
});

test("without a connection a command is not pretended to be sent", () => {
  const client = connected();
  expect(client.cancel()).toBe(false);
});

test("a prompt written while offline is sent when the connection is there", () => {
  const client = connected();
  client.submit("hello", { id: "p1" });
  expect(client.getSnapshot().pending).toMatchObject([{ id: "p1", prompt: "hello" }]);
  FakeSocket.last.says({ type: "state", state: state() });
  expect(FakeSocket.last.commands()).toEqual([{ type: "submit", prompt: "hello", id: "p1" }]);
});

test("a prompt the server never got is sent again, once per connection", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state() });
  client.submit("hello", { id: "p1" });
  FakeSocket.last.breaks();
  vi.advanceTimersByTime(250);
  FakeSocket.last.says({ type: "state", state: state() });
  FakeSocket.last.says({ type: "state", state: state() });
  expect(FakeSocket.last.commands()).toEqual([{ type: "submit", prompt: "hello", id: "p1" }]);
});

test.each([
  ["the messages", { messages: [message("p1", "hello", "user")] }],
  ["the queue", { queue: [{ id: "p1", prompt: "hello" }] }],
])("a prompt found in %s after a reconnect is not sent again", (_, change) => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state() });
  client.submit("hello", { id: "p1" });
  FakeSocket.last.breaks();
  vi.advanceTimersByTime(250);
  FakeSocket.last.says({ type: "state", state: state(change) });
  expect(FakeSocket.last.commands()).toEqual([]);
  expect(client.getSnapshot().pending).toEqual([]);
});

test("a prompt that a server without ids may hold unseen is not sent twice", () => {
  const strict: HarnessState = { status: "running", messages: [] };
  const client = connected();
  FakeSocket.last.says({ type: "state", state: strict });
  client.submit("hello", { id: "p1" });
  FakeSocket.last.breaks();
  vi.advanceTimersByTime(250);
  FakeSocket.last.says({ type: "state", state: strict });
  expect(FakeSocket.last.commands()).toEqual([]);
  FakeSocket.last.says({
    type: "delta",
    operations: [
      { type: "set", path: ["messages", "0"], value: { id: "x", role: "user", content: "hello", status: "complete" } },
    ],
  });
  expect(client.getSnapshot().pending).toEqual([]);
});

test("a prompt written while offline is not taken for an older one with the same words", () => {
  const strict: HarnessState = { status: "idle", messages: [message("x", "hello", "user")] };
  const client = connected();
  client.submit("hello", { id: "p1" });
  FakeSocket.last.says({ type: "state", state: strict });
  expect(FakeSocket.last.commands()).toEqual([{ type: "submit", prompt: "hello", id: "p1" }]);
  FakeSocket.last.says({ type: "delta", operations: [{ type: "set", path: ["status"], value: "running" }] });
  expect(client.getSnapshot().pending).toMatchObject([{ id: "p1" }]);
  FakeSocket.last.says({
    type: "delta",
    operations: [{ type: "set", path: ["messages", "1"], value: message("y", "hello", "user") }],
  });
  expect(client.getSnapshot().pending).toEqual([]);
});

test("a refused prompt is given up, and the sender is told", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state() });
  client.submit("hello", { id: "p1" });
  FakeSocket.last.says({ type: "error", message: "32 prompts wait already", submitId: "p1" });
  expect(errors).toEqual(["32 prompts wait already"]);
  expect(client.getSnapshot().pending).toEqual([]);
  expect(client.getSnapshot().state).toEqual(state());
});

test("ids of prompts are words the server accepts, and differ", () => {
  const client = connected();
  const [one, two] = [client.submit("a"), client.submit("a")];
  expect(one).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
  expect(one).not.toBe(two);
});

test("a message to the running turn is shown as pending until the model reads it", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state({ status: "running" }), rev: 1 });
  const id = client.steer("left, not right");
  expect(FakeSocket.last.commands()).toEqual([{ type: "steer", prompt: "left, not right", id }]);
  expect(client.getSnapshot().pending).toEqual([{ id, prompt: "left, not right", attachments: [], steers: true }]);
  FakeSocket.last.says({ type: "state", state: state({ messages: [message(id, "left, not right", "user")] }), rev: 2 });
  expect(client.getSnapshot().pending).toEqual([]);
});

test("a message to the running turn survives a lost connection", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state({ status: "running" }), rev: 1 });
  FakeSocket.last.breaks();
  const id = client.steer("left, not right", [{ type: "image", id: "up_1" }]);
  vi.advanceTimersByTime(10_000);
  FakeSocket.last.says({ type: "state", state: state({ status: "running" }), rev: 1 });
  expect(FakeSocket.last.commands()).toEqual([
    { type: "steer", prompt: "left, not right", id, attachments: [{ type: "image", id: "up_1" }] },
  ]);
});

test("an agent that cannot be steered gets the message as a prompt of its own", () => {
  const client = connected();
  FakeSocket.last.says({ type: "state", state: state({ status: "running" }), rev: 1 });
  const id = client.steer("left, not right");
  FakeSocket.last.says({ type: "error", message: "this agent cannot be steered", submitId: id });
  expect(FakeSocket.last.commands().at(-1)).toEqual({ type: "submit", prompt: "left, not right", id });
  expect(client.getSnapshot().pending).toMatchObject([{ id, steers: false }]);
  expect(errors).toEqual([]);
});

test("a refused prompt comes back to whoever wrote it", () => {
  const client = connected();
  const refused: unknown[] = [];
  client.onError((text, submit) => refused.push([text, submit?.prompt]));
  FakeSocket.last.says({ type: "state", state: state(), rev: 1 });
  const id = client.submit("with a picture that is gone", { attachments: [{ type: "image", id: "up_1" }] });
  FakeSocket.last.says({ type: "error", message: "no upload 'up_1'", submitId: id });
  expect(refused).toEqual([["no upload 'up_1'", "with a picture that is gone"]]);
  expect(client.getSnapshot().pending).toEqual([]);
});
