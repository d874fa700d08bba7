/** What a reply looks like while it streams, and after a reload. */

import { expect, test } from "vitest";
import { eventually, onThread, talk } from "./stage.js";

const REPLY = `See [the guide][g], [other][o] and [guide].

- one
- two

Words with a footnote[^1].

[g]: https://example.com/guide
[guide]: https://example.com/short
[^1]: https://example.com/footnote

| a | b |
|---|---|
| [x][g] | 2 |

Defined later: [o].

[o]: https://example.com/other
`;

const blank = { createdAt: 1, turnId: "t", reasoning: "", stopReason: "", error: "", attachments: [], toolCalls: [] };

test.each([1, 9, 64])("a streamed reply looks as it does after a reload, in pieces of %i", async (size) => {
  const { page, thread } = await onThread();
  const messages = [
    { ...blank, id: "m1", role: "user", content: "go", status: "complete" },
    { ...blank, id: "m2", role: "assistant", content: "", status: "streaming" },
  ];
  thread.commit([thread.set(["messages"], messages), thread.set(["status"], "running")]);
  for (let at = 0; at < REPLY.length; at += size) {
    thread.commit([thread.append(["messages", 1, "content"], REPLY.slice(at, at + size))]);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
  thread.commit([
    thread.set(["messages", 1, "status"], "complete"),
    thread.set(["messages", 1, "stopReason"], "end_turn"),
    thread.set(["status"], "idle"),
  ]);
  await talk(page).getByRole("button", { name: "Copy answer" }).waitFor();
  const drawn = () => talk(page).locator(".markdown").innerHTML();
  const live = await drawn();
  await page.reload();
  await eventually(() => talk(page).locator(".markdown").count(), 1);
  expect(live).toBe(await drawn());
  expect(await talk(page).locator(".markdown a").count()).toBe(6);
});

test("headings are not bold where the font has no weight between regular and bold", async () => {
  const { page, thread } = await onThread();
  const content = ["# One", "## Two", "### Three", "#### Four", "A **bold** word."].join("\n\n");
  const messages = [
    { ...blank, id: "m1", role: "user", content: "go", status: "complete" },
    { ...blank, id: "m2", role: "assistant", content, status: "complete" },
  ];
  thread.commit([thread.set(["messages"], messages)]);
  await talk(page).getByRole("heading", { name: "Four" }).waitFor();
  const session = await page.context().newCDPSession(page);
  await session.send("DOM.enable");
  await session.send("CSS.enable");
  const { root } = await session.send("DOM.getDocument");
  const faces = async (selector: string) => {
    const { nodeIds } = await session.send("DOM.querySelectorAll", { nodeId: root.nodeId, selector });
    const found = await Promise.all(
      nodeIds.map((nodeId) => session.send("CSS.getPlatformFontsForNode", { nodeId }).then(({ fonts }) => fonts)),
    );
    return found.flat().map(({ postScriptName }) => postScriptName);
  };
  const headings = await faces("h1, h2, h3, h4, h5, h6");
  expect(headings.length).toBeGreaterThanOrEqual(5);
  expect(headings.filter((face) => /bold/i.test(face))).toEqual([]);
  // What is bold on purpose is.
  expect(await faces(".markdown strong")).toEqual([expect.stringMatching(/bold/i)]);
});
