import { expect, test } from "vitest";
import { parseAnsi, stripAnsi } from "../src/text/ansi.js";

test("plain text is one unstyled span per line", () => {
  expect(parseAnsi("a\nb")).toEqual([[{ text: "a", classes: "" }], [{ text: "b", classes: "" }]]);
});

test("the sixteen colours belong to the theme", () => {
  expect(parseAnsi("\u001b[31mred\u001b[0m \u001b[92;1mok\u001b[m")).toEqual([
    [
      { text: "red", classes: "", color: "var(--ansi-1)" },
      { text: " ", classes: "" },
      { text: "ok", classes: "ansi-bold", color: "var(--ansi-10)" },
    ],
  ]);
});

test("a style lasts until it is taken back, over lines too", () => {
  expect(parseAnsi("\u001b[2ma\nb\u001b[22mc").map((line) => line.map(({ classes }) => classes))).toEqual([
    ["ansi-dim"],
    ["ansi-dim", ""],
  ]);
});

test.each([
  ["\u001b[38;5;196mx", "rgb(255 0 0)"],
  ["\u001b[38;5;244mx", "rgb(128 128 128)"],
  ["\u001b[38;5;3mx", "var(--ansi-3)"],
  ["\u001b[38;2;1;2;3mx", "rgb(1 2 3)"],
  ["\u001b[38;2;999;2;3mx", "rgb(255 2 3)"],
])("%j is %s", (text, color) => {
  expect(parseAnsi(text)[0]?.[0]).toMatchObject({ text: "x", color });
});

test("inverse swaps the colours", () => {
  expect(parseAnsi("\u001b[7;31;42mx")[0]?.[0]).toMatchObject({ color: "var(--ansi-2)", background: "var(--ansi-1)" });
});

test("a carriage return starts the line again and keeps the colour", () => {
  expect(parseAnsi("\u001b[32m10%\r 50%\r100%\r\nnext")).toEqual([
    [{ text: "100%", classes: "", color: "var(--ansi-2)" }],
    [{ text: "next", classes: "", color: "var(--ansi-2)" }],
  ]);
});

test("what a terminal would obey and a page must not is dropped", () => {
  const hostile =
    "\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007 \u001b]0;title\u001b\\\u001b[2J\u001b[1;1H\u001b(B\u0000\u0008end";
  expect(stripAnsi(hostile)).toBe("link end");
});

test("an escape that was cut off swallows nothing but itself", () => {
  expect(stripAnsi("abc\u001b")).toBe("abc");
  expect(stripAnsi("abc\u001b[31")).toBe("abc31");
});

test("a cursor that moves is no colour", () => {
  expect(parseAnsi("\u001b[1Aup\u001b[31Kgone")).toEqual([
    [
      { text: "up", classes: "" },
      { text: "gone", classes: "" },
    ],
  ]);
});
