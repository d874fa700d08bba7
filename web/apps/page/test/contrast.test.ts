/** Text can be read on everything it is put on, in both themes: a contrast of 4.5, computed from the tokens themselves. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const CSS = readFileSync(new URL("../src/styles/tokens.css", import.meta.url), "utf8");

function tokens(css: string): Record<string, string> {
  return Object.fromEntries(
    [...css.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name!, value!]),
  );
}

const LIGHT = tokens(CSS.slice(0, CSS.indexOf("@media")));
const SYSTEM_DARK = tokens(CSS.slice(CSS.indexOf("@media"), CSS.indexOf(':root[data-theme="dark"]')));
const CHOSEN_DARK = tokens(CSS.slice(CSS.indexOf(':root[data-theme="dark"]')));

function luminance(color: string): number {
  const channel = (at: number) => {
    const value = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

const WORDS = ["text", "soft", "faint", "accent", "good", "bad", "warn", "busy"];
const GROUNDS = [
  "ground",
  "side",
  "raised",
  "sunken",
  "code-ground",
  "terminal",
  "warn-wash",
  "bad-wash",
  "accent-wash",
  "bubble",
];
const DIFF = ["code-ground", "raised", "added", "added-mark", "deleted", "deleted-mark"];

test.each([
  ["light", LIGHT],
  ["dark", { ...LIGHT, ...CHOSEN_DARK }],
])("everything can be read: %s", (_, theme) => {
  const code = Object.keys(theme).filter((name) => name.startsWith("hl-"));
  const terminal = Object.keys(theme).filter((name) => name.startsWith("ansi-"));
  const meetings = [
    ...WORDS.flatMap((word) => GROUNDS.map((ground) => [word, ground])),
    ...code.flatMap((word) => DIFF.map((ground) => [word, ground])),
    ...terminal.map((word) => [word, "terminal"]),
    ["good", "added"],
    ["bad", "deleted"],
    ["faint", "added"],
    ["faint", "deleted"],
    ["on-accent", "accent"],
    ["good", "good-wash"],
  ] as [string, string][];
  const unreadable = meetings
    .map(([word, ground]) => [word, ground, contrast(theme[word]!, theme[ground]!)] as const)
    .filter(([, , ratio]) => !(ratio >= 4.5));
  expect(unreadable).toEqual([]);
});

test("dark is the same whether the system or somebody chose it", () => {
  expect(SYSTEM_DARK).toEqual(CHOSEN_DARK);
});
