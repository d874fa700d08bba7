/** Keys and commands, in a dialog. */

import { useEffect, useRef } from "react";
import type { SlashCommand } from "../composer/commands.js";
import { Icon } from "./icons.js";

const KEYS: readonly (readonly [string, string])[] = [
  ["Enter", "Send; while a turn runs, queue"],
  ["Ctrl Enter", "Say it to the running turn at once"],
  ["Shift Enter", "New line"],
  ["Esc", "Stop the running turn"],
  ["Shift Tab", "Next permission mode (Esc first: move back as usual)"],
  ["↑ ↓", "Earlier prompts, in an empty message"],
  ["y a n", "Answer an approval: once, always, no"],
  ["Alt N", "New thread"],
  ["Alt ↑ Alt ↓", "Previous and next thread"],
  ["Alt C", "Changes"],
  ["Alt P", "Plan"],
  ["Alt T", "Time travel"],
  ["/", "To the message"],
  ["?", "This help"],
];

export function Help({ commands, onClose }: { commands: readonly SlashCommand[]; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      className="dialog"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
      aria-labelledby="help-title"
    >
      <div className="dialog-body">
        <header>
          <h2 id="help-title">Keys and commands</h2>
          <button type="button" className="icon-button" aria-label="Close" onClick={() => dialog.current?.close()}>
            <Icon name="close" />
          </button>
        </header>
        <dl className="keys">
          {KEYS.map(([keys, meaning]) => (
            <div key={keys}>
              <dt>
                {keys.split(" ").map((key) => (
                  <kbd key={key}>{key}</kbd>
                ))}
              </dt>
              <dd>{meaning}</dd>
            </div>
          ))}
        </dl>
        {commands.length > 0 && (
          <dl className="keys">
            {commands.map(({ id, description }) => (
              <div key={id}>
                <dt>
                  <code>/{id}</code>
                </dt>
                <dd>{description}</dd>
              </div>
            ))}
          </dl>
        )}
      </div>
    </dialog>
  );
}
