/** Small things a browser remembers. One that refuses to is no reason to fail. */

import { useCallback, useState } from "react";

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

/** One of a few words, kept. */
export function useRemembered<Word extends string>(
  key: string,
  words: readonly [Word, ...Word[]],
): [Word, (word: Word) => void] {
  const [word, setWord] = useState<Word>(() => words.find((known) => known === remembered(key)) ?? words[0]);
  const choose = useCallback(
    (next: Word) => {
      remember(key, next);
      setWord(next);
    },
    [key],
  );
  return [word, choose];
}
