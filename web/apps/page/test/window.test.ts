import { expect, test } from "vitest";
import { completed, mentioned, triggerAt } from "../src/composer/triggers.js";
import { explanation } from "../src/panels/plan.js";
import { around, contains, earlier, later, MOST, moved, type Window, windowStart } from "../src/thread/window.js";

test("at least the last sixty messages are drawn, and never many more", () => {
  let start = 0;
  for (let count = 0; count <= 8_000; count++) {
    start = windowStart(count, start, { following: true });
    expect(count - start).toBeGreaterThanOrEqual(Math.min(count, 60));
    expect(count - start).toBeLessThan(80);
  }
});

test("the window moves once in twenty messages", () => {
  const starts = new Set(Array.from({ length: 1000 }, (_, count) => windowStart(count, 0, { following: true })));
  expect(starts.size).toBeLessThanOrEqual(48);
});

test("nothing leaves while the reader looks further up", () => {
  expect(windowStart(500, 40, { following: false })).toBe(40);
  expect(earlier({ start: 40, end: null }, 500)).toEqual({ start: 0, end: 240 });
});

test.each([0, 1, 59, 60, 4_000, 9_100, 9_164])("a message can be jumped to wherever it is: %i", (index) => {
  const window = around(index, 9_165);
  expect(contains(window, index)).toBe(true);
  const size = (window.end ?? 9_165) - window.start;
  expect(size).toBeLessThanOrEqual(60);
  // It stays while messages come.
  expect(moved(window, 9_170, { following: false })).toEqual(window.end === null ? { ...window, end: null } : window);
});

test("however far somebody scrolls, the window stays small and misses nothing", () => {
  const count = 9_165;
  const seen = new Set<number>();
  const look = ({ start, end }: Window) => {
    expect((end ?? count) - start).toBeLessThanOrEqual(MOST);
    for (let index = start; index < (end ?? count); index++) seen.add(index);
  };
  let window: Window = moved({ start: 0, end: null }, count, { following: true });
  while (window.start > 0) look((window = earlier(window, count)));
  expect(seen.size).toBe(count);
  seen.clear();
  look(window);
  while (window.end !== null) look((window = later(window, count)));
  expect(seen.size).toBe(count);
});

test("a stretch in the middle becomes the end when the thread got shorter", () => {
  expect(moved({ start: 400, end: 460 }, 30, { following: false })).toEqual({ start: 0, end: null });
});

test("a shorter thread starts the window again", () => {
  expect(windowStart(10, 400, { following: false })).toBe(0);
});

test.each([
  ["/", 1, { kind: "command", query: "" }],
  ["/mod", 4, { kind: "command", query: "mod" }],
  ["a /mod", 6, null],
  ["/model x", 8, null],
  ["see @src/lo", 11, { kind: "file", query: "src/lo" }],
  ["@", 1, { kind: "file", query: "" }],
  ["mail a@b", 8, null],
  ["see @src ok", 11, null],
] as const)("in %j at %i there is %j", (text, caret, expected) => {
  const trigger = triggerAt(text, caret);
  if (expected === null) expect(trigger).toBeNull();
  else expect(trigger).toMatchObject(expected);
});

test("a choice replaces what was typed and leaves a blank", () => {
  const text = "see @lo and";
  expect(completed(text, triggerAt(text, 7)!, "@src/login.py")).toEqual({ text: "see @src/login.py and", caret: 18 });
});

test("only files that are still named are sent along", () => {
  expect(mentioned("look at @a.py please", ["a.py", "b.py", "a.py"])).toEqual(["a.py"]);
});

test("a plan's words do not say its steps again", () => {
  const entries = [
    { step: "Look", status: "completed" as const },
    { step: "Leap", status: "pending" as const },
  ];
  expect(explanation({ explanation: "Carefully.\n\n[x] Look\n[ ] Leap", entries })).toBe("Carefully.");
  expect(explanation({ explanation: "[x] Look\n[ ] Leap", entries })).toBe("");
  expect(explanation({ explanation: "Look before you leap.", entries })).toBe("Look before you leap.");
});
