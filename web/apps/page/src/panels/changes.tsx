/** What is changed, file by file: as git says, or the edits of this thread alone. */

import type { FileChange, HarnessState } from "@hames/client";
import { memo, useEffect, useMemo, useState } from "react";
import { api } from "../api.js";
import { ChangeCounts, FileDiff, SidesSwitch, useSides } from "../tools/diff-view.js";
import { countChanges, parseDiff } from "../text/diff.js";
import { plural, sentence, shortPath } from "../text/format.js";
import { useThreadTools } from "../thread/context.js";

const GIT_DELAY_MS = 150;

export type ChangedFile = { path: string; change: FileChange; added: number; deleted: number };

/** Only what really happened and still holds: declined, failed and undone changes are left out. */
export function changedFiles(messages: HarnessState["messages"]): readonly ChangedFile[] {
  const files = new Map<string, { changes: FileChange[]; added: number; deleted: number }>();
  for (const { toolCalls } of messages) {
    for (const call of toolCalls ?? []) {
      if (call.status !== "complete" || !call.changes?.length) continue;
      for (const change of call.changes) {
        if (call.undone?.includes(change.path)) continue;
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

type Props = {
  files: readonly ChangedFile[];
  /** Not a look at the past: git knows only the present. */
  live: boolean;
  /** Commands change files without telling which. */
  ranCommands: boolean;
  /** Changes when there may be news for git. */
  version: number;
};

type Source = "git" | "edits";

export const Changes = memo(function Changes({ files, live, ranCommands, version }: Props) {
  const [chosen, setChosen] = useState<Source | null>(null);
  const git = useGitChanges(live, version);
  const hasGit = git !== null && git.problem === "";
  // Edits are what the agent did; once commands ran, only git knows everything.
  const source: Source = hasGit ? (chosen ?? (ranCommands || files.length === 0 ? "git" : "edits")) : "edits";
  if (live && git === null && files.length === 0) return <p className="panel-empty">Asking git…</p>;
  return (
    <>
      {hasGit && (
        <div className="panel-sources">
          <div className="switch" role="group" aria-label="Which changes">
            <button type="button" aria-pressed={source === "git"} onClick={() => setChosen("git")}>
              Uncommitted (git diff)
            </button>
            <button type="button" aria-pressed={source === "edits"} onClick={() => setChosen("edits")}>
              Edits of this thread
            </button>
          </div>
          <p className="panel-note">
            {source === "git"
              ? "Everything in this folder that is not committed, whoever changed it."
              : "Edits made with the edit tools. Commands may have changed other files."}
          </p>
        </div>
      )}
      {source === "git" ? (
        <FileList files={git!.files} empty="Nothing in this folder differs from the last commit." />
      ) : (
        <FileList
          files={files}
          empty={
            ranCommands ? "This thread has made no edits with the edit tools." : "This thread has changed no file yet."
          }
        />
      )}
      {!hasGit && ranCommands && (
        <p className="panel-empty">
          Commands may have changed files. This panel shows edits made with the edit tools only
          {git?.problem
            ? `, because there is no git diff: ${sentence(lowered(git.problem))}`
            : "; run `git diff` to see the rest."}
        </p>
      )}
    </>
  );
});

function lowered(words: string): string {
  return words.charAt(0).toLowerCase() + words.slice(1);
}

type GitFiles = { files: readonly ChangedFile[]; problem: string };

/** Null while nobody knows. What was known stays until there is news. */
function useGitChanges(live: boolean, version: number): GitFiles | null {
  const { threadId } = useThreadTools();
  const [found, setFound] = useState<GitFiles | null>(null);
  useEffect(() => {
    if (!live) return setFound({ files: [], problem: "it shows the present only" });
    const abort = new AbortController();
    // A turn ends several calls at once.
    const timer = setTimeout(() => {
      api.gitChanges(threadId, abort.signal).then(
        ({ files = [], problem = "" }) =>
          setFound({ files: files.map((change) => ({ path: change.path, change, ...counted(change) })), problem }),
        (failure: unknown) =>
          !abort.signal.aborted &&
          setFound({ files: [], problem: failure instanceof Error ? failure.message : String(failure) }),
      );
    }, GIT_DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [threadId, live, version]);
  return found;
}

function FileList({ files, empty }: { files: readonly ChangedFile[]; empty: string }) {
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
  if (files.length === 0) return <p className="panel-empty">{empty}</p>;
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
}
