/** Keys and commands, in a dialog. Without a keyboard: what to press instead, and the commands. */

import type { ReactNode } from "react";
import { COMMAND_WORDS } from "../composer/commands.js";
import { Dialog } from "./dialog.js";
import { helpLines, TOUCH_HELP } from "./keys.js";

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys and commands" onClose={onClose}>
      <Rows of="only-keyboard" rows={helpLines().map(([keys, meaning]) => [combinations(keys), meaning])} />
      <Rows of="only-touch" rows={TOUCH_HELP} />
      <Rows rows={COMMAND_WORDS.map(({ id, description }) => [<code key={id}>/{id}</code>, description])} />
    </Dialog>
  );
}

function Rows({ rows, of = "" }: { rows: readonly (readonly [ReactNode, string])[]; of?: string }) {
  return (
    <dl className={`keys ${of}`}>
      {rows.map(([what, meaning]) => (
        <div key={meaning}>
          <dt>{what}</dt>
          <dd>{meaning}</dd>
        </div>
      ))}
    </dl>
  );
}

function combinations(keys: string): ReactNode {
  return keys.split(" ").map((combination) => (
    <span key={combination} className="key-combination">
      {combination.split("+").map((key) => (
        <kbd key={key}>{key}</kbd>
      ))}
    </span>
  ));
}
