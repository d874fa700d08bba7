/** What a reply looks like while it streams, and after a reload. */

import { expect, test } from "vitest";
import { ask, eventually, onThread, talk } from "./stage.js";

test.each([1, 9, 64])("a streamed reply looks as it does after a reload, in pieces of %i", async (size) => {
  const { page } = await onThread();
  await ask(page, `links ${size}`);
  await talk(page).getByText("Defined later").waitFor();
  await talk(page).getByRole("button", { name: "Copy answer" }).waitFor();
  const drawn = () => talk(page).locator(".markdown").innerHTML();
  const live = await drawn();
  await page.reload();
  await eventually(() => talk(page).locator(".markdown").count(), 1);
  expect(live).toBe(await drawn());
  expect(await talk(page).locator(".markdown a").count()).toBe(6);
});

test("headings are not bold where the font has no weight between regular and bold", async () => {
  const { page } = await onThread();
  await ask(page, "headings please");
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
