/**
 * Text that is about to be run, shown so that nothing in it can hide.
 *
 * Characters that turn the reading direction, join, or take no room make a command look like another one.
 */

import type { ReactNode } from "react";

// Controls, soft hyphen, zero-width and bidirectional marks, other separators, tags, unusual blanks.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export function Visible({ text }: { text: string }): ReactNode {
  const parts: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    parts.push(text.slice(end, match.index));
    end = match.index + match[0].length;
    const name = `U+${match[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push(
      <span key={match.index} className="hidden-character" title="A character that cannot be seen">
        {name}
      </span>,
    );
  }
  parts.push(text.slice(end));
  return parts;
}

export function hides(text: string): boolean {
  return text.search(HIDDEN) >= 0;
}
