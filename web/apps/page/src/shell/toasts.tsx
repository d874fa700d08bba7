/** Short messages that belong to no thread: failures, and what just happened with a way to undo it. Read aloud once. */

import { useSyncExternalStore } from "react";
import { sentence } from "../text/format.js";
import { Icon } from "./icons.js";

type Action = { name: string; run: () => void };
type Toast = { id: number; text: string; done: boolean; action: Action | null };

const SHOWN_MS = 7_000;
/** Time to read it, to see the button, and to reach it. */
const ACTION_SHOWN_MS = 12_000;
let toasts: readonly Toast[] = [];
let counter = 0;
const listeners = new Set<() => void>();

/** What somebody should know, or (`done`, or with a way back) what has just worked: that must not look like a failure. */
export function toast(text: string, action: Action | null = null, done = action !== null): void {
  const id = ++counter;
  publish([...toasts.filter((there) => there.text !== text).slice(-3), { id, text, done, action }]);
  setTimeout(() => dismiss(id), action ? ACTION_SHOWN_MS : SHOWN_MS);
}

export function toastDone(text: string): void {
  toast(text, null, true);
}

/** For promises whose failure is worth a message and nothing else. */
export function toastFailure(failure: unknown): void {
  toast(sentence(failure instanceof Error ? failure.message : String(failure)));
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    () => toasts,
  );
  return (
    <aside className="toasts" aria-label="Messages">
      <div role="alert">
        {shown.map(({ id, text, done, action }) => (
          <div key={id} className="toast" data-kind={done ? "done" : "failure"}>
            <Icon name={done ? "check" : "alert"} />
            <span>{text}</span>
            {action && (
              <button
                type="button"
                className="button"
                onClick={() => {
                  dismiss(id);
                  action.run();
                }}
              >
                {action.name}
              </button>
            )}
            <button type="button" className="icon-button small" aria-label="Dismiss" onClick={() => dismiss(id)}>
              <Icon name="close" size={14} />
            </button>
          </div>
        ))}
      </div>
    </aside>
  );
}

function dismiss(id: number): void {
  publish(toasts.filter((there) => there.id !== id));
}

function publish(next: readonly Toast[]): void {
  toasts = next;
  for (const listener of listeners) listener();
}
