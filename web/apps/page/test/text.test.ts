import { expect, test } from "vitest";
import { parseBlocks } from "../src/text/blocks.js";
import { ago, dollars, duration, shortPath, tokens, withoutContents } from "../src/text/format.js";
import { safeLink } from "../src/text/links.js";

test.each([
  ["https://example.com/a?b=1", "https://example.com/a?b=1"],
  ["http://example.com", "http://example.com/"],
  ["mailto:a@b.c", "mailto:a@b.c"],
  ["javascript:alert(1)", undefined],
  ["JaVaScRiPt:alert(1)", undefined],
  ["java\nscript:alert(1)", undefined],
  ["\u0001javascript:alert(1)", undefined],
  ["data:text/html,<script>", undefined],
  ["vbscript:x", undefined],
  ["file:///etc/passwd", undefined],
  ["//evil.example", undefined],
  ["/relative", undefined],
  ["https://user:secret@evil.example/", undefined],
])("the link %j leads to %j", (href, expected) => expect(safeLink(href)).toBe(expected));

const TEXT = `# Title

A paragraph with **bold**
over two lines.

- one
- two

  still two
- three

\`\`\`python
x = 1

y = 2
\`\`\`

| a | b |
|---|---|
| 1 | 2 |

> quote

- loose

- list

1. other

The end.
`;

const shape = (text: string) => parseBlocks(text).tokens.map(({ type, raw }) => [type, raw]);

test("however text is cut, the blocks come out the same", () => {
  for (const step of [1, 2, 3, 7, 19, 64]) {
    let blocks = parseBlocks("");
    for (let i = step; i < TEXT.length + step; i += step) blocks = parseBlocks(TEXT.slice(0, i), blocks);
    expect(blocks.tokens.map(({ type, raw }) => [type, raw])).toEqual(shape(TEXT));
  }
});

const ATOMS = [
  "a",
  "b c",
  "\n",
  "\n\n",
  "- ",
  "* ",
  "1. ",
  "> ",
  "# ",
  "```\n",
  "```",
  "|",
  "|---|\n",
  "| a | b |\n",
  "  ",
  "    ",
];
const ODD = [
  "\t",
  "---\n",
  "===\n",
  "<div>\n",
  "</div>\n",
  "**",
  "`",
  "[x]",
  "(y)",
  ": z",
  "\\",
  "~~~\n",
  "+ ",
  "- [ ] ",
  "<!--",
];

test("whatever is written, growing text has the blocks of the whole", () => {
  const atoms = [...ATOMS, ...ODD];
  let seed = 7;
  const next = (below: number) => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
  const blocks = (tokens: readonly { type: string; raw: string }[]) =>
    tokens.filter(({ type }) => type !== "space").map(({ type, raw }) => [type, raw.trim()]);
  for (let round = 0; round < 1_500; round++) {
    let text = "";
    let grown = parseBlocks("");
    for (let i = 3 + next(14); i > 0; i--) grown = parseBlocks((text += atoms[next(atoms.length)]), grown);
    expect(blocks(grown.tokens), JSON.stringify(text)).toEqual(blocks(parseBlocks(text).tokens));
  }
});

test("a line that was a rule and became words joins the block before it", () => {
  const text = "words\n*** and more";
  let grown = parseBlocks("");
  for (let i = 1; i <= text.length; i++) grown = parseBlocks(text.slice(0, i), grown);
  expect(grown.tokens.map(({ type }) => type)).toEqual(["paragraph"]);
});

test("a finished block is parsed once", () => {
  const before = parseBlocks("one\n\ntwo\n\nthree\n\nfo");
  const after = parseBlocks("one\n\ntwo\n\nthree\n\nfour", before);
  expect(after.tokens[0]).toBe(before.tokens[0]);
  expect(after.tokens[2]).toBe(before.tokens[2]);
});

test("text that was replaced is parsed again", () => {
  const before = parseBlocks("one\n\ntwo\n\nthree");
  expect(parseBlocks("ONE\n\ntwo\n\nthree", before).tokens[0]?.raw).toBe("ONE");
});

test("windows line ends do not shift anything", () => {
  const text = "one\r\n\r\ntwo\r\n\r\nthree\r\n\r\nfour";
  expect(
    parseBlocks(text, parseBlocks(text.slice(0, 18)))
      .tokens.map(({ raw }) => raw)
      .join(""),
  ).toBe("one\n\ntwo\n\nthree\n\nfour");
});

test("numbers are as people read them", () => {
  expect([0, 999, 1234, 45_678, 1_234_567].map(tokens)).toEqual(["0", "999", "1.2k", "46k", "1.2M"]);
  expect([0, 0.001, 1.234].map(dollars)).toEqual(["$0", "<$0.01", "$1.23"]);
  expect([12.4, 1_540, 61_000].map(duration)).toEqual(["12 ms", "1.5 s", "1 min 1 s"]);
  expect([0, 59_000, 120_000, 7_200_000, 172_800_000].map((ms) => ago(0, ms))).toEqual([
    "now",
    "now",
    "2m",
    "2h",
    "2d",
  ]);
});

test("what lies in a directory of the list is left out", () => {
  expect(withoutContents(["/w/made", "/w/made-too", "/w/made/a/b", "/w/x/y"])).toEqual([
    "/w/made",
    "/w/made-too",
    "/w/x/y",
  ]);
});

test("a path inside the workspace is shown from there, and its neighbour is not", () => {
  expect(shortPath("/a/b/c.py", "/a/b")).toBe("c.py");
  expect(shortPath("/a/bc/c.py", "/a/b")).toBe("/a/bc/c.py");
});

test.each([
  ["emphasis without end", "_a".repeat(20_000)],
  ["brackets without end", "[".repeat(50_000)],
  ["quotes deeper than the stack", "> ".repeat(5_000)],
  ["lists deeper than anybody reads", Array.from({ length: 800 }, (_, depth) => `${"  ".repeat(depth)}- a`).join("\n")],
])("%s stay text", (_, text) => {
  const blocks = parseBlocks(`Before.\n\n${text}`);
  expect(blocks.tokens).toEqual([{ type: "plain", raw: `Before.\n\n${text}` }]);
});
