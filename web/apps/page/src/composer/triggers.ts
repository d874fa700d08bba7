/** What the caret stands on: a `/command` at the very start, or an `@file` anywhere. */

export type Trigger = { kind: "command" | "file"; query: string; start: number; end: number };

export function triggerAt(text: string, caret: number): Trigger | null {
  const before = text.slice(0, caret);
  const command = /^\/([a-z-]*)$/.exec(before);
  if (command) return { kind: "command", query: command[1]!, start: 0, end: caret };
  const file = /(?:^|\s)@([^\s@]*)$/.exec(before);
  if (file) return { kind: "file", query: file[1]!, start: caret - file[1]!.length - 1, end: caret };
  return null;
}

/** The text with the trigger replaced, and where the caret goes. */
export function completed(text: string, { start, end }: Trigger, words: string): { text: string; caret: number } {
  const rest = text.slice(end);
  const gap = rest.startsWith(" ") ? "" : " ";
  return { text: text.slice(0, start) + words + gap + rest, caret: start + words.length + 1 };
}

/** Which of the offered files are still in the text. */
export function mentioned(text: string, offered: Iterable<string>): string[] {
  const words = new Set(text.split(/\s+/));
  return [...new Set(offered)].filter((path) => words.has(`@${path}`));
}
