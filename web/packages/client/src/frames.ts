/**
 * At most one notification per frame, however many deltas arrive.
 *
 * What changes the shape of a page (a connection lost, a run that ends, an approval) is worth a frame like anything else: there is no
 * second, faster way through, so what is on the screen is always one whole snapshot.
 */

import type { ClientSnapshot, HarnessClient } from "./client.js";

/** A thread of this many messages is laid out more slowly than it is painted. */
const LONG_THREAD = 200;
const LONG_THREAD_INTERVAL_MS = 33;

/** Frames stop in a hidden tab, and its title must not. */
const HIDDEN_INTERVAL_MS = 250;

export type FrameStore = {
  getSnapshot: () => ClientSnapshot;
  subscribe: (listener: () => void) => () => void;
};

type Source = Pick<HarnessClient, "getSnapshot" | "subscribe">;

export function frameStore(source: Source): FrameStore {
  let shown = source.getSnapshot();
  let cancel: (() => void) | null = null;
  let stop: (() => void) | null = null;
  let shownAt = 0;
  const listeners = new Set<() => void>();

  const show = () => {
    cancel = null;
    const next = source.getSnapshot();
    if (next === shown) return;
    shown = next;
    shownAt = performance.now();
    for (const listener of listeners) listener();
  };
  const tick = () => {
    const long = (source.getSnapshot().state?.messages.length ?? 0) > LONG_THREAD;
    // Half a frame of slack, or every second frame would be missed by a hair.
    if (long && performance.now() - shownAt < LONG_THREAD_INTERVAL_MS - 8) cancel = nextFrame(tick);
    else show();
  };
  const changed = () => {
    cancel ??= nextFrame(tick);
  };

  return {
    getSnapshot: () => (listeners.size > 0 ? shown : (shown = source.getSnapshot())),
    subscribe: (listener) => {
      if (listeners.size === 0) {
        stop = source.subscribe(changed);
        if (source.getSnapshot() !== shown) changed();
      }
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        stop?.();
        cancel?.();
        stop = cancel = null;
      };
    },
  };
}

function nextFrame(callback: () => void): () => void {
  if (typeof requestAnimationFrame === "undefined" || document.visibilityState === "hidden") {
    const timer = setTimeout(callback, HIDDEN_INTERVAL_MS);
    return () => clearTimeout(timer);
  }
  // A tab may be hidden between asking for the frame and getting it.
  const frame = requestAnimationFrame(() => (clearTimeout(timer), callback()));
  const timer = setTimeout(() => (cancelAnimationFrame(frame), callback()), HIDDEN_INTERVAL_MS);
  return () => (cancelAnimationFrame(frame), clearTimeout(timer));
}
