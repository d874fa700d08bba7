/**
 * How many of the last messages are drawn.
 *
 * The window moves in strides, so that a message that arrives does not make another one leave; and only while the reader is at the
 * bottom, so that nothing is pulled out from under the eyes.
 */

export const WINDOW = 60;
const STRIDE = 20;

/** The index of the first message drawn. `before` is the index so far. */
export function windowStart(count: number, before: number, { following }: { following: boolean }): number {
  const wanted = Math.max(0, Math.floor((count - WINDOW) / STRIDE) * STRIDE);
  if (count < before) return wanted;
  return following ? Math.max(before, wanted) : before;
}

/** One page further up. */
export function earlier(start: number): number {
  return Math.max(0, start - WINDOW);
}
