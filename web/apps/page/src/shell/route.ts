/** A URL per thread: `/t/ID`, and `/` for none, both below `BASE`. */

import { useSyncExternalStore } from "react";
import { BASE } from "../base.js";
import { isOverlayEntry } from "./back.js";

const listeners = new Set<() => void>();

export function threadUrl(threadId: string | null): string {
  return threadId === null ? BASE : `${BASE}t/${encodeURIComponent(threadId)}`;
}

export function go(threadId: string | null, { replace = false } = {}): void {
  const url = threadUrl(threadId);
  if (url === window.location.pathname) return;
  if (replace || isOverlayEntry(window.history.state)) window.history.replaceState(null, "", url);
  else window.history.pushState(null, "", url);
  for (const listener of listeners) listener();
}

/** The thread the address names. */
export function useRoute(): string | null {
  return useSyncExternalStore(subscribe, current);
}

function current(): string | null {
  const { pathname } = window.location;
  const match = pathname.startsWith(BASE) ? /^t\/([^/]+)$/.exec(pathname.slice(BASE.length)) : null;
  try {
    return match ? decodeURIComponent(match[1]!) : null;
  } catch {
    return null;
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener("popstate", listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener("popstate", listener);
  };
}
