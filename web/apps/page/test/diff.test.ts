import { expect, test } from "vitest";
import { countChanges, pairs, parseDiff } from "../src/text/diff.js";

const DIFF = `--- a/x.py
+++ b/x.py
@@ -1,4 +1,5 @@ def f():
 one
-two = 2
+two = 3
+more
 three
-four
+4
@@ -20 +21 @@
-old
\\ No newline at end of file
+new
`;

test("lines carry their numbers on both sides", () => {
  const [first, second] = parseDiff(DIFF);
  expect(first?.header).toBe("def f():");
  expect(first?.lines.map(({ kind, before, after }) => [kind, before, after])).toEqual([
    ["context", 1, 1],
    ["delete", 2, null],
    ["add", null, 2],
    ["add", null, 3],
    ["context", 3, 4],
    ["delete", 4, null],
    ["add", null, 5],
  ]);
  expect(second?.lines.map(({ text }) => text)).toEqual(["old", "new"]);
});

test("changes are counted, headers are not", () => {
  expect(countChanges(parseDiff(DIFF))).toEqual({ added: 4, deleted: 3 });
});

test("a line of dashes inside a hunk is a deleted line", () => {
  const [hunk] = parseDiff("--- a\n+++ b\n@@ -1,2 +1 @@\n--- a comment\n+++ b comment\n-x\n");
  expect(hunk?.lines.map(({ kind, text }) => [kind, text])).toEqual([
    ["delete", "-- a comment"],
    ["add", "++ b comment"],
    ["delete", "x"],
  ]);
});

test("side by side, a change faces what it replaced", () => {
  const rows = pairs(parseDiff(DIFF)[0]!.lines).map(({ left, right }) => [left?.text, right?.text]);
  expect(rows).toEqual([
    ["one", "one"],
    ["two = 2", "two = 3"],
    [undefined, "more"],
    ["three", "three"],
    ["four", "4"],
  ]);
});

test("the part of a line that changed is marked", () => {
  const [hunk] = parseDiff("@@ -1 +1 @@\n-let a = 1;\n+let a = 12;\n");
  expect(hunk?.lines.map(({ changed }) => changed)).toEqual([
    [9, 9],
    [9, 10],
  ]);
});

test("a line that became another is not marked", () => {
  const [hunk] = parseDiff("@@ -1 +1 @@\n-abc\n+xyz\n");
  expect(hunk?.lines.every(({ changed }) => changed === undefined)).toBe(true);
});

test("what is not a diff has no hunks", () => {
  expect(parseDiff("Binary files differ")).toEqual([]);
  expect(parseDiff("")).toEqual([]);
});

test("a header with wrong counts does not swallow the next hunk", () => {
  const hunks = parseDiff("@@ -1,9 +1,9 @@\n a\n-b\n+c\n@@ -40 +40 @@\n-d\n+e\n");
  expect(hunks.map(({ lines }) => lines.length)).toEqual([3, 2]);
});
