/** However much arrives, a page draws once per frame. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { ClientSnapshot } from "../src/client.js";
import { frameStore } from "../src/frames.js";

function source() {
  let snapshot: ClientSnapshot = { connection: { status: "open" }, state: null, rev: 0, pending: [] };
  const listeners = new Set<() => void>();
  return {
    getSnapshot: () => snapshot,
    subscribe: (listener: () => void) => (listeners.add(listener), () => void listeners.delete(listener)),
    change: () => {
      snapshot = { ...snapshot, rev: snapshot.rev + 1 };
      for (const listener of listeners) listener();
    },
    watched: () => listeners.size > 0,
  };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("many changes are one notification, with the last of them", () => {
  const client = source();
  const store = frameStore(client);
  const seen: number[] = [];
  store.subscribe(() => seen.push(store.getSnapshot().rev));
  for (let i = 0; i < 100; i++) client.change();
  expect(seen).toEqual([]);
  vi.runAllTimers();
  expect(seen).toEqual([100]);
});

test("between notifications the snapshot stands still", () => {
  const client = source();
  const store = frameStore(client);
  store.subscribe(() => {});
  client.change();
  expect(store.getSnapshot().rev).toBe(0);
  vi.runAllTimers();
  expect(store.getSnapshot().rev).toBe(1);
});

test("what happened before anyone listened is not missed", () => {
  const client = source();
  const store = frameStore(client);
  client.change();
  const told = vi.fn();
  store.subscribe(told);
  vi.runAllTimers();
  expect(store.getSnapshot().rev).toBe(1);
});

test("the last listener takes the subscription with it", () => {
  const client = source();
  const stop = frameStore(client).subscribe(() => {});
  expect(client.watched()).toBe(true);
  stop();
  expect(client.watched()).toBe(false);
});
