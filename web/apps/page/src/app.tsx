/** The page: threads on the left, one of them open. */

import type { HarnessState, NewThread, ServerStatus, ThreadRow } from "@hames/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "./api.js";
import { AddDevice } from "./shell/add-device.js";
import { useNotifications, useTitle } from "./shell/attention.js";
import { NARROW, useBackCloses } from "./shell/back.js";
import { Confirm } from "./shell/dialog.js";
import { focusAgain } from "./shell/focus.js";
import { Help } from "./shell/help.js";
import { go, threadUrl, useRoute } from "./shell/route.js";
import { SignIn } from "./shell/sign-in.js";
import { useTheme } from "./shell/theme.js";
import { toast, toastFailure, Toasts } from "./shell/toasts.js";
import { titleOf } from "./text/format.js";
import { whyOnlyLooking } from "./text/people.js";
import { Blank } from "./thread/states.js";
import { ThreadPage } from "./thread/thread-page.js";
import { ThreadSidebar } from "./threads/thread-list.js";
import { type ThreadList, useThreads } from "./threads/use-threads.js";

type OpenThread = Pick<ThreadRow, "id" | "title" | "status">;
/** What is needed to name a thread to a person. */
type ThreadLabel = Pick<ThreadRow, "id" | "title" | "preview">;

export function App() {
  const threadId = useRoute();
  const [search, setSearch] = useState("");
  const [archived, setArchived] = useState(false);
  const [sidebar, setSidebar] = useState(false);
  const [help, setHelp] = useState(false);
  const [addingDevice, setAddingDevice] = useState(false);
  const [deleting, setDeleting] = useState<ThreadLabel | null>(null);
  const [server, setServer] = useState<ServerStatus | null>(null);
  const [open, setOpen] = useState<OpenThread | null>(null);
  const fetched = useThreads(search, archived);
  const { theme, next: nextTheme } = useTheme();
  // What the open thread says of itself is newer than any list.
  const list = useMemo(() => withOpen(fetched, open), [fetched, open]);
  const { refresh, forget } = fetched;
  const notifications = useNotifications(list.threads);
  const rows = useRef(list.threads);
  rows.current = list.threads;

  const waiting = (list.threads ?? []).filter(({ id, status }) => status === "approval" && id !== threadId).length;
  useTitle(open?.id === threadId ? open.title : "", open?.id === threadId ? open.status : null, waiting);

  useEffect(() => {
    if (list.problem !== null || server) return;
    api.status().then(
      (status) => {
        setServer(status);
        if (status.notice) toast(status.notice);
      },
      () => {},
    );
  }, [list.problem, server]);

  const onlyLooking = server ? whyOnlyLooking(server.role ?? "owner") : "";
  const create = useCallback(
    (model?: string) => {
      if (onlyLooking) return toast(onlyLooking);
      // An untouched thread is as good as a new one.
      const unused = model === undefined && rows.current?.find(isUnused);
      setSidebar(false);
      if (unused) return go(unused.id);
      createThread(server, model ? { model } : {}).then(({ id }) => {
        refresh();
        go(id);
      }, toastFailure);
    },
    [refresh, onlyLooking, server],
  );

  // An address without a thread means the newest one; on a new server, a first one.
  const creating = useRef(false);
  useEffect(() => {
    if (threadId !== null || list.threads === null || search || archived) return;
    const newest = list.threads[0];
    if (newest) go(newest.id, { replace: true });
    else if (server && !onlyLooking && !creating.current) {
      creating.current = true;
      createThread(server).then(({ id }) => go(id, { replace: true }), toastFailure);
    }
  }, [threadId, list.threads, search, archived, server, onlyLooking]);

  const openThread = useCallback((id: string) => {
    go(id);
    setSidebar(false);
  }, []);
  const archive = useCallback(
    (thread: ThreadLabel, archived: boolean) => {
      const here = isOpen(thread.id);
      api.archive(thread.id, archived).then(() => {
        refresh();
        if (!archived) return;
        if (here) go(null);
        toast(`Archived “${titleOf(thread)}”`, {
          name: "Undo",
          run: () =>
            void api.archive(thread.id, false).then(() => {
              refresh();
              if (here) go(thread.id);
            }, toastFailure),
        });
      }, toastFailure);
    },
    [refresh],
  );
  const remove = useCallback(
    (thread: ThreadLabel) => {
      setDeleting(null);
      api.remove(thread.id).then(() => {
        forget(thread.id);
        if (isOpen(thread.id)) go(null);
      }, toastFailure);
    },
    [forget],
  );
  const state = useCallback(({ thread, status, approvals }: HarnessState) => {
    if (!thread) return;
    const now = {
      id: thread.id,
      title: titleOf(thread),
      status: approvals?.length ? ("approval" as const) : status,
    };
    setOpen((before) =>
      before && before.id === now.id && before.title === now.title && before.status === now.status ? before : now,
    );
  }, []);
  // Who runs and who waits is news for the list.
  useEffect(() => refresh(), [open, refresh]);

  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const editing = target.matches("input, textarea, [contenteditable]");
      if (event.altKey && event.code === "KeyN") create();
      else if (event.altKey && event.code === "KeyS") document.querySelector<HTMLElement>("[data-search]")?.focus();
      else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown"))
        step(event.key === "ArrowDown" ? 1 : -1);
      else if (!editing && event.key === "/") document.querySelector<HTMLElement>("[data-composer]")?.focus();
      else if (!editing && event.key === "?" && !document.querySelector("dialog[open]")) setHelp(true);
      else return;
      event.preventDefault();
    };
    const step = (by: number) => {
      const at = rows.current?.findIndex(({ id }) => id === threadId) ?? -1;
      const next = rows.current?.[at + by];
      if (at >= 0 && next) go(next.id);
    };
    window.addEventListener("keydown", keys);
    return () => window.removeEventListener("keydown", keys);
  }, [threadId, create]);

  const showHelp = useCallback(() => setHelp(true), []);
  const showSidebar = useCallback(() => setSidebar(true), []);
  const hideSidebar = useCallback(() => setSidebar(false), []);
  useBackCloses(sidebar, hideSidebar);
  useDrawer(sidebar, hideSidebar);

  if (list.problem === "unauthorized") return <SignIn onDone={refresh} />;
  return (
    <div className="page" data-drawer={sidebar || undefined}>
      <nav className="skips" aria-label="Skip links">
        <a className="skip" href="#main">
          Skip to the thread
        </a>
        {open?.id === threadId && (
          <a className="skip" href="#message">
            Skip to the message box
          </a>
        )}
      </nav>
      <aside className="sidebar" aria-label="Threads and settings" data-open={sidebar || undefined}>
        <ThreadSidebar
          list={list}
          current={threadId}
          search={search}
          archived={archived}
          theme={theme}
          notifying={notifications.on}
          version={server ? `v${server.version}` : ""}
          cwd={server?.cwd ?? ""}
          onlyLooking={onlyLooking !== ""}
          onSearch={setSearch}
          onArchived={setArchived}
          onOpen={openThread}
          onNew={create}
          onArchive={archive}
          onDelete={setDeleting}
          onTheme={nextTheme}
          onNotify={notifications.toggle}
          onAddDevice={() => setAddingDevice(true)}
          onHelp={showHelp}
        />
      </aside>
      {sidebar && (
        <button type="button" className="shade" aria-label="Close the thread list" onClick={() => setSidebar(false)} />
      )}
      {threadId !== null ? (
        <ThreadPage
          key={threadId}
          threadId={threadId}
          server={server}
          onSidebar={showSidebar}
          onNewThread={create}
          onTheme={nextTheme}
          onHelp={showHelp}
          onState={state}
          onChanged={refresh}
          onArchive={archive}
          onDelete={setDeleting}
          onAddDevice={() => setAddingDevice(true)}
        />
      ) : (
        <main id="main" tabIndex={-1} className="thread">
          {list.problem === "gone" && list.threads === null ? (
            <Blank icon="alert" title="The server does not answer">
              <p>
                Check that <code>hames serve</code> is running. This page tries again every few seconds.
              </p>
              <button type="button" className="button primary" onClick={refresh}>
                Try again
              </button>
            </Blank>
          ) : onlyLooking && list.threads?.length === 0 ? (
            <Blank icon="search" title="No threads yet">
              <p>{onlyLooking}</p>
            </Blank>
          ) : (
            <div className="loading" aria-busy="true">
              <span className="spinner" aria-hidden="true" />
              <h1 className="offscreen">Loading</h1>
            </div>
          )}
        </main>
      )}
      {addingDevice && <AddDevice possible={server?.canAddDevices ?? true} onClose={() => setAddingDevice(false)} />}
      {deleting && (
        <Confirm
          title="Delete this thread?"
          action="Delete"
          onConfirm={() => remove(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p className="dialog-words">
            “{titleOf(deleting)}” and its whole history are deleted for good. Files in the workspace stay as they are.
          </p>
        </Confirm>
      )}
      {help && <Help onClose={() => setHelp(false)} />}
      <Toasts />
    </div>
  );
}

/** While the thread list lies over the page it has the focus, and the page behind it cannot get it. */
function useDrawer(open: boolean, onClose: () => void): void {
  useEffect(() => {
    if (!open) return;
    const before = document.activeElement;
    const page = document.getElementById("main");
    const sidebar = document.querySelector<HTMLElement>(".sidebar");
    page?.setAttribute("inert", "");
    (sidebar?.querySelector<HTMLElement>("[aria-current]") ?? sidebar?.querySelector("button"))?.focus();
    const wide = matchMedia(NARROW);
    const resized = () => wide.matches || onClose();
    const escape = (event: KeyboardEvent) => event.key === "Escape" && !event.defaultPrevented && onClose();
    wide.addEventListener("change", resized);
    window.addEventListener("keydown", escape);
    return () => {
      wide.removeEventListener("change", resized);
      window.removeEventListener("keydown", escape);
      page?.removeAttribute("inert");
      const focused = document.activeElement;
      if (!focused || focused === document.body || sidebar?.contains(focused)) focusAgain(before);
    };
  }, [open, onClose]);
}

function isOpen(threadId: string): boolean {
  return window.location.pathname === threadUrl(threadId);
}

/** A new thread. Like those of the terminal it works by itself where the sandbox was proved to hold. */
async function createThread(server: ServerStatus | null, more: NewThread = {}): Promise<ThreadRow> {
  const { newThreadPolicy } = server ?? (await api.status());
  return api.create(newThreadPolicy ? { ...more, approvalPolicy: newThreadPolicy } : more);
}

/** Nothing was ever said in it, and nobody gave it a name. */
function isUnused({ title, preview, status }: Pick<ThreadRow, "title" | "preview" | "status">): boolean {
  return (!title || title === "New thread") && !preview && status === "idle";
}

function withOpen(list: ThreadList, open: OpenThread | null): ThreadList {
  if (!open || !list.threads) return list;
  const rows = list.threads.map((row) => (row.id === open.id ? { ...row, ...open } : row));
  // One thread without a word in it is enough: the open one, or else the newest.
  const kept = rows.find(({ id }) => id === open.id) ?? null;
  const unused = rows.filter(isUnused);
  const shown = kept && isUnused(kept) ? kept : unused[0];
  return { ...list, threads: rows.filter((row) => !isUnused(row) || row === shown) };
}
