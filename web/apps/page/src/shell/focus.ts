/** Giving the focus back to where it was. */

/** The element, if it can still take the focus; otherwise the message box. */
export function focusAgain(before: Element | null): void {
  const usable = before instanceof HTMLElement && before.isConnected && before !== document.body;
  const target = usable ? before : document.querySelector<HTMLElement>("[data-composer]");
  target?.focus({ preventScroll: true });
}
