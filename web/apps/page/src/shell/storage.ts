/** Small things a browser remembers. One that refuses to is no reason to fail. */

import { useCallback, useSyncExternalStore } from "react";

export function remembered(key: string): string | null {
  try {
    return localStorage.getItem(`hames.${key}`);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string): void {
  try {
    if (value === "") localStorage.removeItem(`hames.${key}`);
    else localStorage.setItem(`hames.${key}`, value);
  } catch {
    // Private windows and full disks: the page works without a memory.
  }
}

const listeners = new Set<() => void>();

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Where nothing is kept it holds for as long as the page does. */
const chosen = new Map<string, string>();

/** One of a few words, kept, and the same wherever it is used. */
export function useRemembered<Word extends string>(
  key: string,
  words: readonly [Word, ...Word[]],
): [Word, (word: Word) => void] {
  const word = useSyncExternalStore(
    listen,
    () => words.find((known) => known === (chosen.get(key) ?? remembered(key))) ?? words[0],
    () => words[0],
  );
  const choose = useCallback(
    (next: Word) => {
      chosen.set(key, next);
      remember(key, next);
      for (const listener of listeners) listener();
    },
    [key],
  );
  return [word, choose];
}
