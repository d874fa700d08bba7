/** Numbers and times as people read them. */

export function tokens(count: number): string {
  if (count < 1_000) return `${count}`;
  if (count < 1_000_000) return `${(count / 1_000).toFixed(count < 10_000 ? 1 : 0)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

export function dollars(cost: number): string {
  if (cost === 0) return "$0";
  return cost < 0.01 ? "<$0.01" : `$${cost.toFixed(2)}`;
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

export function ago(at: number, now: number): string {
  const seconds = Math.max(0, (now - at) / 1_000);
  if (seconds < 60) return "now";
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)}d`;
  return new Date(at).toLocaleDateString(undefined, { month: "short", day: "numeric" });
}

/** Relative to the workspace when it is inside it. */
export function shortPath(path: string, cwd: string): string {
  return cwd && path.startsWith(`${cwd}/`) ? path.slice(cwd.length + 1) : path;
}

/** Without the paths that lie in a directory of the list. */
export function withoutContents(paths: readonly string[]): readonly string[] {
  const named = new Set(paths);
  return paths.filter((path) => {
    for (let end = path.lastIndexOf("/"); end > 0; end = path.lastIndexOf("/", end - 1))
      if (named.has(path.slice(0, end))) return false;
    return true;
  });
}

export function baseName(path: string): string {
  return path.replace(/\/+$/, "").split("/").at(-1) || path;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

const TITLE_CHARS = 60;

/** A thread's name: its title, or the first sentence of its first prompt. */
export function titleOf({ title, preview }: { title: string; preview: string }): string {
  if (title) return title;
  const line = preview.trim().split("\n")[0] ?? "";
  const sentenceEnd = /[.!?](?=\s)/.exec(line);
  const first = sentenceEnd && sentenceEnd.index > 8 ? line.slice(0, sentenceEnd.index) : line;
  if (first.length <= TITLE_CHARS) return first.replace(/[.:;,]$/, "") || "New thread";
  const cut = first.slice(0, TITLE_CHARS);
  return `${cut.slice(0, Math.max(cut.lastIndexOf(" "), TITLE_CHARS - 15))}…`;
}

/** The server writes errors without a capital and a full stop. */
export function sentence(words: string): string {
  const text = words.trim();
  const start = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…]$/.test(start) ? start : `${start}.`;
}
