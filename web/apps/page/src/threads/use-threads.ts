/**
 * The thread list. The server tells what changes; one that does not is asked every few seconds while somebody looks, and rarely while
 * nobody does.
 */

import { RequestFailed, type ThreadRow } from "@hames/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "../api.js";
import { toastFailure } from "../shell/toasts.js";
import { onNews, told } from "./news.js";

const VISIBLE_MS = 3_000;
const HIDDEN_MS = 15_000;
/** What is told is believed, and checked now and then. */
const TOLD_MS = 60_000;
/** One prompt makes several pieces of news. */
const NEWS_MS = 60;
/** The server reads logs for a moment and answers with what it has. */
const PARTIAL_MS = 300;
const PAGE = 50;

export type ThreadList = {
  threads: readonly ThreadRow[] | null;
  /** Why there is no list: `gone` the server does not answer, `unauthorized` it does not know us. */
  problem: "gone" | "unauthorized" | null;
  more: (() => void) | null;
  /** A search that has not looked into every thread yet. */
  searching: boolean;
  refresh: () => void;
  /** A thread that was deleted: nothing shows it from now on. */
  forget: (threadId: string) => void;
};

/** Older pages, as they were when somebody asked for them; only the first page is kept fresh. */
type Older = { threads: readonly ThreadRow[]; cursor: string | null; partial?: boolean };

export function useThreads(search: string, archived: boolean): ThreadList {
  const [first, setFirst] = useState<Older | null>(null);
  const [older, setOlder] = useState<Older | null>(null);
  const [problem, setProblem] = useState<ThreadList["problem"]>(null);
  const ask = useRef(() => {});

  useEffect(() => {
    let gone = false;
    let asked = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    setOlder(null);
    const later = (ms: number) => {
      clearTimeout(timer);
      timer = setTimeout(() => void load(), ms);
    };
    const load = async () => {
      clearTimeout(timer);
      const mine = ++asked;
      try {
        const { threads, nextCursor, partial = false } = await api.threads({ search, archived, limit: PAGE });
        if (gone || mine !== asked) return;
        setFirst((now) => (now?.threads === threads ? now : { threads, cursor: nextCursor, partial }));
        setProblem(null);
        if (partial) return later(PARTIAL_MS);
      } catch (failure) {
        if (gone || mine !== asked) return;
        setProblem(failure instanceof RequestFailed && failure.status === 401 ? "unauthorized" : "gone");
      }
      later(patience());
    };
    ask.current = () => void load();
    const stop = onNews((rows) => {
      // A dot changes now; who is new, or gone, or first, the server knows.
      if (rows.length > 0) {
        setFirst((now) => now && { ...now, threads: withNews(now.threads, rows, archived) });
        setOlder((now) => now && { ...now, threads: withNews(now.threads, rows, archived) });
      }
      asked += 1; // An answer that is under way is older than this.
      later(NEWS_MS);
    });
    const begin = setTimeout(() => void load(), search ? 150 : 0);
    const visible = () => document.visibilityState === "visible" && void load();
    document.addEventListener("visibilitychange", visible);
    return () => {
      gone = true;
      stop();
      clearTimeout(timer);
      clearTimeout(begin);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [search, archived]);

  const cursor = older ? older.cursor : (first?.cursor ?? null);
  const more = useCallback(() => {
    if (cursor === null) return;
    api
      .threads({ search, archived, limit: PAGE, cursor })
      .then(
        ({ threads, nextCursor }) =>
          setOlder((now) => ({ threads: [...(now?.threads ?? []), ...threads], cursor: nextCursor })),
        toastFailure,
      );
  }, [search, archived, cursor]);
  const refresh = useCallback(() => ask.current(), []);
  const forget = useCallback((threadId: string) => {
    const without = (now: Older | null) => now && { ...now, threads: now.threads.filter(({ id }) => id !== threadId) };
    setFirst(without);
    setOlder(without);
    ask.current();
  }, []);
  const threads = useMemo(() => first && joined(first.threads, older?.threads ?? []), [first, older]);
  return useMemo(
    () => ({
      threads,
      problem,
      more: cursor === null ? null : more,
      searching: first?.partial ?? false,
      refresh,
      forget,
    }),
    [threads, problem, cursor, more, first?.partial, refresh, forget],
  );
}

function patience(): number {
  if (told()) return TOLD_MS;
  return document.visibilityState === "visible" ? VISIBLE_MS : HIDDEN_MS;
}

/** The rows with what was told of them. One that no longer belongs here goes. */
export function withNews(
  rows: readonly ThreadRow[],
  news: readonly ThreadRow[],
  archived: boolean,
): readonly ThreadRow[] {
  const changed = new Map(news.map((row) => [row.id, row]));
  if (!rows.some(({ id }) => changed.has(id))) return rows;
  return rows.map((row) => changed.get(row.id) ?? row).filter((row) => row.archived === archived);
}

/** A thread that moved to the first page is not shown twice. */
function joined(first: readonly ThreadRow[], older: readonly ThreadRow[]): readonly ThreadRow[] {
  if (older.length === 0) return first;
  const known = new Set(first.map(({ id }) => id));
  return [...first, ...older.filter(({ id }) => !known.has(id))];
}
