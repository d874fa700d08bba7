/** What a subscriber may do while it is being called: close, connect again, throw. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { HarnessClient } from "../src/client.js";
import type { HarnessState } from "../src/protocol.js";
import { FakeSocket } from "./fake-socket.js";

const STATE: HarnessState = { status: "idle", messages: [], queue: [] };

function client(): HarnessClient {
  return new HarnessClient({
    url: "ws://test/ws?thread=t1",
    WebSocket: FakeSocket as unknown as typeof WebSocket,
    random: () => 1,
  });
}

beforeEach(() => {
  FakeSocket.made = [];
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

test("close() inside a subscriber ends the client, and every subscriber hears of it once", () => {
  const followed = client();
  const heard: string[] = [];
  followed.subscribe(() => {
    heard.push(followed.getSnapshot().connection.status);
    if (followed.getSnapshot().state) followed.close();
  });
  followed.connect();
  FakeSocket.last.says({ type: "state", state: STATE, rev: 1 });
  expect(heard).toEqual(["connecting", "open", "ended"]);
  expect(FakeSocket.last.closedWith).toBe(1000);
});

test("close() twice, or before connect(), is harmless", () => {
  const followed = client();
  const heard = vi.fn();
  followed.subscribe(heard);
  followed.close();
  followed.close();
  expect(heard).toHaveBeenCalledTimes(1);
  expect(FakeSocket.made).toHaveLength(0);
});

test.each(["connecting", "waiting"] as const)("close() while %s leaves no socket and no timer behind", (status) => {
  const followed = client();
  followed.subscribe(() => followed.getSnapshot().connection.status === status && followed.close());
  followed.connect();
  if (status === "waiting") FakeSocket.last.breaks();
  const made = FakeSocket.made.length;
  vi.advanceTimersByTime(120_000);
  expect(FakeSocket.made).toHaveLength(made);
  expect(FakeSocket.made.every(({ closedWith }) => closedWith !== null) || status === "waiting").toBe(true);
  expect(followed.getSnapshot().connection).toEqual({ status: "ended", reason: "closed" });
  expect(vi.getTimerCount()).toBe(0);
});

test("a client that was closed can connect again", () => {
  const followed = client();
  followed.connect();
  followed.close();
  followed.connect();
  FakeSocket.last.says({ type: "state", state: STATE, rev: 1 });
  expect(followed.getSnapshot().connection.status).toBe("open");
});

test("close() and connect() inside a subscriber lead to one open socket", () => {
  const followed = client();
  let again = true;
  followed.subscribe(() => {
    if (!again || !followed.getSnapshot().state) return;
    again = false;
    followed.close();
    followed.connect();
  });
  followed.connect();
  FakeSocket.last.says({ type: "state", state: STATE, rev: 1 });
  FakeSocket.last.says({ type: "state", state: STATE, rev: 1 });
  expect(FakeSocket.made.map(({ closedWith }) => closedWith)).toEqual([1000, null]);
  expect(followed.getSnapshot().connection.status).toBe("open");
});

test("a subscriber that throws keeps no other from hearing and breaks no connection", () => {
  const followed = client();
  const reported: unknown[] = [];
  vi.stubGlobal("reportError", (error: unknown) => void reported.push(error));
  const heard = vi.fn();
  followed.subscribe(() => {
    throw new Error("a bug of the program around the client");
  });
  followed.subscribe(heard);
  followed.connect();
  FakeSocket.last.says({ type: "state", state: STATE, rev: 1 });
  expect(heard).toHaveBeenCalledTimes(2);
  expect(followed.getSnapshot().connection.status).toBe("open");
  expect(FakeSocket.made).toHaveLength(1);
  expect(reported).toHaveLength(2);
  vi.unstubAllGlobals();
});
