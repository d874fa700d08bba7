/** What an undo would do to files, before it does it. */

import type { UndoAnswer } from "@hames/client";
import { useEffect, useState } from "react";
import { api } from "../api.js";
import { Dialog } from "../shell/dialog.js";
import { toast, toastDone, toastFailure } from "../shell/toasts.js";

/** Without a turn: the last one that changed something. */
export type UndoRequest = { turnId?: string; redo?: boolean };

type Props = { threadId: string; request: UndoRequest; onClose: () => void };

const MOST_SHOWN = 100;

/** What the server says was done, before it is done. */
const VERBS: Record<string, string> = {
  removed: "remove",
  "brought back": "bring back",
  "changed back": "change back",
};

export function UndoDialog({ threadId, request, onClose }: Props) {
  const [later, setLater] = useState(false);
  const [overwrite, setOverwrite] = useState(false);
  const [found, setFound] = useState<UndoAnswer | null>(null);
  const verb = request.redo ? "Redo" : "Undo";
  useEffect(() => {
    let gone = false;
    setFound(null);
    api.undo(threadId, { ...request, later, preview: true }).then(
      (answer) => !gone && setFound(answer),
      (failure: unknown) => {
        toastFailure(failure);
        onClose();
      },
    );
    return () => {
      gone = true;
    };
  }, [threadId, request, later, onClose]);
  const conflicts = found?.conflicts ?? [];
  // What turns made (also caches) is the longer part of the list; what they changed matters more and comes first.
  const restored = (found?.restored ?? []).toSorted(
    (one, other) => Number(one.action === "removed") - Number(other.action === "removed"),
  );
  const count = (found?.restored.length ?? 0) + (overwrite ? conflicts.length : 0);
  const act = () => {
    onClose();
    api
      .undo(threadId, { ...request, later, overwrite })
      .then(({ message, restored }) => (restored.length > 0 ? toastDone : toast)(message), toastFailure);
  };
  return (
    <Dialog title={`${verb} changes to files`} className="confirm undo" onClose={onClose}>
      {found === null ? (
        <p aria-busy="true">
          <span className="spinner" aria-hidden="true" /> Looking at the files …
        </p>
      ) : count === 0 && conflicts.length === 0 ? (
        <p>{found.message}</p>
      ) : (
        <ul className="undo-paths">
          {restored.slice(0, MOST_SHOWN).map(({ path, action }) => (
            <li key={path}>
              <span className="undo-action">{VERBS[action] ?? action}</span> <code>{path}</code>
            </li>
          ))}
          {found.restored.length > MOST_SHOWN && <li>and {found.restored.length - MOST_SHOWN} more</li>}
          {[...conflicts, ...found.notKept].slice(0, MOST_SHOWN).map(({ path, why }) => (
            <li key={path} className="undo-left">
              <span className="undo-action">left alone</span> <code>{path}</code>: {why}
            </li>
          ))}
        </ul>
      )}
      {request.turnId && !request.redo && (
        <label>
          <input type="checkbox" checked={later} onChange={(event) => setLater(event.target.checked)} /> Also undo what
          every later turn did
        </label>
      )}
      {conflicts.length > 0 && (
        <label>
          <input type="checkbox" checked={overwrite} onChange={(event) => setOverwrite(event.target.checked)} />{" "}
          Overwrite what somebody else changed
        </label>
      )}
      <div className="dialog-actions">
        <button type="button" className="button" autoFocus onClick={onClose}>
          Cancel
        </button>
        <button type="button" className="button danger-fill" disabled={count === 0} onClick={act}>
          {count === 1 ? `${verb} 1 change` : `${verb} ${count} changes`}
        </button>
      </div>
    </Dialog>
  );
}
