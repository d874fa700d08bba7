// @vitest-environment happy-dom
/** Markdown that streams in ends as the same elements as Markdown that was there from the start. */

import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, test } from "vitest";
import { Markdown } from "../src/text/markdown.js";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

const draw = (element: React.ReactNode, into = createRoot(document.createElement("div"))) => {
  act(() => into.render(element));
  return into;
};

function whole(text: string): string {
  const box = document.createElement("div");
  draw(<Markdown text={text} />, createRoot(box));
  return box.innerHTML;
}

/** Drawn piece by piece; what stands there while it still grows, and at the end. */
function streamed(text: string, step: number): { growing: string; ended: string } {
  const box = document.createElement("div");
  const root = createRoot(box);
  for (let at = step; at < text.length + step; at += step) draw(<Markdown text={text.slice(0, at)} live />, root);
  const growing = box.innerHTML;
  draw(<Markdown text={text} />, root);
  return { growing, ended: box.innerHTML };
}

const DOCUMENTS: Record<string, string> = {
  "a definition after its use":
    "See [the guide][g] and [other][o].\n\nMore.\n\nAnd more.\n\n[g]: https://example.com/g\n[o]: https://example.com/o\n",
  "a definition before its use":
    "[g]: https://example.com/g\n\nOne.\n\nTwo.\n\nSee [the guide][g].\n\nAnd [g] again.\n",
  "a shortcut reference": "See [guide].\n\nx\n\ny\n\nz\n\n[guide]: https://example.com/g 'Title'\n\nlast\n",
  "a footnote": "Words[^1] and more[^note].\n\nx\n\ny\n\n[^1]: What was meant.\n\n[^note]: And this.\n",
  "a footnote of one word": "Words[^1].\n\nx\n\ny\n\n[^1]: https://example.com/f\n\nz\n\nz\n",
  "a heading made by the line below it": "Title\n=====\n\nText\n----\n\nmore\n",
  "a list that becomes loose": "- a\n- b\n\n- c\n\n  still c\n\nText\n\n1. x\n2. y\n\n\n3. z\n",
  "a table": "| a | b |\n|---|--:|\n| [x][1] | 2 |\n\nText\n\nText\n\n[1]: https://example.com/1\n",
  "a quote with a reference": "> [a][b]\n> more\n\nText\n\nText\n\nText\n\n[b]: https://example.com/b\n",
  "code in the middle": "Text\n\n    indented\n\n~~~\nfenced\n\n[b]: https://example.com\n~~~\n\n[b]\n\nText\n\nText\n",
  "windows line ends": "# a\r\n\r\nb [x]\r\n\r\nc\r\n\r\nd\r\n\r\n[x]: https://example.com/x\r\n",
};

for (const [name, text] of Object.entries(DOCUMENTS))
  test.each([1, 3, 17])(`${name} ends the same, in pieces of %i`, (step) => {
    expect(streamed(text, step).ended).toBe(whole(text));
  });

test("a definition that has arrived is used while the reply still grows", () => {
  const text = DOCUMENTS["a definition after its use"]! + "\nText.\n\nText.\n\nText.\n";
  expect(streamed(text, 5).growing).toContain('href="https://example.com/g"');
  expect(streamed(DOCUMENTS["a definition before its use"]!, 5).growing).toContain('href="https://example.com/g"');
});

test("the words of a footnote are not lost", () => {
  expect(whole(DOCUMENTS["a footnote"]!)).toContain("What was meant.");
  expect(whole(DOCUMENTS["a footnote"]!)).toContain("Words[^1]");
});

const ATOMS = [
  "a",
  "b c",
  "\n",
  "\n\n",
  "- ",
  "> ",
  "# ",
  "`",
  "```\n",
  "[x]",
  "[x][y]",
  "[x]: https://e.com/x\n",
  "[y]: u\n",
  "|",
  "\n|--|\n",
  "    ",
  "1. ",
  "*",
  "[^1]",
  "[^1]: n\n",
  "\\",
  "<b>",
  "&amp;",
];

test("anything ends the same, however it is cut", () => {
  let seed = 7;
  const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 80; round++) {
    const text = Array.from({ length: 4 + random(30) }, () => ATOMS[random(ATOMS.length)]).join("");
    expect(streamed(text, 1 + random(9)).ended, JSON.stringify(text)).toBe(whole(text));
  }
}, 60_000);
