/** What keys mean: the table that the terminal is tested against, too, and what only a page has. */

import table from "../../../../../specs/keys.json";

export type KeyRow = (typeof table.keys)[number];

export const KEY_TABLE = table.keys;
export const MODE_TABLE = table.modes;

/** For the help dialog: one line per key and meaning. */
export function helpLines(): readonly (readonly [string, string])[] {
  const lines = new Map<string, string>();
  for (const { key, when, words } of KEY_TABLE) {
    if (!words) continue;
    const where =
      when === "running" && isTwofold(key)
        ? " (while the agent works)"
        : when === "approval"
          ? " (when the agent asks)"
          : "";
    lines.set(`${key} ${words}${where}`, key);
  }
  const shared = [...lines].map(([line, key]) => [key, line.slice(key.length + 1)] as const);
  return [...shared, ...OWN];
}

function isTwofold(key: string): boolean {
  return (
    new Set(KEY_TABLE.filter((row) => row.key === key && row.when !== "approval").map(({ meaning }) => meaning)).size >
    1
  );
}

const OWN: readonly (readonly [string, string])[] = [
  ["↑ ↓", "Earlier prompts, when the message box is empty"],
  ["Alt+A", "Go to the question that the agent asks"],
  ["Alt+M", "Move between the message box and the conversation"],
  ["Esc Shift+Tab", "Move from the message box to the control before it, while the agent is idle"],
  ["Alt+N", "New thread"],
  ["Alt+S", "Search threads"],
  ["Alt+↑", "Previous thread: the one above in the list"],
  ["Alt+↓", "Next thread: the one below in the list"],
  ["Alt+F", "Find in this thread"],
  ["Alt+O", "Outline of this thread"],
  ["Alt+C", "Changes"],
  ["Alt+P", "Plan"],
  ["Alt+T", "Time travel"],
  ["/", "Go to the message box"],
  ["?", "This help"],
];

/** The same without a keyboard: what is on the screen, and what it does. */
export const TOUCH_HELP: readonly (readonly [string, string])[] = [
  ["Send", "Sends the message. Enter on the screen's keyboard is a new line"],
  ["Send to the agent now", "While the agent works: sends the message to the running turn"],
  ["Queue", "While the agent works: keeps the message for the next turn"],
  ["Stop", "Stops the running turn"],
  ["/ and @", "In the message: a command from the list below, and a file of the project"],
  ["Back", "Closes a panel or the thread list"],
];
