/** Finding words in a thread: in all of its messages, drawn or not. Pure. */

import type { HarnessMessage, HarnessToolCall } from "@hames/client";

/** One place where the words are. `toolCallId` is empty for the message's own text; `nth` counts the places there from 0. */
export type Hit = { messageId: string; toolCallId: string; nth: number };

export function findIn(messages: readonly HarnessMessage[], query: string): readonly Hit[] {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return [];
  const places = (messageId: string, toolCallId: string, texts: readonly (string | undefined)[]) => {
    const count = texts.reduce((sum, text) => sum + occurrences(text ?? "", wanted), 0);
    return Array.from({ length: count }, (_, nth) => ({ messageId, toolCallId, nth }));
  };
  return messages.flatMap(({ id, content, reasoning, toolCalls = [] }) => [
    ...places(id, "", [reasoning, content]),
    ...toolCalls.flatMap((call) => places(id, call.id, words(call))),
  ]);
}

function occurrences(text: string, wanted: string): number {
  const lower = text.toLowerCase();
  let count = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, at + wanted.length)) count += 1;
  return count;
}

function words({ title, output, reason, changes = [] }: HarnessToolCall): (string | undefined)[] {
  return [title, output, reason, ...changes.flatMap(({ path, diff }) => [path, diff])];
}

const MOST_RANGES = 2_000;

/** Where the words are drawn inside an element: for a highlight that changes nothing in the page. */
export function rangesIn(root: Element, query: string): Range[] {
  const wanted = query.trim().toLowerCase();
  const ranges: Range[] = [];
  if (wanted === "") return ranges;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < MOST_RANGES; node = walker.nextNode()) {
    const text = node.nodeValue?.toLowerCase() ?? "";
    for (
      let at = text.indexOf(wanted);
      at >= 0 && ranges.length < MOST_RANGES;
      at = text.indexOf(wanted, at + wanted.length)
    ) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  return ranges;
}
