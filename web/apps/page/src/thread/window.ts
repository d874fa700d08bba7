/**
 * Which messages of a long thread are drawn: usually its end, or a stretch around a message that somebody jumped to.
 *
 * The window moves in strides, so that a message that arrives does not make another one leave; and only while the reader is at the
 * bottom, so that nothing is pulled out from under the eyes. It never grows beyond `MOST`, however far somebody scrolls.
 */

export const WINDOW = 60;
export const MOST = 240;
const STRIDE = 20;

/** `end` null: up to the last message, whatever comes. */
export type Window = { start: number; end: number | null };

/** The index of the first message drawn at the end of a thread. `before` is the index so far. */
export function windowStart(count: number, before: number, { following }: { following: boolean }): number {
  const wanted = Math.max(0, Math.floor((count - WINDOW) / STRIDE) * STRIDE);
  if (count <= before) return wanted;
  return following ? Math.max(before, wanted) : before;
}

/** The window after messages came: the end follows, a stretch in the middle stays. */
export function moved({ start, end }: Window, count: number, { following }: { following: boolean }): Window {
  if (end !== null && end < count && start < end) return { start, end };
  return { start: windowStart(count, start, { following }), end: null };
}

/** One page further up. What is far below leaves. */
export function earlier({ start, end }: Window, count: number): Window {
  const next = Math.max(0, start - WINDOW);
  const last = end ?? count;
  return { start: next, end: last - next > MOST ? next + MOST : end };
}

/** One page further down. What is far above leaves. */
export function later({ start, end }: Window, count: number): Window {
  const last = Math.min(count, (end ?? count) + WINDOW);
  return { start: Math.max(start, last - MOST), end: last >= count ? null : last };
}

/** A window in which a message has some before and after it. */
export function around(index: number, count: number): Window {
  const start = Math.max(0, Math.floor((index - STRIDE) / STRIDE) * STRIDE);
  return start + WINDOW >= count ? { start: Math.max(0, count - WINDOW), end: null } : { start, end: start + WINDOW };
}

export function contains({ start, end }: Window, index: number): boolean {
  return index >= start && (end === null || index < end);
}
