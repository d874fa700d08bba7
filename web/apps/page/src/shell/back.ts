/** On a phone, Back closes what covers the page before it leaves the thread. */

import { useEffect, useRef } from "react";

/** Where panels and the thread list lie over the conversation. */
export const NARROW = "(max-width: 860px)";

/** `go` replaces an entry that says so instead of adding one behind it. */
export type OverlayEntry = { overlay: true };

export function isOverlayEntry(state: unknown): state is OverlayEntry {
  return typeof state === "object" && state !== null && "overlay" in state;
}

export function useBackCloses(open: boolean, onClose: () => void): void {
  const close = useRef(onClose);
  close.current = onClose;
  useEffect(() => {
    if (!open || !matchMedia(NARROW).matches) return;
    window.history.pushState({ overlay: true } satisfies OverlayEntry, "", window.location.href);
    const back = () => close.current();
    window.addEventListener("popstate", back);
    return () => {
      window.removeEventListener("popstate", back);
      // Closed in another way: its entry goes, too.
      if (isOverlayEntry(window.history.state)) window.history.back();
    };
  }, [open]);
}
