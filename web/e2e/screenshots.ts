/** `npm run screenshots`: the scenes of the documentation, taken from the page as it is. */

import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { BrowserContextOptions, Page } from "playwright-core";
import { FakeServer } from "../dev/server.js";
import { launch } from "./browser.js";

const OUT = fileURLToPath(new URL("../../docs/screenshots/", import.meta.url));
const PAGE = fileURLToPath(new URL("../../src/hames/web/static", import.meta.url));
const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true };
const PROMPT = "The sign-in crashes for unknown names. Find out why, and fix it with a test.";

mkdirSync(OUT, { recursive: true });
const browser = await launch();

async function scene(name: string, look: BrowserContextOptions, act: (page: Page) => Promise<unknown>): Promise<void> {
  const server = new FakeServer({
    page: PAGE,
    pace: 0,
    keyless: name.includes("no-key"),
    sandboxless: name.includes("no-key"),
  });
  const url = await server.start();
  const day = 86_400_000;
  for (const [title, age] of [
    ["Speed up the test suite", day],
    ["Why does the parser drop trailing commas?", 2 * day],
    ["Release notes for 0.9", 9 * day],
  ] as const) {
    server.create({ title, preview: title, updatedAt: Date.now() - age });
  }
  const thread = server.create();
  const context = await browser.newContext({ viewport: { width: 1280, height: 820 }, ...look });
  const page = await context.newPage();
  await page.goto(`${url}/t/${thread.id}`);
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  await act(page);
  await page.waitForTimeout(500);
  await page.screenshot({ path: `${OUT}${name}.png` });
  await context.close();
  await server.stop();
}

async function ask(page: Page): Promise<void> {
  await page.getByRole("textbox", { name: "Message" }).fill(PROMPT);
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("[data-approval]").waitFor();
}

const top = (page: Page) => page.locator(".viewport").evaluate((element) => element.scrollTo(0, 0));

await scene("empty", {}, async () => {});
await scene("thread", {}, async (page) => {
  await ask(page);
  await page.getByRole("button", { name: /^Plan/ }).click();
  await top(page);
});
await scene("approval-dark", { colorScheme: "dark" }, async (page) => {
  await ask(page);
  await page.getByRole("textbox", { name: "Message" }).fill("then update the changelog");
  await page.keyboard.press("Enter");
});
await scene("changes", {}, async (page) => {
  await ask(page);
  await page.getByRole("button", { name: /^Changes/ }).click();
  await page.locator(".panel").getByRole("button", { name: "Side by side" }).click();
});
await scene("time-travel", {}, async (page) => {
  await ask(page);
  await page.getByRole("button", { name: "Time travel" }).click();
  await page.getByRole("slider").fill("6");
});
await scene("no-key", {}, async () => {});
await scene("phone", PHONE, ask);
await scene("phone-dark", { ...PHONE, colorScheme: "dark" }, async (page) => {
  await ask(page);
  await page.getByRole("button", { name: "Threads" }).click();
});
await browser.close();
process.exit(0);
