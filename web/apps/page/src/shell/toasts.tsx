/** Refusals and failures that belong to no thread: shown for a while, read aloud once. */

import { useSyncExternalStore } from "react";
import { Icon } from "./icons.js";

type Toast = { id: number; text: string };

const SHOWN_MS = 7_000;
let toasts: readonly Toast[] = [];
let counter = 0;
const listeners = new Set<() => void>();

export function toast(text: string): void {
  const id = ++counter;
  publish([...toasts.filter((there) => there.text !== text).slice(-3), { id, text }]);
  setTimeout(() => dismiss(id), SHOWN_MS);
}

/** For promises whose failure is worth a word and nothing else. */
export function toastFailure(failure: unknown): void {
  toast(failure instanceof Error ? failure.message : String(failure));
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    () => toasts,
  );
  return (
    <div className="toasts" role="alert">
      {shown.map(({ id, text }) => (
        <div key={id} className="toast">
          <Icon name="alert" />
          <span>{text}</span>
          <button type="button" className="icon-button small" aria-label="Dismiss" onClick={() => dismiss(id)}>
            <Icon name="close" size={14} />
          </button>
        </div>
      ))}
    </div>
  );
}

function dismiss(id: number): void {
  publish(toasts.filter((there) => there.id !== id));
}

function publish(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}
