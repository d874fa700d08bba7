/** The page: threads on the left, one of them open. */

import type { HarnessState, ServerStatus, ThreadRow } from "@hames/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "./api.js";
import type { SlashCommand } from "./composer/commands.js";
import { useNotifications, useTitle } from "./shell/attention.js";
import { Help } from "./shell/help.js";
import { go, useRoute } from "./shell/route.js";
import { useTheme } from "./shell/theme.js";
import { toastFailure, Toasts } from "./shell/toasts.js";
import { Blank } from "./thread/states.js";
import { ThreadPage } from "./thread/thread-page.js";
import { ThreadSidebar } from "./threads/thread-list.js";
import { type ThreadList, useThreads } from "./threads/use-threads.js";

type OpenThread = Pick<ThreadRow, "id" | "title" | "status">;

export function App() {
  const threadId = useRoute();
  const [search, setSearch] = useState("");
  const [archived, setArchived] = useState(false);
  const [sidebar, setSidebar] = useState(false);
  const [help, setHelp] = useState<readonly SlashCommand[] | null>(null);
  const [server, setServer] = useState<ServerStatus | null>(null);
  const [open, setOpen] = useState<OpenThread | null>(null);
  const fetched = useThreads(search, archived);
  const { theme, next: nextTheme } = useTheme();
  // What the open thread says of itself is newer than any list.
  const list = useMemo(() => withOpen(fetched, open), [fetched, open]);
  const { refresh } = fetched;
  const notifications = useNotifications(list.threads);
  const rows = useRef(list.threads);
  rows.current = list.threads;

  const waiting = (list.threads ?? []).filter(({ id, status }) => status === "approval" && id !== threadId).length;
  useTitle(open?.id === threadId ? open.title : "", open?.id === threadId ? open.status : null, waiting);

  useEffect(() => {
    if (list.problem !== null || server) return;
    api.status().then(setServer, () => {});
  }, [list.problem, server]);

  const create = useCallback(
    (model?: string) => {
      // An untouched thread is as good as a new one.
      const unused =
        model === undefined &&
        rows.current?.find(({ title, preview, status }) => !title && !preview && status === "idle");
      if (unused) return go(unused.id);
      api.create(model ? { model } : {}).then(({ id }) => {
        refresh();
        go(id);
      }, toastFailure);
      setSidebar(false);
    },
    [refresh],
  );

  // An address without a thread means the newest one; on a new server, a first one.
  const creating = useRef(false);
  useEffect(() => {
    if (threadId !== null || list.threads === null || search || archived) return;
    const newest = list.threads[0];
    if (newest) go(newest.id, { replace: true });
    else if (!creating.current) {
      creating.current = true;
      api.create().then(({ id }) => go(id, { replace: true }), toastFailure);
    }
  }, [threadId, list.threads, search, archived]);

  const openThread = useCallback((id: string) => {
    go(id);
    setSidebar(false);
  }, []);
  const archive = useCallback(
    (thread: ThreadRow) => {
      api.archive(thread.id, !thread.archived).then(() => {
        refresh();
        if (!thread.archived && window.location.pathname.endsWith(thread.id)) go(null);
      }, toastFailure);
    },
    [refresh],
  );
  const state = useCallback(({ thread, status, approvals }: HarnessState) => {
    if (!thread) return;
    const now = {
      id: thread.id,
      title: thread.title || thread.preview,
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
      else if (event.altKey && (event.key === "ArrowUp" || event.key === "ArrowDown"))
        step(event.key === "ArrowDown" ? 1 : -1);
      else if (!editing && event.key === "/") document.querySelector<HTMLElement>("[data-composer]")?.focus();
      else if (!editing && event.key === "?") setHelp([]);
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

  const showHelp = useCallback((commands: readonly SlashCommand[]) => setHelp(commands), []);
  const showSidebar = useCallback(() => setSidebar(true), []);

  if (list.problem === "unauthorized") {
    return (
      <Blank icon="shield" title="This page does not know you">
        <p>
          Open the address that <code>hames serve</code> printed: it carries a token that signs this browser in.
        </p>
      </Blank>
    );
  }
  return (
    <div className="page">
      <a
        className="skip"
        href="#message"
        onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>("[data-composer]")?.focus())}
      >
        To the message
      </a>
      <div
        className="sidebar"
        data-open={sidebar || undefined}
        onKeyDown={(event) => event.key === "Escape" && setSidebar(false)}
      >
        <ThreadSidebar
          list={list}
          current={threadId}
          search={search}
          archived={archived}
          theme={theme}
          notifying={notifications.on}
          version={server ? `v${server.version}` : ""}
          onSearch={setSearch}
          onArchived={setArchived}
          onOpen={openThread}
          onNew={create}
          onArchive={archive}
          onTheme={nextTheme}
          onNotify={notifications.toggle}
          onHelp={() => setHelp([])}
        />
      </div>
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
        />
      ) : (
        <main className="thread">
          {list.problem === "gone" && list.threads === null ? (
            <Blank icon="alert" title="The server does not answer">
              <p>
                Is <code>hames serve</code> still running? This page tries again by itself.
              </p>
            </Blank>
          ) : (
            <div className="loading" aria-busy="true">
              <span className="spinner" aria-hidden="true" />
            </div>
          )}
        </main>
      )}
      {help && <Help commands={help} onClose={() => setHelp(null)} />}
      <Toasts />
    </div>
  );
}

function withOpen(list: ThreadList, open: OpenThread | null): ThreadList {
  if (!open || !list.threads) return list;
  return { ...list, threads: list.threads.map((row) => (row.id === open.id ? { ...row, ...open } : row)) };
}
