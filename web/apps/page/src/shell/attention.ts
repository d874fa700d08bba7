/** Telling somebody who looks elsewhere: the title of the tab, and a notification when they asked for one. */

import type { ThreadRow } from "@hames/client";
import { useCallback, useEffect, useRef, useState } from "react";
import { go } from "./route.js";
import { remember, remembered } from "./storage.js";
import { toast } from "./toasts.js";

type Status = ThreadRow["status"];

/** `● title` while it works, `(!) title` when somebody is needed, here or in another thread. */
export function useTitle(title: string, status: Status | null, others: number): void {
  useEffect(() => {
    const sign =
      status === "approval" || others > 0 ? "(!) " : status === "running" ? "● " : status === "error" ? "× " : "";
    document.title = `${sign}${title ? `${title} · ` : ""}Hames`;
  }, [title, status, others]);
}

export function useNotifications(threads: readonly ThreadRow[] | null): { on: boolean; toggle: () => void } {
  const supported = typeof Notification !== "undefined";
  const [on, setOn] = useState(
    () => supported && Notification.permission === "granted" && remembered("notify") === "on",
  );
  const before = useRef<ReadonlyMap<string, Status> | null>(null);

  useEffect(() => {
    if (threads === null) return;
    const known = before.current;
    before.current = new Map(threads.map(({ id, status }) => [id, status]));
    if (!on || known === null || !document.hidden) return;
    for (const thread of threads) {
      const words = news(known.get(thread.id), thread.status);
      if (words) notify(thread, words);
    }
  }, [threads, on]);

  const toggle = useCallback(async () => {
    if (!supported) return toast("this browser has no notifications");
    const allowed = on ? false : (await Notification.requestPermission()) === "granted";
    if (!on && !allowed) toast("the browser does not allow notifications for this page");
    remember("notify", allowed ? "on" : "");
    setOn(allowed);
  }, [on, supported]);

  return { on, toggle: () => void toggle() };
}

function news(before: Status | undefined, now: Status): string {
  if (before === undefined || before === now) return "";
  if (now === "approval") return "waits for your answer";
  if (now === "error") return "failed";
  return now === "idle" ? "has finished" : "";
}

function notify(thread: ThreadRow, words: string): void {
  const notification = new Notification(thread.title || "Hames", { body: words, tag: thread.id, icon: "/icon.svg" });
  notification.onclick = () => {
    window.focus();
    go(thread.id);
    notification.close();
  };
}
