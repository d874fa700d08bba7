/** Telling somebody who looks elsewhere: the title of the tab, and a notification when they asked for one. */

import type { ThreadRow } from "@hames/client";
import { useCallback, useEffect, useRef, useState } from "react";
import { serverUrl } from "../base.js";
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
    if (on) register();
  }, [on]);
  useEffect(() => {
    if (threads === null) return;
    const known = before.current;
    before.current = new Map(threads.map(({ id, status }) => [id, status]));
    if (!on || known === null || !document.hidden) return;
    for (const thread of threads) {
      const words = news(known.get(thread.id), thread.status);
      if (words) void notify(thread, words);
    }
  }, [threads, on]);
  useEffect(() => {
    const worker = navigator.serviceWorker;
    if (!worker) return;
    const open = ({ data }: MessageEvent) => {
      if (typeof data?.openThread === "string") go(data.openThread);
    };
    worker.addEventListener("message", open);
    return () => worker.removeEventListener("message", open);
  }, []);

  const toggle = useCallback(async () => {
    if (!supported) return toast("This browser offers no notifications here. Most need https:// or localhost.");
    const allowed = on ? false : (await Notification.requestPermission()) === "granted";
    if (!on && !allowed)
      toast(
        "Notifications are blocked for this page. Allow them in the browser: the icon left of the address, then Notifications.",
      );
    remember("notify", allowed ? "on" : "");
    setOn(allowed);
  }, [on, supported]);

  return { on, toggle: () => void toggle() };
}

function news(before: Status | undefined, now: Status): string {
  if (before === undefined || before === now) return "";
  if (now === "approval") return "Waiting for your approval";
  if (now === "error") return "Failed";
  return now === "idle" ? "Finished" : "";
}

/** Phones show notifications only through a service worker: there `new Notification` throws. */
let registration: Promise<ServiceWorkerRegistration | null> | undefined;

function register(): Promise<ServiceWorkerRegistration | null> {
  registration ??= (async () => {
    if (!navigator.serviceWorker) return null;
    try {
      await navigator.serviceWorker.register(serverUrl("/notify.js"));
      return await navigator.serviceWorker.ready;
    } catch {
      return null;
    }
  })();
  return registration;
}

/** A notification is a courtesy: whatever a browser does instead of showing it, the page goes on. */
async function notify(thread: ThreadRow, words: string): Promise<void> {
  const title = thread.title || thread.preview.slice(0, 80) || "Hames";
  const options = { body: words, tag: thread.id, icon: serverUrl("/icon.svg"), data: { threadId: thread.id } };
  try {
    const worker = await register();
    if (worker) return await worker.showNotification(title, options);
  } catch {
    // Refused after all: the constructor may still work.
  }
  try {
    const notification = new Notification(title, options);
    notification.onclick = () => {
      window.focus();
      go(thread.id);
      notification.close();
    };
  } catch {
    toast("This browser could not show a notification.");
  }
}
