/** What comes out as HTML when text goes in: rendered to a string, so that every byte can be looked at. */

import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Sources } from "../src/thread/sources.js";
import { Markdown } from "../src/text/markdown.js";
import { hides, Visible } from "../src/text/visible.js";

const html = (text: string) =>
  renderToStaticMarkup(<Markdown text={text} />).replace(/^<div class="markdown">|<\/div>$/g, "");

test.each([
  ["**a** *b* ~~c~~ `d`", "<p><strong>a</strong> <em>b</em> <del>c</del> <code>d</code></p>"],
  ["# a", '<h2 class="depth-1">a</h2>'],
  ["###### a", '<h2 class="depth-6">a</h2>'],
  ["# a\n\n### b\n\n## c", '<h2 class="depth-1">a</h2><h3 class="depth-3">b</h3><h3 class="depth-2">c</h3>'],
  ["> # a", '<blockquote><p class="depth-1">a</p></blockquote>'],
  ["> a", "<blockquote><p>a</p></blockquote>"],
  ["3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'],
  ["a  \nb", "<p>a<br/>b</p>"],
  ["---", "<hr/>"],
  ["&lt;b&gt; &amp; &#65; &#x42; &copy; &bogus;", "<p>&lt;b&gt; &amp; A B © &amp;bogus;</p>"],
  ["a\\*b", "<p>a*b</p>"],
])("%j becomes %s", (text, expected) => expect(html(text)).toBe(expected));

test.each([
  "<img src=x onerror=alert(1)>",
  "a <script>alert(1)</script> b",
  "<div onclick='x'>\n\n**b**\n\n</div>",
  "<!-- comment -->",
  "<svg/onload=alert(1)>",
  "| <b>x</b> |\n|---|\n| <i>y</i> |",
  "- <u>x</u>",
  "# <a href='javascript:1'>x</a>",
])("HTML in %j is shown as the text it is", (text) => {
  expect(html(text).replace(/<\/?(p|strong|div|table|thead|tbody|tr|th|td|ul|li|h2)( [^>]*)?>/g, "")).not.toContain(
    "<",
  );
});

test.each([
  "[x](javascript:alert(1))",
  "[x](data:text/html,1)",
  "<javascript:alert(1)>",
  "[x](/etc/passwd)",
  "![x](javascript:1)",
])("%j leads nowhere", (text) => expect(html(text)).not.toContain("href"));

test("a picture from elsewhere is a link, not a picture", () => {
  expect(html("![chart](https://example.com/x.png)")).toContain('<a href="https://example.com/x.png"');
  expect(html("![chart](https://example.com/x.png)")).not.toContain("<img");
});

test("a link opens elsewhere and tells nobody where it came from", () => {
  expect(html("[x](https://example.com)")).toContain('target="_blank" rel="noopener noreferrer nofollow"');
});

test("a definition at the end names a link at the start", () => {
  expect(html("[x][1]\n\n[1]: https://example.com/a")).toContain('href="https://example.com/a"');
});

test("code is text, and its language is a plain word", () => {
  const out = html('```html"><b>\n<b>x</b>\n```');
  expect(out).toContain("&lt;b&gt;x&lt;/b&gt;");
  expect(out).toContain("<span>html</span>");
});

test("task lists say what is done", () => {
  expect(html("- [x] a\n- [ ] b")).toMatch(/aria-label="done" checked="".*aria-label="to do"\/>/);
});

test.each([
  ["echo \u202e# rm", "U+202E"],
  ["a\u200bb", "U+200B"],
  ["a\u0007b", "U+0007"],
  ["a\u00a0b", "U+00A0"],
  ["a\u{e0041}b", "U+E0041"],
  ["a\rb", "U+000D"],
])("in %j the hidden character is shown by its number, every time", (text, name) => {
  for (let i = 0; i < 3; i++) {
    expect(hides(text)).toBe(true);
    expect(renderToStaticMarkup(<Visible text={text} />)).toContain(name);
  }
});

test("ordinary commands are shown as they are", () => {
  const text = "git commit -m 'naïve Übung 日本語 🙂'\n\techo done";
  expect(hides(text)).toBe(false);
  expect(renderToStaticMarkup(<Visible text={text} />)).toBe(text.replaceAll("'", "&#x27;"));
});

test("the sources of an answer are a numbered list, each once, and only web addresses are links", () => {
  const drawn = renderToStaticMarkup(
    <Sources
      citations={[
        { url: "https://a.example/x", title: "A page" },
        { url: "https://a.example/x", quote: "again" },
        { url: "javascript:alert(1)", title: "Not a page" },
        { title: "A document" },
        {},
      ]}
    />,
  );
  expect(drawn.match(/<li>/g)).toHaveLength(3);
  expect(drawn.match(/href="[^"]*"/g)).toEqual(['href="https://a.example/x"']);
  expect(drawn).toContain("A document");
  expect(renderToStaticMarkup(<Sources citations={[]} />)).toBe("");
});
