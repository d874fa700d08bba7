/** Everything the thread changed, file by file. */

import type { FileChange, HarnessState } from "@hames/client";
import { memo, useMemo } from "react";
import { ChangeCounts, FileDiff, SidesSwitch, useSides } from "../tools/diff-view.js";
import { countChanges, parseDiff } from "../text/diff.js";
import { plural, shortPath } from "../text/format.js";
import { useThreadTools } from "../thread/context.js";

export type ChangedFile = { path: string; change: FileChange; added: number; deleted: number };

/** Only what really happened: declined and failed changes are left out. */
export function changedFiles(messages: HarnessState["messages"]): readonly ChangedFile[] {
  const files = new Map<string, { changes: FileChange[]; added: number; deleted: number }>();
  for (const { toolCalls } of messages) {
    for (const call of toolCalls ?? []) {
      if (call.status !== "complete" || !call.changes?.length) continue;
      for (const change of call.changes) {
        const file = files.get(change.path) ?? { changes: [], added: 0, deleted: 0 };
        const { added, deleted } = counted(change);
        file.changes.push(change);
        file.added += added;
        file.deleted += deleted;
        files.set(change.path, file);
      }
    }
  }
  const all = Array.from(files, ([path, { changes, ...counts }]) => ({ path, change: joined(changes), ...counts }));
  return all.sort((a, b) => a.path.localeCompare(b.path));
}

const counts = new WeakMap<FileChange, { added: number; deleted: number }>();

function counted(change: FileChange): { added: number; deleted: number } {
  let known = counts.get(change);
  if (!known) counts.set(change, (known = countChanges(parseDiff(change.diff))));
  return known;
}

/** Several changes of one file as one, in the order they were made. */
export function joined(changes: readonly FileChange[]): FileChange {
  const [first, last] = [changes[0]!, changes.at(-1)!];
  if (changes.length === 1) return first;
  const kind = last.kind === "delete" ? "delete" : first.kind === "add" ? "add" : "modify";
  return { path: first.path, kind, diff: changes.map(({ diff }) => diff.replace(/\n$/, "")).join("\n") };
}

export const Changes = memo(function Changes({ files }: { files: readonly ChangedFile[] }) {
  const { cwd } = useThreadTools();
  const [sides, setSides] = useSides();
  const total = useMemo(
    () =>
      files.reduce((sum, file) => ({ added: sum.added + file.added, deleted: sum.deleted + file.deleted }), {
        added: 0,
        deleted: 0,
      }),
    [files],
  );
  if (files.length === 0) return <p className="panel-empty">This thread has changed no file yet.</p>;
  return (
    <>
      <div className="panel-bar">
        <span>
          {plural(files.length, "file")} <ChangeCounts {...total} />
        </span>
        <SidesSwitch sides={sides} onChange={setSides} />
      </div>
      {files.map(({ path, change }) => (
        <section key={path} aria-label={shortPath(path, cwd)}>
          <FileDiff change={change} sides={sides} open={files.length <= 8} />
        </section>
      ))}
    </>
  );
});
