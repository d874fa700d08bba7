/** Whether the answers of the question that waits are on the screen: then nobody has to be taken there. */

import { type RefObject, useEffect, useSyncExternalStore } from "react";

let seen = false;
const listeners = new Set<() => void>();

function publish(next: boolean): void {
  seen = next;
  for (const listener of listeners) listener();
}

export function useAreAnswersSeen(): boolean {
  return useSyncExternalStore(
    (listener) => (listeners.add(listener), () => void listeners.delete(listener)),
    () => seen,
  );
}

/** For the question that is answered first. */
export function useReportSeen(card: RefObject<HTMLElement | null>, first: boolean): void {
  useEffect(() => {
    const answers = card.current?.querySelector(".approval-answers");
    if (!first || !answers) return;
    const look = new IntersectionObserver((entries) => publish(entries.at(-1)?.isIntersecting ?? false));
    look.observe(answers);
    return () => {
      look.disconnect();
      publish(false);
    };
  }, [card, first]);
}
