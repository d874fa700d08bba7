/** How long to wait before the next attempt: doubling, bounded, and never the same for two clients. */

export const FIRST_DELAY_MS = 250;
export const LAST_DELAY_MS = 5_000;

export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const full = Math.min(LAST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 16));
  return Math.round(full * (0.5 + random() / 2));
}
