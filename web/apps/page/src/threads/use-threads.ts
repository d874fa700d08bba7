/** The thread list, asked for every few seconds while somebody looks, and rarely while nobody does. */

import { RequestFailed, type ThreadRow } from "@hames/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "../api.js";
import { toastFailure } from "../shell/toasts.js";

const VISIBLE_MS = 3_000;
const HIDDEN_MS = 15_000;
const PAGE = 50;

export type ThreadList = {
  threads: readonly ThreadRow[] | null;
  /** Why there is no list: `gone` the server does not answer, `unauthorized` it does not know us. */
  problem: "gone" | "unauthorized" | null;
  more: (() => void) | null;
  refresh: () => void;
};

/** Older pages, as they were when somebody asked for them; only the first page is kept fresh. */
type Older = { threads: readonly ThreadRow[]; cursor: string | null };

export function useThreads(search: string, archived: boolean): ThreadList {
  const [first, setFirst] = useState<Older | null>(null);
  const [older, setOlder] = useState<Older | null>(null);
  const [problem, setProblem] = useState<ThreadList["problem"]>(null);
  const ask = useRef(() => {});

  useEffect(() => {
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    setOlder(null);
    const load = async () => {
      clearTimeout(timer);
      try {
        const { threads, nextCursor } = await api.threads({ search, archived, limit: PAGE });
        if (gone) return;
        setFirst((now) => (now?.threads === threads ? now : { threads, cursor: nextCursor }));
        setProblem(null);
      } catch (failure) {
        if (gone) return;
        setProblem(failure instanceof RequestFailed && failure.status === 401 ? "unauthorized" : "gone");
      }
      timer = setTimeout(() => void load(), document.visibilityState === "visible" ? VISIBLE_MS : HIDDEN_MS);
    };
    ask.current = () => void load();
    const begin = setTimeout(() => void load(), search ? 150 : 0);
    const visible = () => document.visibilityState === "visible" && void load();
    document.addEventListener("visibilitychange", visible);
    return () => {
      gone = true;
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
  const threads = useMemo(() => first && joined(first.threads, older?.threads ?? []), [first, older]);
  return useMemo(
    () => ({ threads, problem, more: cursor === null ? null : more, refresh }),
    [threads, problem, cursor, more, refresh],
  );
}

/** A thread that moved to the first page is not shown twice. */
function joined(first: readonly ThreadRow[], older: readonly ThreadRow[]): readonly ThreadRow[] {
  if (older.length === 0) return first;
  const known = new Set(first.map(({ id }) => id));
  return [...first, ...older.filter(({ id }) => !known.has(id))];
}
