import { expect, test } from "vitest";
import { completed, mentioned, triggerAt } from "../src/composer/triggers.js";
import { explanation } from "../src/panels/plan.js";
import { earlier, windowStart } from "../src/thread/window.js";

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
  expect(earlier(40)).toBe(0);
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
