/** The thread list, asked for every few seconds while somebody looks, and rarely while nobody does. */

import { RequestFailed, type ThreadRow } from "@hames/client";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api } from "../api.js";

const VISIBLE_MS = 3_000;
const HIDDEN_MS = 15_000;

export type ThreadList = {
  threads: readonly ThreadRow[] | null;
  /** Why there is no list: `gone` the server does not answer, `unauthorized` it does not know us. */
  problem: "gone" | "unauthorized" | null;
  more: (() => void) | null;
  refresh: () => void;
};

export function useThreads(search: string, archived: boolean): ThreadList {
  const [threads, setThreads] = useState<readonly ThreadRow[] | null>(null);
  const [problem, setProblem] = useState<ThreadList["problem"]>(null);
  const [limit, setLimit] = useState(50);
  const [hasMore, setHasMore] = useState(false);
  const ask = useRef(() => {});

  useEffect(() => {
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const load = async () => {
      clearTimeout(timer);
      try {
        const page = await api.threads({ search, archived, limit });
        if (gone) return;
        setThreads(page.threads);
        setHasMore(page.nextCursor !== null);
        setProblem(null);
      } catch (failure) {
        if (gone) return;
        setProblem(failure instanceof RequestFailed && failure.status === 401 ? "unauthorized" : "gone");
      }
      timer = setTimeout(() => void load(), document.visibilityState === "visible" ? VISIBLE_MS : HIDDEN_MS);
    };
    ask.current = () => void load();
    const first = setTimeout(() => void load(), search ? 150 : 0);
    const visible = () => document.visibilityState === "visible" && void load();
    document.addEventListener("visibilitychange", visible);
    return () => {
      gone = true;
      clearTimeout(timer);
      clearTimeout(first);
      document.removeEventListener("visibilitychange", visible);
    };
  }, [search, archived, limit]);

  const refresh = useCallback(() => ask.current(), []);
  const more = useCallback(() => setLimit((now) => now + 50), []);
  return useMemo(
    () => ({ threads, problem, more: hasMore ? more : null, refresh }),
    [threads, problem, hasMore, more, refresh],
  );
}
