/** Unified diffs as rows, for one column or two. */

export type DiffLine = {
  kind: "context" | "add" | "delete";
  text: string;
  /** Line numbers; null on the side that does not have it. */
  before: number | null;
  after: number | null;
  /** The part of a changed line that differs from its partner: start and end. */
  changed?: readonly [number, number];
};

export type Hunk = { header: string; lines: DiffLine[] };
export type Counts = { added: number; deleted: number };
export type Pair = { left: DiffLine | null; right: DiffLine | null };

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/;

export function parseDiff(diff: string): Hunk[] {
  const hunks: Hunk[] = [];
  let [before, after, leftBefore, leftAfter] = [0, 0, 0, 0];
  for (const raw of diff.replace(/\n$/, "").split("\n")) {
    const hunk = hunks.at(-1);
    // No line of a hunk begins with an `@`, so one that does is the next header, whatever the counts said.
    const inside = hunk && (leftBefore > 0 || leftAfter > 0) && !raw.startsWith("@@ ");
    if (!inside) {
      const match = HUNK.exec(raw);
      if (!match) continue;
      before = Number(match[1]);
      after = Number(match[3]);
      leftBefore = Number(match[2] ?? 1);
      leftAfter = Number(match[4] ?? 1);
      hunks.push({ header: match[5] ?? "", lines: [] });
      continue;
    }
    const [mark, text] = [raw[0] ?? " ", raw.slice(1)];
    if (mark === "+") {
      hunk.lines.push({ kind: "add", text, before: null, after: after++ });
      leftAfter--;
    } else if (mark === "-") {
      hunk.lines.push({ kind: "delete", text, before: before++, after: null });
      leftBefore--;
    } else if (mark !== "\\") {
      // A tool that strips trailing blanks leaves an empty context line without its mark.
      hunk.lines.push({ kind: "context", text, before: before++, after: after++ });
      leftBefore--;
      leftAfter--;
    }
  }
  for (const { lines } of hunks) markChanges(lines);
  return hunks;
}

export function countChanges(hunks: readonly Hunk[]): Counts {
  let [added, deleted] = [0, 0];
  for (const { lines } of hunks) {
    for (const { kind } of lines) {
      if (kind === "add") added++;
      else if (kind === "delete") deleted++;
    }
  }
  return { added, deleted };
}

/** Deleted and added lines face each other; what has no partner faces nothing. */
export function pairs(lines: readonly DiffLine[]): Pair[] {
  const rows: Pair[] = [];
  for (const block of blocks(lines)) {
    if (block.context) {
      rows.push({ left: block.context, right: block.context });
      continue;
    }
    const length = Math.max(block.deleted.length, block.added.length);
    for (let i = 0; i < length; i++) rows.push({ left: block.deleted[i] ?? null, right: block.added[i] ?? null });
  }
  return rows;
}

type Block = { context?: DiffLine; deleted: DiffLine[]; added: DiffLine[] };

function blocks(lines: readonly DiffLine[]): Block[] {
  const found: Block[] = [];
  for (const line of lines) {
    if (line.kind === "context") {
      found.push({ context: line, deleted: [], added: [] });
      continue;
    }
    let block = found.at(-1);
    if (!block || block.context) found.push((block = { deleted: [], added: [] }));
    (line.kind === "add" ? block.added : block.deleted).push(line);
  }
  return found;
}

/** Only blocks of equal length are compared line by line: in others the partners are a guess. */
function markChanges(lines: readonly DiffLine[]): void {
  for (const { deleted, added } of blocks(lines)) {
    if (deleted.length !== added.length) continue;
    deleted.forEach((left, index) => {
      const right = added[index]!;
      const [start, leftEnd, rightEnd] = difference(left.text, right.text);
      // A line that is mostly new is easier to read whole.
      if (start + (left.text.length - leftEnd) < Math.max(left.text.length, right.text.length) * 0.3) return;
      left.changed = [start, leftEnd];
      right.changed = [start, rightEnd];
    });
  }
}

function difference(a: string, b: string): [start: number, endA: number, endB: number] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let [endA, endB] = [a.length, b.length];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) [endA, endB] = [endA - 1, endB - 1];
  return [start, endA, endB];
}
