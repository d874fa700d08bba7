/** The git worktree of a thread: merge it, keep it, drop it; or go on in one. */

import { type FinishAnswer, RequestFailed } from "@hames/client";
import { useEffect, useState } from "react";
import { api } from "../api.js";
import { Dialog } from "../shell/dialog.js";
import { go } from "../shell/route.js";
import { toastDone } from "../shell/toasts.js";
import { plural } from "../text/format.js";

type Props = { threadId: string; onClose: () => void };

/** What is known of the thread's worktree. A `problem` is why nothing is. */
type Found = { kind: "looking" } | { kind: "none" } | { kind: "problem"; words: string } | Finishable;
type Finishable = { kind: "worktree"; answer: FinishAnswer };

export function WorktreeDialog({ threadId, onClose }: Props) {
  const [found, setFound] = useState<Found>({ kind: "looking" });
  useEffect(() => {
    let gone = false;
    api.finishWorktree({ action: "drop", threadId, preview: true }).then(
      (answer) => !gone && setFound({ kind: "worktree", answer }),
      (failure: unknown) => !gone && setFound(isInNone(failure) ? { kind: "none" } : problem(failure)),
    );
    return () => {
      gone = true;
    };
  }, [threadId]);
  switch (found.kind) {
    case "looking":
      return (
        <Dialog title="Worktree" className="confirm" onClose={onClose}>
          <p aria-busy="true">
            <span className="spinner" aria-hidden="true" /> Looking at the worktree …
          </p>
        </Dialog>
      );
    case "problem":
      return (
        <Dialog title="Worktree" className="confirm" onClose={onClose}>
          <p role="alert">{found.words}</p>
        </Dialog>
      );
    case "none":
      return <ContinueInCopy threadId={threadId} onClose={onClose} />;
    case "worktree":
      return <Finish threadId={threadId} onClose={onClose} found={found.answer} />;
  }
}

function ContinueInCopy({ threadId, onClose }: Props) {
  const [busy, setBusy] = useState(false);
  const [failed, setFailed] = useState("");
  const fork = () => {
    setBusy(true);
    setFailed("");
    api.fork(threadId, undefined, { name: "", changes: true }).then(
      ({ id }) => {
        onClose();
        go(id);
      },
      (failure: unknown) => {
        setBusy(false);
        setFailed(problem(failure).words);
      },
    );
  };
  return (
    <Dialog title="Continue in a git worktree" className="confirm" onClose={onClose}>
      <p>
        This makes a copy of the thread that works in a second checkout of the repository, on a branch of its own. This
        thread and its files stay as they are.
      </p>
      <p className="dialog-note">
        The copy starts with the files as they are now, also those that are not committed. Files that git ignores are
        not copied.
      </p>
      {failed && <p role="alert">{failed}</p>}
      <div className="dialog-actions">
        <button type="button" className="button" autoFocus onClick={onClose}>
          Cancel
        </button>
        <button type="button" className="button primary" disabled={busy} onClick={fork}>
          {busy ? "Copying …" : "Continue in a copy"}
        </button>
      </div>
    </Dialog>
  );
}

function Finish({ threadId, onClose, found }: Props & { found: FinishAnswer }) {
  const { worktree, loses } = found;
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  // Why it could not be done: the dialog stays, so that another way can be chosen.
  const [failed, setFailed] = useState<{ words: string; paths: string[] } | null>(null);
  const finish = (action: "merge" | "keep" | "drop") => {
    setBusy(true);
    setFailed(null);
    api.finishWorktree({ action, threadId, discard: action === "drop" ? typed : "" }).then(
      ({ done, message, conflicts }) => {
        setBusy(false);
        if (!done) return setFailed({ words: message, paths: conflicts });
        onClose();
        toastDone(message);
      },
      (failure: unknown) => {
        setBusy(false);
        setFailed({ words: problem(failure).words, paths: [] });
      },
    );
  };
  const { commits, uncommitted } = worktree;
  return (
    <Dialog title={`Worktree ${worktree.name}`} className="confirm worktree" onClose={onClose}>
      <p>
        Branch <code>{worktree.branch}</code>
        {worktree.base && (
          <>
            {" "}
            from <code>{worktree.base}</code>
          </>
        )}
        : {plural(commits.length, "new commit")}, {plural(uncommitted.length, "uncommitted file")}.
      </p>
      {failed && (
        <div role="alert" className="worktree-failed">
          <p>{failed.words}</p>
          {failed.paths.length > 0 && (
            <ul>
              {failed.paths.map((path) => (
                <li key={path}>
                  <code>{path}</code>
                </li>
              ))}
            </ul>
          )}
        </div>
      )}
      <ul className="worktree-choices">
        <li>
          <button
            type="button"
            className="button primary"
            disabled={busy || !worktree.base}
            onClick={() => finish("merge")}
          >
            Merge
          </button>
          {worktree.base ? (
            <p>
              {uncommitted.length > 0 && "Commits what is not committed, then "}
              {uncommitted.length > 0 ? "puts" : "Puts"} the branch into <code>{worktree.base}</code> and deletes the
              worktree.
            </p>
          ) : (
            <p>Not possible here: it was not made from a branch. Merge it with git.</p>
          )}
        </li>
        <li>
          <button type="button" className="button" disabled={busy} onClick={() => finish("keep")}>
            Keep
          </button>
          <p>Leaves directory and branch as they are.</p>
        </li>
        <li>
          <button
            type="button"
            className="button danger-fill"
            disabled={busy || (loses.length > 0 && typed.trim() !== worktree.name)}
            onClick={() => finish("drop")}
          >
            Drop
          </button>
          <div>
            <p>Deletes directory and branch{loses.length > 0 ? `, with ${loses.join("; ")}.` : ". Nothing is lost."}</p>
            {loses.length > 0 && (
              <label>
                To drop it, type <code>{worktree.name}</code>
                <input
                  value={typed}
                  autoCapitalize="none"
                  autoComplete="off"
                  spellCheck={false}
                  onChange={(event) => setTyped(event.target.value)}
                />
              </label>
            )}
          </div>
        </li>
      </ul>
      <div className="dialog-actions">
        <button type="button" className="button" autoFocus onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

/** The server's sentence: the thread is in no worktree. Everything else that fails is told as it is. */
function isInNone(failure: unknown): boolean {
  return failure instanceof RequestFailed && failure.status === 400 && failure.message.includes("in no worktree");
}

function problem(failure: unknown): { kind: "problem"; words: string } {
  return { kind: "problem", words: failure instanceof Error ? failure.message : String(failure) };
}
