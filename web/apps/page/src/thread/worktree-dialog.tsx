/** The git worktree of a thread: merge it, keep it, drop it; or go on in one. */

import type { FinishAnswer } from "@hames/client";
import { useEffect, useState } from "react";
import { api } from "../api.js";
import { Dialog } from "../shell/dialog.js";
import { go } from "../shell/route.js";
import { toast, toastFailure } from "../shell/toasts.js";

type Props = { threadId: string; onClose: () => void };

export function WorktreeDialog({ threadId, onClose }: Props) {
  // null: it is being looked at. false: the thread is in no worktree.
  const [found, setFound] = useState<FinishAnswer | false | null>(null);
  const [typed, setTyped] = useState("");
  useEffect(() => {
    let gone = false;
    api.finishWorktree({ action: "drop", threadId, preview: true }).then(
      (answer) => !gone && setFound(answer),
      () => !gone && setFound(false),
    );
    return () => {
      gone = true;
    };
  }, [threadId]);
  const finish = (action: "merge" | "keep" | "drop") => {
    onClose();
    api.finishWorktree({ action, threadId, discard: typed }).then(({ message }) => toast(message), toastFailure);
  };
  const fork = () => {
    onClose();
    api.fork(threadId, undefined, { name: "", changes: true }).then(({ id }) => go(id), toastFailure);
  };
  const cancel = (
    <button type="button" className="button" autoFocus onClick={onClose}>
      Cancel
    </button>
  );
  if (found === null) {
    return (
      <Dialog title="Worktree" className="confirm" onClose={onClose}>
        <p aria-busy="true">
          <span className="spinner" aria-hidden="true" /> Looking at the worktree …
        </p>
      </Dialog>
    );
  }
  if (found === false) {
    return (
      <Dialog title="Worktree" className="confirm" onClose={onClose}>
        <p>
          This thread is in no worktree. A copy of it can go on in one, with the files as they are now. Ignored files
          are not copied.
        </p>
        <div className="dialog-actions">
          {cancel}
          <button type="button" className="button" onClick={fork}>
            Continue in a copy
          </button>
        </div>
      </Dialog>
    );
  }
  const { worktree, loses } = found;
  return (
    <Dialog title={`Worktree ${worktree.name}`} className="confirm undo" onClose={onClose}>
      <p>
        Branch <code>{worktree.branch}</code>
        {worktree.base && (
          <>
            {" "}
            from <code>{worktree.base}</code>
          </>
        )}
        . What is not committed is committed before a merge.
      </p>
      {loses.length > 0 && (
        <label>
          Dropping it deletes {loses.join("; ")}. To drop it, type <code>{worktree.name}</code>:{" "}
          <input value={typed} onChange={(event) => setTyped(event.target.value)} />
        </label>
      )}
      <div className="dialog-actions">
        {cancel}
        <button
          type="button"
          className="button danger-fill"
          disabled={loses.length > 0 && typed !== worktree.name}
          onClick={() => finish("drop")}
        >
          Drop
        </button>
        <button type="button" className="button" onClick={() => finish("keep")}>
          Keep
        </button>
        <button type="button" className="button" disabled={!worktree.base} onClick={() => finish("merge")}>
          Merge
        </button>
      </div>
    </Dialog>
  );
}
