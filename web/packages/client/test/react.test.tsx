// @vitest-environment happy-dom
/** The runtime under assistant-ui's own primitives: what the server says is on the page, what people do reaches the client. */

import {
  AssistantRuntimeProvider,
  MessagePrimitive,
  ThreadPrimitive,
  type ToolCallMessagePartProps,
  useAui,
} from "@assistant-ui/react";
import { act, createElement } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HarnessClient } from "../src/client.js";
import type { HarnessState } from "../src/protocol.js";
import { useHarness, useHarnessRuntime } from "../src/react.js";
import { FakeSocket } from "./fake-socket.js";

const STATE: HarnessState = {
  status: "running",
  queue: [],
  messages: [
    { id: "u1", role: "user", content: "go", status: "complete" },
    {
      id: "a1",
      role: "assistant",
      content: "Let me see.",
      status: "streaming",
      toolCalls: [{ id: "t1", name: "shell", status: "running", title: "ls" }],
    },
  ],
  approvals: [{ id: "q1", toolCallId: "t1", kind: "command", command: "ls", alwaysCovers: { text: "this command" } }],
};

function Tool({ toolName, result, approval, respondToApproval }: ToolCallMessagePartProps) {
  return (
    <div>
      {toolName} {result === undefined ? "runs" : `gave ${String(result)}`}
      {approval && <button onClick={() => respondToApproval({ optionId: "always" })}>always</button>}
    </div>
  );
}

const components = { Text: ({ text }: { text: string }) => <p>{text}</p>, tools: { Override: Tool } };
const Message = () => (
  <MessagePrimitive.Root>
    <MessagePrimitive.Parts components={components} />
  </MessagePrimitive.Root>
);

function Buttons() {
  const aui = useAui();
  return (
    <>
      <button onClick={() => aui.thread().append("more")}>more</button>
      <button onClick={() => aui.thread().cancelRun()}>stop</button>
    </>
  );
}

function Thread({ client }: { client: HarnessClient }) {
  const { state } = useHarness(client);
  const runtime = useHarnessRuntime(state, client);
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Messages components={{ Message }} />
      <Buttons />
    </AssistantRuntimeProvider>
  );
}

let client: HarnessClient;
let host: HTMLElement;
let unmount: () => void;

const frame = () => act(async () => void (await new Promise((resolve) => setTimeout(resolve, 40))));
const press = async (name: string) => {
  const button = [...host.querySelectorAll("button")].find(({ textContent }) => textContent === name);
  await act(async () => button!.click());
};

beforeEach(async () => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  FakeSocket.made = [];
  client = new HarnessClient({ url: "ws://test/", WebSocket: FakeSocket as unknown as typeof WebSocket });
  client.connect();
  host = document.createElement("div");
  const root = createRoot(host);
  unmount = () => root.unmount();
  await act(async () => root.render(createElement(Thread, { client })));
  FakeSocket.last.says({ type: "state", state: STATE });
  await frame();
});

afterEach(async () => {
  await act(async () => unmount());
  client.close();
  vi.unstubAllGlobals();
});

test("messages and tools are there, in order", () => {
  expect(host.textContent).toBe("goLet me see.shell runsalwaysmorestop");
});

test("text that streams in is drawn", async () => {
  FakeSocket.last.says({
    type: "delta",
    operations: [{ type: "append-text", path: ["messages", "1", "content"], value: " Yes." }],
  });
  await frame();
  expect(host.textContent).toContain("Let me see. Yes.");
});

test("an answer to an approval reaches the server", async () => {
  await press("always");
  expect(FakeSocket.last.commands()).toEqual([{ type: "approve", id: "q1", decision: "always" }]);
});

test("a message and a stop reach the server", async () => {
  await press("more");
  await press("stop");
  expect(FakeSocket.last.commands()).toMatchObject([{ type: "submit", prompt: "more" }, { type: "cancel" }]);
});
