/** Keys and commands, in a dialog. */

import type { SlashCommand } from "../composer/commands.js";
import { Dialog } from "./dialog.js";
import { helpLines } from "./keys.js";

export function Help({ commands, onClose }: { commands: readonly SlashCommand[]; onClose: () => void }) {
  return (
    <Dialog title="Keys and commands" onClose={onClose}>
      <dl className="keys only-keyboard">
        {helpLines().map(([keys, meaning]) => (
          <div key={`${keys} ${meaning}`}>
            <dt>
              {keys.split(" ").map((combination) => (
                <span key={combination} className="key-combination">
                  {combination.split("+").map((key) => (
                    <kbd key={key}>{key}</kbd>
                  ))}
                </span>
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
    </Dialog>
  );
}
